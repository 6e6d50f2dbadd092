"""The wait of a request: ended by news, by another request, or by its deadline."""

import asyncio
from typing import Any

import pytest

from strandline_broker.hosts.fetching.long_poll import LongPoll


async def test_what_came_since_the_look_began_ends_the_wait_at_once() -> None:
    poll = LongPoll()
    poll.begin()
    poll.end()
    await asyncio.wait_for(poll.ended(), 60)


async def test_news_end_the_wait_and_not_the_next_one() -> None:
    poll, loop = LongPoll(), asyncio.get_running_loop()
    poll.begin()
    poll.until(loop.time() + 60)
    loop.call_soon(poll.end)
    await asyncio.wait_for(poll.ended(), 60)
    poll.begin()
    again = asyncio.create_task(poll.ended())
    for _ in range(10):
        await asyncio.sleep(0)
    assert poll.is_asleep
    poll.end()
    assert not poll.is_asleep, "it is woken, though it has yet to run"
    await asyncio.wait_for(again, 60)
    poll.close()


async def test_a_wait_ends_at_its_own_deadline_whatever_the_one_before_had() -> None:
    for before_s, wait_s in ((60.0, 0.02), (0.02, 0.06)):
        poll, loop = LongPoll(), asyncio.get_running_loop()
        poll.begin()
        poll.until(loop.time() + before_s)
        loop.call_soon(poll.end)
        await poll.ended()
        poll.begin()
        until = loop.time() + wait_s
        poll.until(until)
        await asyncio.wait_for(poll.ended(), 60)
        assert loop.time() >= until
        poll.close()


async def test_a_deadline_may_be_set_while_somebody_waits() -> None:
    poll, loop = LongPoll(), asyncio.get_running_loop()
    poll.begin()
    waiting = asyncio.create_task(poll.ended())
    await asyncio.sleep(0)
    poll.begin()
    poll.until(loop.time() + 0.02)
    await asyncio.wait_for(waiting, 60)


async def test_a_wait_without_a_deadline_hears_no_alarm_of_the_one_before() -> None:
    poll, loop = LongPoll(), asyncio.get_running_loop()
    poll.until(loop.time())
    poll.begin()
    waiting = asyncio.create_task(poll.ended())
    rung = loop.create_future()
    loop.call_at(loop.time(), rung.set_result, None)
    await rung
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_deadlines_that_rise_share_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    poll, loop, set_at = LongPoll(), asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def noted(when: float, *rest: Any, **kwargs: Any) -> asyncio.TimerHandle:
        set_at.append(when)
        return call_at(when, *rest, **kwargs)

    monkeypatch.setattr(loop, "call_at", noted)
    for i in range(5):
        poll.begin()
        poll.until(loop.time() + 60 + i)
        loop.call_soon(poll.end)
        await poll.ended()
    assert len(set_at) == 1
    poll.close()

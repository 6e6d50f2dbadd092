"""The wait of a request: ended by news, by another request, or by its deadline."""

import asyncio
from typing import Any

import pytest

from strandline_broker.hosts.long_poll import LongPoll


async def test_what_came_since_the_look_began_ends_the_wait_at_once() -> None:
    poll, loop = LongPoll(), asyncio.get_running_loop()
    poll.begin()
    poll.end()
    await asyncio.wait_for(poll.ended(loop.time() + 60), 10)


async def test_news_end_the_wait_and_not_the_next_one() -> None:
    poll, loop = LongPoll(), asyncio.get_running_loop()
    poll.begin()
    loop.call_soon(poll.end)
    await asyncio.wait_for(poll.ended(loop.time() + 60), 10)
    poll.begin()
    again = asyncio.create_task(poll.ended(loop.time() + 60))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
    poll.close()


async def test_a_wait_ends_at_its_own_deadline_whatever_the_one_before_had() -> None:
    for before_s, wait_s in ((60.0, 0.02), (0.02, 0.06)):
        poll, loop = LongPoll(), asyncio.get_running_loop()
        poll.begin()
        loop.call_soon(poll.end)
        await poll.ended(loop.time() + before_s)
        poll.begin()
        until = loop.time() + wait_s
        await asyncio.wait_for(poll.ended(until), 10)
        assert loop.time() >= until
        poll.close()


async def test_deadlines_that_rise_share_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    poll, loop, set_at = LongPoll(), asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def noted(when: float, *rest: Any, **kwargs: Any) -> asyncio.TimerHandle:
        set_at.append(when)
        return call_at(when, *rest, **kwargs)

    monkeypatch.setattr(loop, "call_at", noted)
    for i in range(5):
        poll.begin()
        loop.call_soon(poll.end)
        await poll.ended(loop.time() + 60 + i)
    assert len(set_at) == 1
    poll.close()

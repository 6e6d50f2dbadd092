"""A follower's stream: requests in turn, few under way, and no answer waited for without end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.common.fetch_messages import FetchResponse
from strandline_broker.hosts.fetching import stream as fetch_stream
from strandline_broker.hosts.fetching.stream import FetchStream, FetchStreams
from strandline_proto.ids import BrokerEpoch, BrokerId

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.hosts.common.fetch_messages import FetchRequest


class Leader:
    """The other end of the stream."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self.answers: asyncio.Queue[FetchResponse] = asyncio.Queue()
        self.is_cancelled = False

    async def write(self, request: FetchRequest) -> None:
        self.requests.append(request)

    async def read(self) -> FetchResponse | None:
        return await self.answers.get()

    def cancel(self) -> None:
        self.is_cancelled = True

    def answer(self) -> None:
        self.answers.put_nowait(FetchResponse(0, 1))


class Changes:
    """A fetcher in which something may always have changed."""

    is_idle = False

    def __init__(self) -> None:
        self.has_changes = False
        self._nudge = asyncio.Event()

    def change(self) -> None:
        self.has_changes = True
        self._nudge.set()

    def begin(self) -> None: ...

    async def nudged(self) -> None:
        await self._nudge.wait()
        self._nudge.clear()

    def next_request(self, number: int) -> tuple[list[Any], dict[Any, Any]]:
        self.has_changes = False
        return [], {}

    async def apply(self, response: FetchResponse, number: int) -> None: ...


def stream_of(fetcher: Any, leader: Leader) -> FetchStream:
    current = SimpleNamespace(
        node_id=1,
        replica_fetch_wait_max_ms=10,
        replica_fetch_min_bytes=1,
        replica_fetch_response_max_bytes=1,
    )
    config: Any = SimpleNamespace(current=current)
    return FetchStream(fetcher, config, "c", lambda: BrokerEpoch(1), leader)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_partitions_that_are_added_one_by_one_do_not_become_a_request_each() -> None:
    fetcher, leader = Changes(), Leader()
    running = asyncio.create_task(stream_of(fetcher, leader).run())
    await turns()
    assert len(leader.requests) == 1
    for _ in range(50):
        fetcher.change()
        await turns()
    assert len(leader.requests) == 2, "one that the leader may hold, and one that ends its wait"
    leader.answer()
    await turns()
    assert len(leader.requests) == 3, "with all that has changed meanwhile"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert leader.is_cancelled


async def test_a_leader_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-80: from its last answer on, and however many have come before."""
    monkeypatch.setattr(fetch_stream, "ANSWER_GRACE_S", 0.1)
    leader, loop = Leader(), asyncio.get_running_loop()
    began_s, last_s = loop.time(), 0.18
    for answer_s in (0.03, 0.06, 0.09, 0.12, 0.15, last_s):
        loop.call_at(began_s + answer_s, leader.answer)
    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(stream_of(Changes(), leader).run(), 60)
    assert isinstance(ended.value.exceptions[0], TimeoutError)
    assert loop.time() - began_s >= last_s + 0.1


async def streams_of(leader: Leader, fetcher: Any) -> tuple[Any, FetchStreams, asyncio.Task[None]]:
    """Where brokers are, and the stream to broker 1, which is at `old`."""
    at: dict[int, object] = {1: "old"}
    current: Any = stream_of(fetcher, leader)._config.current
    current.inter_broker_listener_name = "L"
    view = SimpleNamespace(endpoint=lambda broker, listener: at.get(broker))

    @asynccontextmanager
    async def open_fetch(endpoint: object) -> AsyncIterator[Leader]:
        assert endpoint == "old"
        yield leader

    metadata: Any = SimpleNamespace(view=view, cluster_id="c")
    controller: Any = SimpleNamespace(broker_epoch=lambda: BrokerEpoch(1))
    config: Any = SimpleNamespace(current=current)
    opens: Any = open_fetch
    streams = FetchStreams(config, metadata, controller, opens)
    running = asyncio.create_task(streams.run(fetcher, BrokerId(1)))
    await turns()
    return at, streams, running


async def test_a_stream_ends_when_its_leader_has_begun_anew_elsewhere() -> None:
    """The machine that it was on may be silent: what nobody there copies, nobody commits (I-88)."""
    leader = Leader()
    at, streams, running = await streams_of(leader, Changes())
    streams.on_published()
    at[1] = None
    streams.on_published()
    await turns()
    assert not running.done(), "it may be where it was"
    at[1] = "new"
    streams.on_published()
    await asyncio.wait([running], timeout=60)
    assert running.done(), "it is elsewhere"
    with pytest.raises(ExceptionGroup, match="unhandled") as ended:
        await running
    assert isinstance(ended.value.exceptions[0], ConnectionError)
    assert leader.is_cancelled
    streams.on_published()


async def test_what_a_leader_has_answered_before_it_went_is_applied_to_the_end() -> None:
    """A follower that stops within an answer has appended and not learned the watermark (I-43)."""

    class Slow(Changes):
        applied = 0

        async def apply(self, response: FetchResponse, number: int) -> None:
            await turns()
            self.applied += 1

    leader, fetcher = Leader(), Slow()
    at, streams, running = await streams_of(leader, fetcher)
    leader.answer()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    at[1] = "new"
    streams.on_published()
    with pytest.raises(ExceptionGroup):
        await asyncio.wait_for(running, 60)
    assert fetcher.applied == 1
    assert len(leader.requests) == 1

"""What becomes of partitions that were lost before the application polled, and of a member that
left before it had given up its own.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline import Consumer, ConsumerRebalanceListener, TopicPartition
from strandline._core.commit_state import CommitOffset
from strandline._groups.commits import Fetched
from strandline.errors import ClientClosed, CommitFailed
from strandline_proto.batch import build_batch
from strandline_proto.errors import CoordinatorNotAvailable
from support.poll_clock import POLL_INTERVAL_MS, PollClock
from support.replica_nodes import eventually
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

T0 = TopicPartition("orders", 0)


class Heard(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.log: list[tuple[str, frozenset[TopicPartition]]] = []
        self.on_revoked: Callable[[], Awaitable[None]] | None = None
        self.asked = False
        """True once a revocation has begun."""

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        self.asked = True
        if self.on_revoked is not None:
            await self.on_revoked()
        self.log.append(("revoked", revoked))

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        self.log.append(("assigned", assigned))

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        self.log.append(("lost", lost))


async def test_an_assignment_that_was_lost_by_then_is_told_to_nobody() -> None:
    """Another may have the partitions, and the member knows (I-132)."""
    heard = Heard()
    async with scripted_cluster(1) as cluster:
        cluster.create("orders", 1)
        cluster.partition("orders", 0).append(build_batch([(None, b"a")], timestamp_ms=1000))
        async with Consumer(
            bootstrap_servers=cluster.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        ) as consumer:
            consumer.subscribe(["orders"], listener=heard)
            await eventually(lambda: consumer.assignment() == {T0}, "it has a partition")
            known = consumer.group_metadata()
            cluster.groups.expire("g", known.member_id)
            await eventually(
                lambda: consumer.group_metadata().generation_id > known.generation_id,
                "it has joined anew",
            )
            assert heard.log == []
            assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
            assert heard.log == [("assigned", frozenset({T0}))]


@asynccontextmanager
async def one_member(
    heard: Heard | None = None, *, patience_ms: int = 500, **options: Any
) -> AsyncIterator[tuple[ScriptedCluster, Consumer]]:
    """A consumer that owns the only partition, and waits so long for its listener."""
    async with scripted_cluster(1) as cluster:
        cluster.create("orders", 1)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=50,
            request_timeout_ms=patience_ms,
            **options,
        ) as consumer:
            consumer.subscribe(["orders"], listener=heard)
            await consumer.wait_assigned(60_000)
            yield cluster, consumer


async def test_who_waits_in_a_poll_is_polling(caplog: pytest.LogCaptureFixture) -> None:
    async with one_member(max_poll_interval_ms=POLL_INTERVAL_MS) as (_, consumer):
        clock = PollClock(consumer)
        polling = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0)
        clock.advance(2)
        await eventually(lambda: clock.was_read, "the member looks at the clock")
        assert "no poll for max_poll_interval_ms" not in caplog.text
        polling.cancel()
        await asyncio.wait([polling])
        clock.advance(2)
        overdue = "no poll for max_poll_interval_ms"
        await eventually(lambda: overdue in caplog.text, "nothing polls any more")


def hanging(heard: Heard) -> asyncio.Event:
    """The listener ends only once the event is set."""
    may_end = asyncio.Event()

    async def hang() -> None:
        await may_end.wait()

    heard.on_revoked = hang
    return may_end


async def test_a_listener_that_ends_after_its_member_left_does_not_end_the_next_membership() -> (
    None
):
    """The consumer would wait for partitions without being in the group."""
    heard = Heard()
    async with one_member(heard) as (_, consumer):
        may_end = hanging(heard)
        await consumer.unsubscribe()
        consumer.subscribe(["orders"], listener=heard)
        may_end.set()
        assert await consumer.wait_assigned(60_000) == {T0}
        assert consumer.subscription() == {"orders"}


async def test_who_subscribes_after_an_unsubscribe_was_cut_off_stays() -> None:
    heard = Heard()
    async with one_member(heard, patience_ms=60_000) as (cluster, consumer):
        may_end = hanging(heard)
        assert consumer._group is not None
        leaving = asyncio.create_task(consumer.unsubscribe())
        await eventually(lambda: heard.asked, "its listener hangs")
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        consumer.subscribe(["orders"], listener=heard)
        assert not consumer._group.rebalancing.polled.is_set(), "what it was handed is in work"
        may_end.set()
        await eventually(lambda: ("revoked", frozenset({T0})) in heard.log, "it has heard")
        assert await consumer.wait_assigned(60_000) == {T0}
        assert consumer.subscription() == {"orders"}
        await consumer.unsubscribe()
        assert cluster.groups.group("g").members == {}


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_commit_of_a_member_that_has_left_is_nobodys(comes_back: bool) -> None:
    """Another may have owned the partition in between, and have read on; and a group without
    members takes commits of anybody (I-106).
    """
    heard, late = Heard(), list[asyncio.Future[None]]()
    async with one_member(heard, patience_ms=3000) as (cluster, consumer):
        cluster.partition("orders", 0).append(build_batch([(None, b"a")] * 9, timestamp_ms=1000))
        may_end, group = asyncio.Event(), cluster.groups.group("g")

        async def commit() -> None:
            cluster.groups.refuse_commits.extend([CoordinatorNotAvailable.code] * 1000)
            await asyncio.sleep(1.5)  # the member leaves before this commit ends
            late.append(consumer.commit_async({T0: 5}))
            await may_end.wait()

        heard.on_revoked = commit
        await consumer.unsubscribe()
        if comes_back:
            consumer.subscribe(["orders"], listener=heard)
        else:
            await eventually(lambda: group.members == {}, "the member has left")
        cluster.groups.refuse_commits.clear()
        with pytest.raises(CommitFailed, match="orders:0"):
            await late[0]
        assert group.commits == []
        may_end.set()
        heard.on_revoked = None
        if comes_back:
            assert await consumer.wait_assigned(60_000) == {T0}


async def test_a_stop_that_is_cut_off_while_partitions_are_taken_up_is_only_cut_off() -> None:
    async with one_member() as (cluster, consumer):
        assert consumer._group is not None
        commits, known = consumer._group.commits, consumer.group_metadata()
        asked, answer = asyncio.Event(), asyncio.Event()

        async def fetch_once(keys: Any, timeout_s: float, *, by_member: bool) -> Fetched:
            asked.set()
            await answer.wait()
            return Fetched(dict.fromkeys(keys, CommitOffset(0)), {})

        commits.fetch_once = fetch_once  # type: ignore[method-assign]
        cluster.groups.expire("g", known.member_id)
        polling = asyncio.create_task(consumer.getone())
        await asyncio.wait_for(asked.wait(), 60)
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0.05)
        stopping.cancel()
        answer.set()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        with pytest.raises(ClientClosed):
            await polling

"""What a consumer's commit says of an offset, and how long it is the consumer's to commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import (
    Consumer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
    errors,
)
from strandline.errors import BrokerUnreachable, ClientClosed, CommitFailed, OperationTimedOut
from strandline_proto.batch import build_batch
from strandline_proto.errors import CoordinatorNotAvailable, FencedMemberEpoch
from strandline_proto.v1.committed_offsets_pb2 import OffsetCommitResponse
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T0 = TopicPartition("orders", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        scripted.create("orders", 1)
        yield scripted


def write(cluster: ScriptedCluster, *values: bytes) -> None:
    batch = build_batch([(None, value) for value in values], timestamp_ms=1000)
    assert cluster.partition("orders", 0).append(batch)[0] == 0


def member(cluster: ScriptedCluster, *, request_timeout_ms: int = 30_000) -> Consumer:
    return Consumer(
        bootstrap_servers=cluster.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        request_timeout_ms=request_timeout_ms,
    )


class Heard(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.log: list[str] = []

    async def on_partitions_assigned(self, _: frozenset[TopicPartition]) -> None:
        self.log.append("assigned")

    async def on_partitions_lost(self, _: frozenset[TopicPartition]) -> None:
        self.log.append("lost")


async def test_it_has_the_epoch_of_the_record_before_where_that_was_handed_over(
    cluster: ScriptedCluster,
) -> None:
    """Without it whoever begins there would believe a deposed leader (P-82)."""
    write(cluster, b"a")
    cluster.move_leader("orders", 0, 2)
    write(cluster, b"b", b"c")
    async with member(cluster) as consumer:
        await consumer.assign([T0])
        while await consumer.position(T0) < 2:
            await consumer.getmany(timeout_ms=1000, max_records=1)

        async def kept(at: int | tuple[int, str] | OffsetAndMetadata) -> object:
            await consumer.commit({T0: at})
            return await consumer.committed(T0, metadata=True)

        assert await kept(1) == OffsetAndMetadata(1, "", 0)
        assert await kept((2, "text")) == OffsetAndMetadata(2, "text", 1)
        assert await kept(OffsetAndMetadata(2, "mine")) == OffsetAndMetadata(2, "mine", 1)
        assert await kept(OffsetAndMetadata(2, "", 0)) == OffsetAndMetadata(2, "", 0)
        assert await kept(3) == OffsetAndMetadata(3, "", -1), "nobody was handed that"


async def test_it_ends_with_the_ownership_though_the_partition_comes_back(
    cluster: ScriptedCluster,
) -> None:
    """Others may have had it meanwhile, and gone on (I-106)."""
    write(cluster, b"a", b"b")
    heard = Heard()
    async with member(cluster) as consumer:
        consumer.subscribe(["orders"], listener=heard)
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
        cluster.groups.refuse_commits.extend([CoordinatorNotAvailable.code] * 1000)
        under_way, waiting = consumer.commit_async(), consumer.commit_async({T0: (1, "later")})
        cluster.groups.expire("g", consumer.group_metadata().member_id)
        async with asyncio.timeout(60):
            while heard.log != ["assigned", "lost", "assigned"]:
                await consumer.getmany(timeout_ms=10, max_records=1)
        cluster.groups.refuse_commits.clear()
        for result in (under_way, waiting):
            with pytest.raises(CommitFailed, match="orders:0") as failed:
                await result
            assert failed.value.may_have_been_written is (result is under_way)
        assert cluster.groups.group("g").commits == []
        await consumer.commit({T0: 1})
        assert await consumer.committed(T0) == 1


async def test_it_follows_a_push_of_the_stream_that_carries_it(cluster: ScriptedCluster) -> None:
    """Or it may be stuck on its way, and be taken by a coordinator that knows of no later one."""
    write(cluster, b"a")
    async with member(cluster) as consumer:
        consumer.subscribe(["orders"])
        await consumer.getone()
        beats = len(cluster.groups.heartbeats)
        cluster.groups.is_mute = True
        for broker in cluster.brokers.values():
            broker.drop_streams()
        committing = asyncio.ensure_future(consumer.commit())
        async with asyncio.timeout(60):
            while len(cluster.groups.heartbeats) == beats:  # noqa: ASYNC110 - it gives no event
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the new stream has an order of its own, and nothing is awaited
        assert not committing.done()
        cluster.groups.is_mute = False
        cluster.groups.tell("g")
        await committing
        at = await consumer.committed(T0)
    assert at == 1
    assert cluster.groups.early_commits == 0


async def test_one_that_is_late_says_what_was_in_its_way(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not that its last try, to which its own end left a moment, was not answered."""
    async with member(cluster, request_timeout_ms=2000) as consumer:
        consumer.subscribe(["orders"])
        await consumer.wait_assigned(60_000)
        assert consumer._group is not None
        tries = 0

        async def send(commit: object, timeout_s: float) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise errors.CoordinatorNotAvailable("as scripted")
            await asyncio.sleep(timeout_s)
            raise BrokerUnreachable("the group's coordinator did not answer in time")

        monkeypatch.setattr(consumer._group.commits, "_send", send)
        with pytest.raises(OperationTimedOut, match="CoordinatorNotAvailable: as scripted"):
            await consumer.commit({T0: 0})
        assert tries == 2


async def test_one_that_is_answered_while_its_consumer_is_cut_off_breaks_nothing(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(cluster) as consumer:
        consumer.subscribe(["orders"])
        await consumer.wait_assigned(60_000)
        assert consumer._group is not None
        answer: asyncio.Future[OffsetCommitResponse] = asyncio.get_running_loop().create_future()
        sent = asyncio.Event()

        async def send(commit: object, timeout_s: float) -> OffsetCommitResponse:
            sent.set()
            return await answer

        monkeypatch.setattr(consumer._group.commits, "_send", send)
        committing = consumer.commit_async({T0: 0})
        await sent.wait()
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0.05)
        stopping.cancel()
        answer.set_result(OffsetCommitResponse(error_code=FencedMemberEpoch.code))
        with pytest.raises(asyncio.CancelledError):
            await stopping
        with pytest.raises(ClientClosed):
            await committing

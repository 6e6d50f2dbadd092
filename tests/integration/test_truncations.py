"""A follower that is told to cut what it knows to be committed stops, and says so (I-41)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc.aio

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from strandline_proto.errors import InvalidRequest, OffsetOutOfRange, UnknownTopicOrPartition
from strandline_proto.ids import LeaderEpoch
from strandline_proto.v1 import services_pb2_grpc, truncations_pb2
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

KEY = (TOPIC_ID, 0)


def append(node: Node, value: bytes) -> None:
    check_leader(node.partition, None).appends.append(
        build_batch([(None, value)], timestamp_ms=1), acks=1, on_done=lambda _: None
    )


@asynccontextmanager
async def two_that_have_refused(tmp_path: Path) -> AsyncIterator[tuple[Node, Node, Node]]:
    """Three records are committed; the next leader has one of them, and nobody has said so."""
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(run_node(tmp_path / str(i), i)) for i in (1, 2, 3)]
        a, b, c = nodes
        await decide(state(1, epoch=0, isr=(1, 2, 3)), *nodes)
        for i in range(3):
            append(a, b"%d" % i)
        await eventually(lambda: all(n.partition.high_watermark == 3 for n in nodes), "all know")
        async with a.partition.gate:
            await a.partition.truncate(1)
        await decide(state(1, epoch=1, isr=(1,), min_insync=1), a, b, c)
        for node in (b, c):
            await eventually(lambda node=node: node.partition.refused is not None, "it has refused")
        yield a, b, c


async def allow(node: Node, *, offset: int, partition: int = 0) -> int:
    async with grpc.aio.insecure_channel(node.target) as channel:
        answer = await services_pb2_grpc.BrokerServiceStub(channel).AllowTruncation(
            truncations_pb2.AllowTruncationRequest(
                topic_id=TOPIC_ID, partition=partition, offset=offset
            )
        )
    return answer.error_code


async def test_it_keeps_its_log_and_tells_what_it_was_to_cut(tmp_path: Path) -> None:
    async with two_that_have_refused(tmp_path) as (_, b, c):
        assert b.replicas.offline_replicas() == {KEY: ReplicaCondition.TRUNCATION_REFUSED}
        (told,) = b.replicas.truncations.of(b.replicas.partitions.values())
        assert (told.leader, told.leader_epoch, told.offset) == (1, 1, 1)
        assert (told.high_watermark, told.log_end_offset) == (3, 3)
        for node in (b, c):
            assert node.partition.log.log_end_offset == node.partition.high_watermark == 3
            assert node.partition.follower is not None
            assert not node.partition.follower.may_fetch


async def test_a_clean_election_of_another_does_not_release_it_and_an_unclean_one_does(
    tmp_path: Path,
) -> None:
    async with two_that_have_refused(tmp_path) as (a, b, c):
        await decide(state(1, epoch=2, isr=(1,), min_insync=1), a, b, c)
        assert b.partition.refused is not None
        assert b.partition.log.log_end_offset == 3
        unclean = replace(state(1, epoch=3, isr=(1,), min_insync=1), unclean_epoch=LeaderEpoch(3))
        await decide(unclean, a, b, c)
        for node in (b, c):
            await eventually(lambda node=node: node.partition.log.log_end_offset == 1, "it is cut")
            assert node.partition.refused is None
            assert node.replicas.offline_replicas() == {}


async def test_one_that_leads_is_released_and_has_kept_everything(tmp_path: Path) -> None:
    async with two_that_have_refused(tmp_path) as (a, b, c):
        await decide(state(2, epoch=2, isr=(2,), min_insync=1), b, c, a)
        assert b.partition.refused is None
        assert b.replicas.offline_replicas() == {}
        await eventually(lambda: a.partition.log.log_end_offset == 3, "it is copied from here")


async def test_an_operator_lets_it_go_on_with_the_very_offset_that_it_has_told(
    tmp_path: Path,
) -> None:
    async with two_that_have_refused(tmp_path) as (a, b, c):
        assert await allow(b, offset=2) == OffsetOutOfRange.code
        assert await allow(b, offset=1, partition=7) == UnknownTopicOrPartition.code
        assert await allow(a, offset=1) == InvalidRequest.code, "it leads"
        assert b.partition.log.log_end_offset == 3
        assert await allow(b, offset=1) == 0
        await eventually(lambda: b.partition.log.log_end_offset == 1, "it is cut")
        assert b.replicas.offline_replicas() == {}
        (lost,) = b.replicas.losses.waiting()
        assert (lost.start, lost.end, lost.committed) == (1, 3, 3)
        assert await allow(b, offset=1) == InvalidRequest.code, "nothing is refused any more"
        append(a, b"next")
        await eventually(lambda: b.partition.log.log_end_offset == 2, "it follows again")
        assert c.partition.log.log_end_offset == 3, "the other one still waits"

"""End markers for partitions that a broker leads, and the producers that it describes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.producers.describe import DescribedProducer, ProducersService
from strandline_broker.hosts.serving.producers.markers import MarkersService
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite
from strandline_proto import errors
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId
from support.replica_nodes import TOPIC_ID, decide, run_node, state
from support.scripted_verifier import transactional

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.replica.partition import Partition
    from support.replica_nodes import Node

P, Q = 7, 8
PARTITIONS = 3


def marker(
    producer_id: int = P,
    epoch: int = 1,
    *,
    commit: bool = True,
    coordinator: int = 3,
    version: int = 2,
) -> EndMarker:
    ids = ProducerId(producer_id), ProducerEpoch(epoch)
    return EndMarker(*ids, commit, LeaderEpoch(coordinator), version)


@dataclass
class Leader:
    node: Node
    service: MarkersService
    through_groups: list[tuple[Key, EndMarker]] = field(default_factory=list)

    def partition(self, index: int = 0) -> Partition:
        return self.node.replicas.partitions[TOPIC_ID, index]

    def append(self, index: int = 0, *, producer_id: int = P, epoch: int = 0) -> None:
        """Opens a transaction."""
        check_leader(self.partition(index), None).appends.append(
            transactional(0, b"a", b"b", producer_id=producer_id, epoch=epoch),
            acks=1,
            on_done=lambda _: None,
            origin=AppendOrigin.COORDINATOR,
        )

    async def write(self, *asked: tuple[EndMarker, list[int]]) -> list[list[int | None]]:
        """The error code of each result."""
        markers = [MarkerToWrite(m, [(TOPIC_ID, i) for i in indexes]) for m, indexes in asked]
        results = await self.service.write(markers)
        return [[None if e is None else e.code for e in of_one] for of_one in results]


@asynccontextmanager
async def leader(path: Path, *, isr: tuple[int, ...] = (1,)) -> AsyncIterator[Leader]:
    """A broker that leads partitions 0 to 2 of orders; only partition 0 has the given ISR."""
    async with run_node(path, 1) as node:
        for index in range(PARTITIONS):
            members = isr if index == 0 else (1,)
            led = state(1, epoch=0, isr=members, replicas=members, min_insync=1)
            await decide(replace(led, partition=index), node)
        b = Leader(node, None)  # type: ignore[arg-type] # it follows

        async def through_group(key: Key, written: EndMarker) -> None:
            b.through_groups.append((key, written))
            if written.producer_id == Q:
                raise errors.NotLeaderOrFollower("the shard loads")

        b.service = MarkersService(node.replicas, node.metadata, through_group)
        yield b


async def test_markers_end_transactions_and_each_partition_has_its_result(tmp_path: Path) -> None:
    async with leader(tmp_path) as b:
        for index in (0, 1):
            b.append(index)
        b.append(0, producer_id=Q)
        found = await b.write((marker(), [0, 1, 9]), (marker(Q, commit=False), [0]))
        assert found == [[None, None, errors.UnknownTopicOrPartition.code], [None]]
        assert [b.partition(i).producers.open_epoch(P) for i in (0, 1)] == [None, None]
        assert b.partition(0).log.log_end_offset == 6
        assert await b.write((marker(), [0, 1])) == [[None, None]], "repeated (I-156)"
        assert b.partition(0).log.log_end_offset == 6


async def test_a_marker_is_reported_once_it_is_committed(tmp_path: Path) -> None:
    """I-164; a partition that cannot commit answers soon, and its marker is found there again."""
    async with leader(tmp_path, isr=(1, 2)) as b:
        b.append(0)
        b.append(1)
        assert await b.write((marker(), [0, 1])) == [[errors.RequestTimedOut.code, None]]
        end = b.partition(0).log.log_end_offset
        assert await b.write((marker(), [0])) == [[errors.RequestTimedOut.code]]
        assert b.partition(0).log.log_end_offset == end == 3
        writing = asyncio.get_running_loop().create_task(b.write((marker(), [0])))
        await asyncio.sleep(0)
        alone = state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1, partition_epoch=1)
        await decide(alone, b.node)
        assert await writing == [[None]]


async def test_the_end_of_the_leadership_leaves_the_outcome_open(tmp_path: Path) -> None:
    async with leader(tmp_path, isr=(1, 2)) as b:
        b.append(0)
        writing = asyncio.get_running_loop().create_task(b.write((marker(), [0])))
        await asyncio.sleep(0)
        await decide(state(2, epoch=1, isr=(1, 2), replicas=(1, 2)), b.node)
        assert await writing == [[errors.NotLeaderOrFollower.code]]


async def test_a_caller_that_leaves_does_not_undo_the_marker(tmp_path: Path) -> None:
    async with leader(tmp_path, isr=(1, 2)) as b:
        b.append(0)
        writing = asyncio.get_running_loop().create_task(b.write((marker(), [0])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert writing.cancelled()
        appends = check_leader(b.partition(0), None).appends
        assert [each for each in appends.waiting() if not each.is_done] == []
        assert b.partition(0).log.log_end_offset == 3


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (marker(coordinator=2), 52),
        (marker(epoch=0), 47),
        (marker(epoch=-1), 42),
        (marker(epoch=1 << 15), 42),
        (marker(-1), 42),
        (marker(coordinator=-1), 42),
        (marker(version=3), 42),
    ],
)
async def test_a_stale_or_wrong_marker_is_refused(
    tmp_path: Path, refused: EndMarker, code: int
) -> None:
    """I-155, history 36."""
    async with leader(tmp_path) as b:
        append_marker(b.partition(), marker())
        end = b.partition().log.log_end_offset
        assert await b.write((refused, [0, 1])) == [[code, None if code in (47, 52) else code]]
        assert b.partition().log.log_end_offset == end


async def test_a_marker_of_a_groups_partition_passes_through_its_shard(tmp_path: Path) -> None:
    """P-104."""
    async with leader(tmp_path) as b:
        led = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
        await decide(replace(led, topic=CONSUMER_OFFSETS, partition=5), b.node)
        found = await b.write((marker(), [5, 0]), (marker(Q), [5]))
        assert found == [[None, None], [errors.NotLeaderOrFollower.code]]
        assert b.through_groups == [((TOPIC_ID, 5), marker()), ((TOPIC_ID, 5), marker(Q))]
        assert b.partition(5).log.log_end_offset == 0, "the shard writes it"
        b.service._group_markers = None
        assert await b.write((marker(), [5])) == [[errors.UnsupportedVersion.code]]


async def test_a_shard_that_does_not_answer_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline_broker.hosts.serving.producers.markers.COMMIT_MS", 50)

    async def silent(key: Key, written: EndMarker) -> None:
        await asyncio.Event().wait()

    async with leader(tmp_path) as b:
        led = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
        await decide(replace(led, topic=CONSUMER_OFFSETS, partition=5), b.node)
        b.service._group_markers = silent
        assert await b.write((marker(), [5, 0])) == [[errors.RequestTimedOut.code, None]]


async def test_an_operator_ends_a_transaction_that_hangs(tmp_path: Path) -> None:
    """KIP-664."""
    async with leader(tmp_path) as b:
        b.append(0)
        key = (TOPIC_ID, 0)
        ask = {"producer_id": P, "producer_epoch": 0, "coordinator_epoch": -1}
        with pytest.raises(errors.InvalidTxnState, match="producer 8 has no open transaction"):
            await b.service.abort(key, **{**ask, "producer_id": Q})
        with pytest.raises(errors.WireError):
            await b.service.abort((b"u" * 16, 0), **ask)
        await b.service.abort(key, **ask)
        (entry,) = b.partition().producers.snapshot()
        assert (entry.txn_first_offset, entry.coordinator_epoch) == (-1, 0)
        assert b.partition().log.log_end_offset == 3
        with pytest.raises(errors.InvalidTxnState):
            await b.service.abort(key, **ask)
        b.append(1)
        append_marker(b.partition(1), marker())
        b.append(1, producer_id=P, epoch=1)
        with pytest.raises(errors.TransactionCoordinatorFenced):
            await b.service.abort((TOPIC_ID, 1), **{**ask, "producer_epoch": 1})


async def test_the_leader_describes_its_producers(tmp_path: Path) -> None:
    async with leader(tmp_path) as b:
        producers = ProducersService(b.node.replicas, b.node.metadata)
        key = (TOPIC_ID, 0)
        assert await producers.describe(key, Turns()) == []
        b.append(0, producer_id=Q)
        b.append(0, producer_id=P)
        append_marker(b.partition(), marker(Q))
        assert await producers.describe(key, Turns(every=1)) == [
            DescribedProducer(P, 0, 1, 1000, -1, 2),
            DescribedProducer(Q, 1, -1, b.partition().producers.of(Q).last_timestamp, 3, -1),  # type: ignore[union-attr]
        ]
        with pytest.raises(errors.InvalidRequest, match="orders:0 has 2 producers"):
            await producers.describe(key, Turns(), at_most=1)
        await decide(state(2, epoch=1, isr=(1, 2), replicas=(1, 2)), b.node)
        with pytest.raises(errors.NotLeaderOrFollower):
            await producers.describe(key, Turns())
        with pytest.raises(errors.WireError):
            await producers.describe((b"u" * 16, 0), Turns())

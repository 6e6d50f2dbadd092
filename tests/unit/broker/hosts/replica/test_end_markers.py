"""End markers of transactions at a partition's leader, and the last stable offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch, end_marker, read_header
from strandline_proto.errors import (
    InvalidProducerEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    TransactionCoordinatorFenced,
)
from support.open_transaction import marker_of, write
from support.replica_nodes import decide, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.replica.partition import Partition

P = 7
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def marker(
    epoch: int, *, commit: bool = False, coordinator: int = 0, version: int = 2, pid: int = P
) -> EndMarker:
    return marker_of(pid, epoch, commit=commit, coordinator=coordinator, version=version)


def append(partition: Partition, *, pid: int = P, epoch: int = 0, sequence: int = 0) -> None:
    write(partition, pid, epoch=epoch, sequence=sequence)


def ends(partition: Partition) -> tuple[int, int]:
    leading = check_leader(partition, None)
    return leading.readable_end(COMMITTED), leading.readable_end(UNCOMMITTED)


async def test_a_marker_is_a_control_batch_and_ends_the_transaction(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        partition = node.partition
        append(partition)
        assert ends(partition) == (0, 2)
        assert append_marker(partition, marker(1, commit=True, coordinator=3)) == 3
        assert ends(partition) == (3, 3)
        records = partition.read_log(2, max_bytes=1000, limit=3).records
        header = read_header(records)
        assert header.is_control
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (P, 1, -1)
        assert end_marker(records, 0, header) == (True, 3)


async def test_a_marker_of_an_older_coordinator_is_refused(tmp_path: Path) -> None:
    """I-155: mutant 58."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        append(node.partition)
        append_marker(node.partition, marker(1, coordinator=5))
        append(node.partition, epoch=1)
        with pytest.raises(TransactionCoordinatorFenced, match="epoch 4, epoch 5 has ended"):
            append_marker(node.partition, marker(2, coordinator=4))
        assert node.partition.log.log_end_offset == 5
        assert append_marker(node.partition, marker(2, coordinator=5)) == 6


@pytest.mark.parametrize(("version", "epoch"), [(2, 3), (2, 2), (1, 2)])
async def test_a_marker_of_an_older_epoch_is_refused(
    tmp_path: Path, version: int, epoch: int
) -> None:
    """I-155: the epoch of the data is 3."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        append(node.partition, epoch=3)
        with pytest.raises(InvalidProducerEpoch):
            append_marker(node.partition, marker(epoch, version=version))
        assert node.partition.log.log_end_offset == 2


async def test_a_marker_of_the_epoch_of_the_data_ends_the_transaction_of_an_older_client(
    tmp_path: Path,
) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        append(node.partition, epoch=3)
        assert append_marker(node.partition, marker(3, version=1)) == 3
        append(node.partition, epoch=3, sequence=2)
        assert append_marker(node.partition, marker(3, version=1)) == 6
        assert ends(node.partition) == (6, 6)


async def test_a_repeated_marker_has_no_effect(tmp_path: Path) -> None:
    """I-156: also across the data of the next transaction, where its epoch is too low."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        append(node.partition)
        append_marker(node.partition, marker(1))
        try:
            repeated: object = append_marker(node.partition, marker(1))
        except InvalidProducerEpoch as refused:
            repeated = refused
        assert repeated is None
        assert node.partition.log.log_end_offset == 3
        append(node.partition, epoch=1)
        with pytest.raises(InvalidProducerEpoch):
            append_marker(node.partition, marker(1))
        assert ends(node.partition) == (3, 5)


async def test_a_repeated_marker_waits_for_the_commit_of_the_first(tmp_path: Path) -> None:
    """The coordinator forgets the transaction once it has all answers."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        append(node.partition)
        assert append_marker(node.partition, marker(1)) == 3
        append(node.partition, pid=8)
        assert append_marker(node.partition, marker(1)) == 3
        assert node.partition.log.log_end_offset == 5


async def test_a_marker_needs_the_leadership_and_replicas_in_sync(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), min_insync=2), node)
        with pytest.raises(NotEnoughReplicas):
            append_marker(node.partition, marker(1))
        assert node.partition.log.log_end_offset == 0
        await decide(state(2, epoch=1, isr=(1, 2)), node)
        with pytest.raises(NotLeaderOrFollower):
            append_marker(node.partition, marker(1))


async def test_a_marker_is_written_whatever_the_limit_of_a_batch(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1, message_max_bytes="70") as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        assert append_marker(node.partition, marker(1)) == 1


async def test_the_stable_end_waits_for_the_commit_of_the_marker(tmp_path: Path) -> None:
    """I-152, P-115: mutant 48."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        partition = node.partition
        leading = check_leader(partition, None)
        leading.appends.append(
            build_batch([(None, b"v")], timestamp_ms=1), acks=1, on_done=lambda _: None
        )
        append(partition)
        append_marker(partition, marker(1))
        partition.learn_high_watermark(3)
        assert partition.last_stable_offset == 1, "the marker at 3 may be lost"
        partition.learn_high_watermark(4)
        assert partition.last_stable_offset == 4


async def test_the_stable_end_is_not_below_the_log_start(tmp_path: Path) -> None:
    """I-6: records of an open transaction may be deleted."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        append(node.partition)
        append(node.partition, pid=8)
        assert node.partition.raise_log_start(1)
        assert ends(node.partition) == (1, 4)


async def test_retention_keeps_an_open_transaction(tmp_path: Path) -> None:
    """I-161."""
    settings = {"log_segment_bytes": "100", "log_retention_bytes": "1"}
    async with run_node(tmp_path, 1, None, None, **settings) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        partition, retention = node.partition, node.replicas.upkeep.retention
        partition.configure({})
        append(partition, pid=8)
        append_marker(partition, marker(1, pid=8))
        append(partition)
        append(partition, pid=9)
        append_marker(partition, marker(1, pid=9))
        await retention.check([partition])
        assert partition.log.log_start_offset == 3, "the transaction of 7 begins there"
        append_marker(partition, marker(1))
        await retention.check([partition])
        assert partition.log.log_start_offset > 3

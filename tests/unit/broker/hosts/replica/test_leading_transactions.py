"""A leader whose disk misread the batches from which its open transactions are found (I-153)."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.replica.end_markers import append_marker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.storage.log.segment_check import check_segment
from strandline_proto.errors import KafkaStorageError, NotLeaderOrFollower
from support.open_transaction import marker_of, write
from support.producer_log import idempotent_batch
from support.replica_nodes import decide, eventually, run_node, state

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from support.replica_nodes import Node

P, OTHER = 7, 8
CRC = 17


def flip(partition: Partition, at: int) -> None:
    """A bit in the CRC of the batch at byte `at`; once more, and it is as it was."""
    path = Path(partition.log.segments[-1].path())
    data = bytearray(path.read_bytes())
    data[at + CRC] ^= 0x41
    path.write_bytes(data)


async def lead(node: Node, epoch: int) -> Partition:
    await decide(state(1, epoch=epoch, isr=(1,), replicas=(1,), min_insync=1), node)
    return node.partition


async def lead_from_a_cancelled_cut(node: Node, epoch: int) -> Partition:
    """The role loads the producer state."""
    node.partition.log.keep_producers(None)
    return await lead(node, epoch)


def plain(partition: Partition) -> None:
    """A batch outside any transaction, of two records."""
    now_ms = int(time.time() * 1000)
    batch = idempotent_batch(OTHER, 0, b"a", b"b", timestamp_ms=now_ms)
    check_leader(partition, None).appends.append(batch, acks=1, on_done=lambda _: None)


def stable(partition: Partition) -> int:
    return check_leader(partition, None).readable_end(Isolation.READ_COMMITTED)


async def test_nothing_is_appended_before_the_producers_are_loaded(tmp_path: Path) -> None:
    """The role begins after the load, and the former one has ended before it."""
    async with run_node(tmp_path, 1) as node:
        partition = await lead(node, 1)
        write(partition, P)
        goes_on = threading.Event()
        node.replicas.dirs.lane(partition.log).thread.submit(goes_on.wait)
        leads = asyncio.create_task(lead_from_a_cancelled_cut(node, 2))
        try:
            await eventually(partition.gate.locked, "the load")
            with pytest.raises(NotLeaderOrFollower):
                write(partition, P, sequence=2)
            with pytest.raises(NotLeaderOrFollower):
                append_marker(partition, marker_of(P, 1))
        finally:
            goes_on.set()
        await leads
        assert partition.producers.open_epoch(P) == 0
        assert append_marker(partition, marker_of(P, 1)) == 3


async def test_a_leader_that_misreads_a_commit_hides_no_committed_records(tmp_path: Path) -> None:
    """The next abort would get an entry in the index that names them."""
    async with run_node(tmp_path, 1) as node:
        partition = await lead(node, 1)
        write(partition, P)
        at = partition.log.segments[-1].size
        append_marker(partition, marker_of(P, 1, commit=True))
        flip(partition, at)
        await lead_from_a_cancelled_cut(node, 2)
        assert partition.producers.open_epoch(P) is not None, "its end was not read"
        with pytest.raises(KafkaStorageError, match="from offset 2 on are damaged or misread"):
            append_marker(partition, marker_of(P, 2))
        assert partition.log.log_end_offset == 3

        flip(partition, at)
        await eventually(lambda: not partition.is_unsure_of_transactions, "another look")
        assert partition.producers.open_epoch(P) is None
        assert append_marker(partition, marker_of(P, 2)) == 4
        assert partition.log.segments[-1].aborted().size == 0, "the transaction was committed"


async def test_a_leader_that_misreads_a_begin_serves_nothing_from_there(tmp_path: Path) -> None:
    """I-154: the transaction is open, whatever its leader knows of it."""
    async with run_node(tmp_path, 1) as node:
        partition = await lead(node, 1)
        plain(partition)
        at = partition.log.segments[-1].size
        write(partition, P)
        flip(partition, at)
        await lead_from_a_cancelled_cut(node, 2)
        assert partition.producers.open_epoch(P) is None
        assert (stable(partition), partition.high_watermark) == (2, 4)

        flip(partition, at)
        await eventually(lambda: not partition.is_unsure_of_transactions, "another look")
        assert partition.producers.open_epoch(P) == 0
        assert stable(partition) == 2
        append_marker(partition, marker_of(P, 1))
        assert stable(partition) == 5


async def test_damage_that_lasts_holds_no_transaction_up(tmp_path: Path) -> None:
    """No other replica has what it hides."""
    async with run_node(tmp_path, 1) as node:
        partition = await lead(node, 1)
        plain(partition)
        write(partition, P)
        flip(partition, 0)
        await lead_from_a_cancelled_cut(node, 2)
        with pytest.raises(KafkaStorageError, match="try again soon"):
            append_marker(partition, marker_of(P, 1))
        assert check_segment(partition.log, 0) != ()
        assert append_marker(partition, marker_of(P, 1)) == 5
        assert stable(partition) == 5


async def test_a_leader_appends_nothing_while_its_producers_are_read_again(tmp_path: Path) -> None:
    """Such a batch would be missing in the state that is read."""
    async with run_node(tmp_path, 1) as node:
        partition = await lead(node, 1)
        write(partition, P)
        partition.is_reloading = True
        with pytest.raises(KafkaStorageError, match="nothing was appended"):
            append_marker(partition, marker_of(P, 1))
        with pytest.raises(KafkaStorageError, match="nothing was appended"):
            plain(partition)
        assert partition.log.log_end_offset == 2
        async with partition.gate:
            await partition.reload_producers()
        assert append_marker(partition, marker_of(P, 1)) == 3

"""A follower whose disk misreads the batches from which its open transactions are found (I-153)."""

from pathlib import Path

import pytest

from strandline_broker.hosts.replica.following import Following
from strandline_broker.hosts.replica.partition import Partition
from strandline_proto.batch import prefix
from strandline_proto.errors import KafkaStorageError
from support.producer_log import end_marker, idempotent_batch, transactional_batch
from support.replica_nodes import decide, run_node, state

OVERHEAD, PREFIX_SIZE = 12, 16
PRODUCER = 7


async def append(partition: Partition, batch: bytes) -> None:
    """The batch, as the leader of epoch 1 would send it as the next one."""
    offset = partition.log.log_end_offset
    assert isinstance(partition.role, Following)
    copied = prefix(offset, len(batch) - OVERHEAD, 1) + batch[PREFIX_SIZE:]
    await partition.role.append(copied, leader_high_watermark=0)


def flip(path: Path, at: int) -> None:
    """A bit in the CRC of the batch at byte `at`; once more, and it is as it was."""
    data = bytearray(path.read_bytes())
    data[at + PREFIX_SIZE + 1] ^= 0x41
    path.write_bytes(data)


async def test_a_follower_that_misreads_a_commit_hides_no_committed_records(
    tmp_path: Path,
) -> None:
    async with run_node(tmp_path, 2) as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition, log = node.partition, node.partition.log
        async with partition.gate:
            await append(partition, transactional_batch(PRODUCER, b"committed"))
            before = log.segments[-1].size
            await append(partition, end_marker(PRODUCER))

            flip(path := Path(log.segments[-1].path()), before)
            log.keep_producers(None)  # as a cut that was cancelled leaves it
            await append(partition, idempotent_batch(8, 0, b"needs no open transaction"))
            assert log.replay_lacks
            ends = end_marker(PRODUCER, producer_epoch=1, commit=False)
            with pytest.raises(KafkaStorageError, match="end markers follow at offset 3"):
                await append(partition, ends)
            assert log.log_end_offset == 3

            flip(path, before)
            log.damaged_ranges.set(())  # as another check of the segment leaves it
            await append(partition, ends)
            assert log.log_end_offset == 4
            assert log.segments[-1].aborted().size == 0, "the transaction was committed"

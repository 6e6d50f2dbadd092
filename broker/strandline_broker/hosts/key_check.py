"""Every record of a compacted topic needs a key (I-72). Only there batches are decoded.

That is work without a tight bound: a small compressed batch may hold many records. So what is
compressed or large is decoded before its turn, off the event loop; the rest in the append itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proto.batch import ATTRIBUTES_AT, HEADER_SIZE, check_batch, raw_records
from strandline_proto.errors import InvalidRecord, WireError

if TYPE_CHECKING:
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_manager import ReplicaManager
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Bound
    from strandline_proto.v1 import produce_pb2

BYTES_MAX: Final = 16 << 10
"""Of an uncompressed batch that is decoded on the event loop: at most 2,300 records, a
millisecond."""
_COMPRESSION: Final = 0x07

Checked = dict[tuple[int, int], WireError | None]
"""By the places of topic and partition in the request: why the batch is refused, None if its keys
are all there.
"""


def check_keys(partition: str, batch: bytes, header: BatchHeader, bound: Bound) -> None:
    """Raises InvalidRecord, CorruptMessage if the records do not parse, or RecordTooLarge."""
    for i, record in enumerate(raw_records(batch, header, bound)):
        if record.key is None:
            raise InvalidRecord(
                f"{partition} is compacted (cleanup.policy), which needs a key in every record;"
                f" record {i} of the batch has none: give it a key, or set cleanup.policy=delete"
            )


async def check_ahead(replicas: ReplicaManager, request: produce_pb2.ProduceRequest) -> Checked:
    """Look into the batches that are too much for the event loop, one after the other."""
    checked: Checked = {}
    for i, topic in enumerate(request.topics):
        for j, data in enumerate(topic.partitions):
            partition = replicas.partitions.get((topic.topic_id, data.index))
            if partition is not None and is_too_much(partition, data.records):
                checked[i, j] = await replicas.read_cold(
                    partition, _Check(partition.name, data.records, partition.log.config.bound)
                )
    return checked


def is_too_much(partition: Partition, batch: bytes) -> bool:
    return (
        "compact" in partition.log.config.cleanup_policy
        and HEADER_SIZE <= len(batch) <= partition.max_message_bytes
        and (len(batch) > BYTES_MAX or batch[ATTRIBUTES_AT + 1] & _COMPRESSION != 0)
    )


class _Check:
    """One batch, to be called in a thread."""

    def __init__(self, partition: str, batch: bytes, bound: Bound) -> None:
        self._partition = partition
        self._batch = batch
        self._bound = bound

    def __call__(self) -> WireError | None:
        try:
            check_keys(self._partition, self._batch, check_batch(self._batch), self._bound)
        except WireError as error:
            return error
        return None

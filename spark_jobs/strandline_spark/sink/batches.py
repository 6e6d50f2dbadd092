"""Which partition a row goes to, which rows stand in one batch, and under which producer id.

All of it depends on the rows of the task and their order alone, never on time or on what the
brokers answer, so that a task that is run again sends the same batches again: their sequence
numbers are the same, and a leader that has them does not append them twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._core.delivery_terms import Identity
from strandline_proto.ids import CHOSEN_PRODUCER_IDS
from strandline_proto.partitioner import partition_for
from strandline_spark.errors import WriteFailed

if TYPE_CHECKING:
    from strandline._producer.whole_batches import Row

ROWS_PER_BATCH: Final = 1000
EPOCHS: Final = 32767
"""Micro-batches that share a producer id, each with an epoch of its own."""


def chosen_identity(query_id: str, task: int, batch_id: int, partitions: int) -> Identity:
    """Of what one task writes in one micro-batch to topics of so many partitions.

    A newer micro-batch of the same task has a higher epoch, or another id. So has a topic that got
    more partitions between a batch and its rerun: its rows stand elsewhere then, and under their
    old numbers some would be taken for others and dropped.
    """
    block, epoch = divmod(batch_id, EPOCHS)
    digest = sha256(f"{query_id}/{task}/{block}/{partitions}".encode()).digest()
    within = int.from_bytes(digest, "big") % (CHOSEN_PRODUCER_IDS.stop - CHOSEN_PRODUCER_IDS.start)
    return Identity(CHOSEN_PRODUCER_IDS.start + within, epoch)


class Cut(NamedTuple):
    """The next batch of a partition."""

    topic: str
    partition: int
    rows: list[Row]
    size: int


@dataclass(slots=True)
class _Open:
    rows: list[Row] = field(default_factory=list)
    size: int = 0


class Cutter:
    """Places the rows of one task and cuts them into batches: 1000 rows, or fewer where they would
    be more than `batch_bytes`. What is open is bounded by `open_bytes`.
    """

    def __init__(self, *, start: int, batch_bytes: int, open_bytes: int) -> None:
        self._start = start
        self._batch_bytes = batch_bytes
        self._open_bytes_max = open_bytes
        self._open_bytes = 0
        self._open: dict[tuple[str, int], _Open] = {}
        self._keyless: dict[str, int] = {}

    def add(
        self, topic: str, partitions: int, partition: int | None, row: Row, size: int
    ) -> list[Cut]:
        """The batches that are full now. `size` is that of the row; WriteFailed if there is no
        such partition.
        """
        key = topic, self._place(topic, partitions, partition, row)
        cut: list[Cut] = []
        found = self._open.get(key)
        if found is not None and found.size + size > self._batch_bytes:
            cut.append(self._close(key))
            found = None
        if found is None:
            found = self._open[key] = _Open()
        found.rows.append(row)
        found.size += size
        self._open_bytes += size
        if len(found.rows) == ROWS_PER_BATCH:
            cut.append(self._close(key))
        if self._open_bytes > self._open_bytes_max:
            cut += self.rest()
        return cut

    def rest(self) -> list[Cut]:
        """All that is open, in the order in which it was begun."""
        return [self._close(key) for key in list(self._open)]

    def _close(self, key: tuple[str, int]) -> Cut:
        done = self._open.pop(key)
        self._open_bytes -= done.size
        return Cut(*key, done.rows, done.size)

    def _place(self, topic: str, partitions: int, partition: int | None, row: Row) -> int:
        """Rows without a key fill one batch after the other, each of the next partition."""
        if partition is not None:
            if not 0 <= partition < partitions:
                raise WriteFailed(
                    f"a row names partition {partition} of topic {topic!r}, which has {partitions}"
                    f" (0 to {partitions - 1}): correct the column partition"
                )
            return partition
        key = row[1]
        if key is not None:
            return partition_for(key, partitions)
        index = self._keyless.get(topic, 0)
        self._keyless[topic] = index + 1
        return (self._start + index // ROWS_PER_BATCH) % partitions

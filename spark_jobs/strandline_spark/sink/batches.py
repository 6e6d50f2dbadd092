"""The placement of rows: the partition of each row, the rows of each batch, and the producer id.

All of it depends only on the task's rows and their order, never on time or on answers of brokers.
So a task that runs again sends the same batches with the same sequence numbers. A leader that holds
a batch does not append it twice.
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
    from strandline.batches import Row

ROWS_PER_BATCH: Final = 1000
EPOCHS: Final = 32767
"""Number of micro-batches that share a producer id, each with its own epoch."""


def chosen_identity(query_id: str, task: int, batch_id: int, partitions: int) -> Identity:
    """Returns the producer id and epoch of one task in one micro-batch, for topics of so many
    partitions.

    A newer micro-batch of the same task has a higher epoch or another id. A topic that got more
    partitions between a batch and its rerun also has another id. Its rows go to other partitions
    then. Under their old numbers the leader would take some of them for others and drop them.
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
    """Places the rows of one task and cuts them into batches.

    A batch ends at 1000 rows, or before it would exceed `batch_bytes`. Open batches are bounded by
    `open_bytes`.
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
        """Returns the batches that are full now. `size` is the row's size. Raises WriteFailed if
        the partition does not exist.
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
        """Returns all open batches, in the order in which they were begun."""
        return [self._close(key) for key in list(self._open)]

    def _close(self, key: tuple[str, int]) -> Cut:
        done = self._open.pop(key)
        self._open_bytes -= done.size
        return Cut(*key, done.rows, done.size)

    def _place(self, topic: str, partitions: int, partition: int | None, row: Row) -> int:
        """Returns the row's partition. Rows without a key fill one batch after the other, each for
        the next partition.
        """
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

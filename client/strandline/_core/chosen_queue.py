"""The partition queue of a producer whose id and epoch its user chose.

The identity is the same whenever the same work is repeated, and has no successor. A batch given up
therefore fails all later batches: they would take its sequence numbers, and the leader would take
them for the failed batch when that is sent again.

A batch that is too large is split in halves, and these again. The parts depend only on the batch
and the topic's limit, and are the same whenever the same work is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.delivery_terms import failure
from strandline._core.partition_queue import PartitionQueue
from strandline.errors import OutOfOrderSequenceNumber
from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT

if TYPE_CHECKING:
    from strandline._core.backoff import Backoff
    from strandline._core.delivery_terms import Answer, Identity, QueueOptions
    from strandline._core.partition_queue import Settled
    from strandline._core.producer_batch import ProducerBatch
    from strandline.errors import BrokerError


class ChosenQueue(PartitionQueue):
    """A queue that numbers batches from 0 under one identity, for its whole life."""

    is_bound_to_id = True

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        options: QueueOptions,
        backoff: Backoff,
        *,
        identity: Identity,
    ) -> None:
        super().__init__(topic, topic_id, partition, options, backoff)
        assert options.idempotent
        self._identity = identity

    def on_answer(
        self, batch: ProducerBatch, attempt: int, answer: Answer, *, now_ms: float, chance: float
    ) -> list[Settled]:
        return self._with_the_rest(
            super().on_answer(batch, attempt, answer, now_ms=now_ms, chance=chance)
        )

    def on_expiry(self, now_ms: float) -> list[Settled]:
        return self._with_the_rest(super().on_expiry(now_ms))

    def on_recreated(self, topic_id: bytes, error: Exception) -> list[Settled]:
        """Fails every batch: numbers in the new topic would begin in the middle of the work."""
        return self.on_hopeless(error)

    def _out_of_sequence(self, batch: ProducerBatch, error: BrokerError) -> list[Settled]:
        ahead = self.in_flight[: self.in_flight.index(batch)]
        if ahead and isinstance(error, OutOfOrderSequenceNumber):
            return []  # an earlier batch is unresolved: this one is retried after it
        return self._give_up(batch, failure(batch, str(self), error))

    @property
    def _part_size(self) -> int:
        return DECOMPRESSED_BYTES_LIMIT  # half of the batch is always less

    def _with_the_rest(self, settled: list[Settled]) -> list[Settled]:
        error = next((error for _, error in settled if error is not None), None)
        if error is None:
            return settled
        self._renew = True  # nothing new goes out
        return [*settled, *self.on_hopeless(error)]

    def _repair(self) -> None:
        """Does nothing: no batch may take the numbers of a failed one."""

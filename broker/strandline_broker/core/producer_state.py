"""What each idempotent producer has appended to one partition: the check against doubles and gaps.

The state is a function of the log's batches, in order, and so the same on the leader, on each
follower at an equal log end, and after a replay (I-58). Only the leader checks, before it appends;
everyone records what has been appended, and never refuses it, or a replica could not follow its
leader (I-57, P-40). Check, append and record happen without a pause.

Sequence numbers count records, per producer and epoch, from 0 and again to 0 after 2^31 - 1. A
producer without state begins at 0 (I-56): anything else means that batches are missing in between.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from strandline_proto.batch import SEQUENCE_MAX, BatchHeader, add_sequence
from strandline_proto.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from strandline_proto.ids import Offset, ProducerEpoch, ProducerId

BATCHES_REMEMBERED: Final = 5
"""As many as a producer may have in flight: a retry of any of them gets its own answer again
(I-55).
"""


@dataclass(frozen=True, slots=True)
class Accept:
    """The batch is next in order, or of no producer: append it."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already: acknowledge it without appending, once it is committed
    (P-41).
    """

    base_offset: int
    """-1 if it is too old to be remembered; the log's headers can tell."""
    last_offset: int
    timestamp: int
    required_offset: Offset
    """End offset that the high watermark must have reached before the answer."""


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """One producer's state as a value, for comparing replicas."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    batches: tuple[AppendedBatch, ...]


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_used_ms: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))


_ACCEPT: Final = Accept()


class ProducerStates:
    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader, now_ms: int) -> Accept | Duplicate:
        """Whether the leader may append this batch. Raises InvalidProducerEpoch or
        OutOfOrderSequenceNumber.
        """
        if header.producer_id < 0:
            return _ACCEPT
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence"
                f" {header.base_sequence}; an idempotent producer numbers its batches from 0"
            )
        producer = self._producers.get(header.producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} here with"
                    f" sequence {header.base_sequence} instead of 0"
                )
            return _ACCEPT
        if header.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} sent epoch {header.producer_epoch},"
                f" epoch {producer.epoch} has taken its place"
            )
        producer.last_used_ms = max(producer.last_used_ms, now_ms)
        return _check_sequence(header, producer)

    def on_append(self, header: BatchHeader, now_ms: int) -> None:
        """A batch stands in the log, with its offsets: by this leader, from a leader, or found
        there.
        """
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        producer = self._producers.get(header.producer_id)
        if producer is None or header.producer_epoch != producer.epoch:
            producer = _Producer(header.producer_epoch, now_ms)
            self._producers[header.producer_id] = producer
        producer.last_used_ms = max(producer.last_used_ms, now_ms)
        producer.batches.append(
            AppendedBatch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )

    def rebuild(self, headers: Iterable[BatchHeader], now_ms: int) -> None:
        """Replace everything by what these batches say, oldest first: after a load or a truncation
        (I-58).
        """
        self._producers = {}
        for header in headers:
            self.on_append(header, now_ms)

    def expire(self, now_ms: int) -> list[ProducerId]:
        """Forget producers that have not been used for the expiration time (I-60). Returns their
        ids.
        """
        gone = [
            ProducerId(producer_id)
            for producer_id, producer in self._producers.items()
            if now_ms - producer.last_used_ms >= self._expiration_ms
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return gone

    def snapshot(self) -> tuple[ProducerSnapshot, ...]:
        """Equal on replicas whose logs are equal, unless one of them has expired a producer
        earlier.
        """
        return tuple(
            ProducerSnapshot(
                ProducerId(producer_id), ProducerEpoch(producer.epoch), tuple(producer.batches)
            )
            for producer_id, producer in sorted(self._producers.items())
        )


def _check_sequence(header: BatchHeader, producer: _Producer) -> Accept | Duplicate:
    for batch in producer.batches:
        if (batch.base_sequence, batch.last_sequence) == (
            header.base_sequence,
            header.last_sequence,
        ):
            return Duplicate(
                batch.base_offset, batch.last_offset, batch.timestamp, Offset(batch.last_offset + 1)
            )
    last = producer.batches[-1]
    if header.base_sequence == add_sequence(last.last_sequence, 1):
        return _ACCEPT
    # Every sequence up to the last one is in the log, so a batch that ends there or before is too,
    # even if it is no longer remembered. Calling it out of order would make the client renumber it,
    # and store it twice (P-80).
    behind = (last.last_sequence - header.last_sequence) & SEQUENCE_MAX
    if behind <= SEQUENCE_MAX // 2:
        return Duplicate(-1, -1, -1, Offset(last.last_offset + 1))
    raise OutOfOrderSequenceNumber(
        f"producer {header.producer_id} sent sequence {header.base_sequence},"
        f" expected {add_sequence(last.last_sequence, 1)}"
    )

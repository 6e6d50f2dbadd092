"""The state of each idempotent producer of one partition: the check against duplicates and gaps.

The state is a function of the log's batches, in order. It is therefore the same on the leader, on
each follower at an equal log end, and after a replay (I-58). Only the leader checks, before it
appends. Every replica records the batches appended and never refuses one, or it could not follow
its leader (I-57, P-40). Check, append and record happen without a pause.

Sequence numbers count records, per producer and epoch. They begin at 0, and begin again after 2^31
- 1. A producer without state begins at 0 (I-56), unless `FirstBatches` has shown that it was
forgotten: another number means that batches are missing in between.

The state includes each producer's open transaction, and the epochs of its last end marker (I-159).
A marker is checked as a batch is: a coordinator's epoch never falls, nor does a producer's (I-155).

`entries` and `rebuild` carry the state over a restart. A `.snapshot` file holds the last batch of
each producer, and later batches are read from the log.

A producer is forgotten when it was unused for `producer.id.expiration.ms` by this process's own
clock. Kafka counts from the batch's timestamp, so it forgets a producer of old records while that
producer sends. State from a file counts as used at the latest possible moment. A producer
remembered too long costs memory; one forgotten too early costs a refused batch.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.core.replication.open_transactions import OpenTransactions
from strandline_proto.batch import SEQUENCE_MAX, BatchHeader, add_sequence, end_marker
from strandline_proto.decompression import Buffer
from strandline_proto.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from strandline_proto.ids import Offset, ProducerEpoch, ProducerId

PersistedProducer = tuple[int, int, int, int, int, int, int, int, int]
"""Producer id, producer epoch, last sequence, last offset, offset delta, timestamp, coordinator
epoch, first offset of the open transaction, sequence where its batches begin; -1 where there is
none, delta 0 without a batch.
"""
Aborted = tuple[int, int, int, int]
"""An aborted transaction: producer id, first offset, offset of the marker, and the last stable
offset at the marker: where the oldest other open transaction begins, or else the offset after the
marker.
"""
ReplayedBatch = tuple[BatchHeader, int | None]
"""(header, coordinator epoch of a transaction's end marker; None for any other batch)."""

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
BATCHES_REMEMBERED: Final = 5
"""Number of batches that a producer may have in flight: a retry of any of them gets its own answer
again (I-55).
"""


@dataclass(frozen=True, slots=True)
class Accept:
    """The batch is next in order, or has no producer: append it."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already: acknowledge it, without an append, once it is committed
    (P-41).
    """

    base_offset: int
    """The batch's base offset; -1 if it is no longer remembered. The log's headers then have it."""
    last_offset: int
    timestamp: int
    required_offset: Offset
    """End offset that the high watermark must reach before the answer."""


@dataclass(frozen=True, slots=True)
class RepeatedMarker:
    """The end marker is in the log already: acknowledge it without an append (I-156)."""

    required_offset: Offset | None
    """End offset that the high watermark must reach before the answer; None: any up to the log's
    end.
    """


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
    last_timestamp: int = -1
    """Timestamp of the last batch, which may be an end marker."""
    coordinator_epoch: int = NO_EPOCH
    txn_first_offset: int = NO_OFFSET
    begins_at: int = NO_SEQUENCE


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_used_ms: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))
    last_timestamp: int = -1
    coordinator_epoch: int = NO_EPOCH
    txn_first_offset: int = NO_OFFSET
    """Offset at which the open transaction begins."""
    marker_offset: int = NO_OFFSET
    """Offset of the last end marker; -1 if there is none, or if a file gave the state."""
    begins_at: int = NO_SEQUENCE
    """Sequence where the latest unbroken run of its batches begins: no batch before it is known to
    be in the log. -1 if the run has every sequence of the epoch, or half of all sequences.
    """

    def add(self, batch: AppendedBatch, first_sequence: int) -> None:
        expected = (
            add_sequence(self.batches[-1].last_sequence, 1) if self.batches else first_sequence
        )
        if batch.base_sequence != expected:
            self.begins_at = batch.base_sequence
        elif _distance(self.begins_at, batch.last_sequence) > SEQUENCE_MAX // 2:
            self.begins_at = NO_SEQUENCE
        self.batches.append(batch)


_ACCEPT: Final = Accept()
_NO_BATCH: Final = AppendedBatch(-1, -1, NO_OFFSET, NO_OFFSET, -1)


class ProducerStates:
    first_sequence = 0
    """First sequence of every producer and epoch. Simulations begin near the largest number."""

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        """Expiration time; it may change at any time, and the next `expire` uses it."""
        self._producers: dict[int, _Producer] = {}
        self.transactions = OpenTransactions()

    def __len__(self) -> int:
        return len(self._producers)

    def knows(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def open_epoch(self, producer_id: int) -> int | None:
        """The producer's epoch, if it has an open transaction; None: it has none."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.txn_first_offset == NO_OFFSET:
            return None
        return producer.epoch

    def ids(self) -> list[int]:
        """The ids of all producers with state."""
        return sorted(self._producers)

    def of(self, producer_id: int) -> ProducerSnapshot | None:
        """The producer's state as a value; None: it has none."""
        producer = self._producers.get(producer_id)
        return None if producer is None else _snapshot(producer_id, producer)

    def check(
        self, header: BatchHeader, now_ms: int, *, was_forgotten: bool = False
    ) -> Accept | Duplicate:
        """Decide if the leader may append this batch. Raises InvalidProducerEpoch,
        OutOfOrderSequenceNumber or InvalidTxnState. `was_forgotten`: a producer without state may
        continue with any sequence.
        """
        if header.producer_id < 0:
            return _ACCEPT
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence"
                f" {header.base_sequence}; an idempotent producer numbers its batches from 0"
            )
        producer = self._producers.get(header.producer_id)
        if producer is not None and header.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} sent epoch {header.producer_epoch},"
                f" epoch {producer.epoch} has taken its place"
            )
        # An end marker alone may have set the epoch: it has no sequence.
        if producer is None or header.producer_epoch > producer.epoch or not producer.batches:
            is_at_any = producer is None and was_forgotten
            if header.base_sequence != self.first_sequence and not is_at_any:
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} here with"
                    f" sequence {header.base_sequence} instead of {self.first_sequence}"
                )
            verdict: Accept | Duplicate = _ACCEPT
        else:
            producer.last_used_ms = max(producer.last_used_ms, now_ms)
            verdict = _check_sequence(header, producer)
        if verdict is _ACCEPT and producer is not None and not header.is_transactional:
            _check_outside_transaction(producer, header.producer_id)
        return verdict

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Decide if a coordinator may append a transactional batch of this producer. Its sequence
        says nothing: it is 0 each time (P-129). Raises InvalidProducerEpoch or InvalidTxnState.
        """
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch == producer_epoch:
            return
        if producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} sent epoch {producer_epoch},"
                f" epoch {producer.epoch} has taken its place"
            )
        if producer.txn_first_offset != NO_OFFSET:
            raise InvalidTxnState(
                f"producer {producer_id} sent epoch {producer_epoch}; its transaction of epoch"
                f" {producer.epoch} is still open: end it first"
            )

    def check_marker(self, marker: EndMarker) -> Accept | RepeatedMarker:
        """Decide if the leader may append this end marker. Raises TransactionCoordinatorFenced or
        InvalidProducerEpoch (I-155, I-156).
        """
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return _ACCEPT
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker for producer {marker.producer_id} has coordinator epoch"
                f" {marker.coordinator_epoch}, epoch {producer.coordinator_epoch} has ended a later"
                " transaction"
            )
        is_equal = marker.producer_epoch == producer.epoch
        if is_equal and producer.txn_first_offset == NO_OFFSET:
            at = producer.marker_offset
            return RepeatedMarker(None if at == NO_OFFSET else Offset(at + 1))
        if marker.producer_epoch < producer.epoch or (is_equal and marker.raises_epoch):
            raise InvalidProducerEpoch(
                f"a marker for producer {marker.producer_id} has epoch {marker.producer_epoch},"
                f" the partition has seen epoch {producer.epoch}"
            )
        return _ACCEPT

    def on_append(
        self, header: BatchHeader, now_ms: int, coordinator_epoch: int | None = None
    ) -> None:
        """Record a batch in the log, with its offsets: appended by this leader, copied from a
        leader, or found there. `coordinator_epoch` is that of the end marker, if the batch is one.
        """
        is_data = not header.is_control and header.base_sequence >= 0
        if header.producer_id < 0 or not (is_data or coordinator_epoch is not None):
            return
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = _Producer(header.producer_epoch, now_ms)
            self._producers[header.producer_id] = producer
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
            producer.begins_at = NO_SEQUENCE
        producer.last_used_ms = max(producer.last_used_ms, now_ms)
        producer.last_timestamp = header.max_timestamp
        if coordinator_epoch is not None:
            producer.coordinator_epoch = coordinator_epoch
            producer.txn_first_offset = NO_OFFSET
            producer.marker_offset = header.last_offset
            self.transactions.end(header.producer_id, header.last_offset)
            return
        if header.is_transactional and producer.txn_first_offset == NO_OFFSET:
            producer.txn_first_offset = header.base_offset
            self.transactions.begin(header.producer_id, header.base_offset)
        appended = AppendedBatch(
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        producer.add(appended, self.first_sequence)

    def aborted_in(self, records: Buffer, headers: Sequence[BatchHeader]) -> list[Aborted]:
        """The transactions that the end markers of these batches abort. The batches follow the
        log's end, and are not recorded yet.
        """
        open_ids = dict(self.transactions.open)
        found: list[Aborted] = []
        at = 0
        for header in headers:
            producer_id = header.producer_id
            if not header.is_control:
                if header.is_transactional and producer_id >= 0 and header.base_sequence >= 0:
                    open_ids.setdefault(producer_id, header.base_offset)
            elif (marker := end_marker(records, at, header)) is not None:
                first = open_ids.pop(producer_id, None)
                if first is not None and not marker.is_commit:
                    last = header.last_offset
                    stable = next(iter(open_ids.values()), last + 1)
                    found.append((producer_id, first, last, stable))
            at += header.size
        return found

    def entries(self) -> list[PersistedProducer]:
        """The state as a `.snapshot` file keeps it, by producer id. Any thread may call this while
        no batch is appended.
        """
        # `sorted` copies in one step, because the expiry on the event loop may remove a producer
        # meanwhile. No two ids are equal, so nothing else is compared.
        return [
            (
                producer_id,
                producer.epoch,
                (last := producer.batches[-1] if producer.batches else _NO_BATCH).last_sequence,
                last.last_offset,
                last.last_offset - last.base_offset,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
                producer.begins_at,
            )
            for producer_id, producer in sorted(self._producers.items())
        ]

    def last_markers(self) -> dict[int, tuple[int, int]]:
        """Producer id -> (offset of its last end marker, or -1 if that is not known; its epoch), of
        each producer with a marker.
        """
        return {
            producer_id: (producer.marker_offset, producer.epoch)
            for producer_id, producer in self._producers.items()
            if producer.coordinator_epoch != NO_EPOCH
        }

    def rebuild(
        self,
        batches: Iterable[ReplayedBatch],
        now_ms: int,
        entries: Iterable[PersistedProducer] = (),
        used_ms: Mapping[int, int] | None = None,
        *,
        high_watermark: int = 0,
    ) -> None:
        """Replace the state by these entries and these batches, oldest first: after a load or a
        truncation (I-58). The batches include all from `high_watermark` on that may end a
        transaction (I-159).

        `used_ms` is the time when each producer of the entries may have been used last; `now_ms` if
        it has no value.
        """
        used = used_ms if used_ms is not None else {}
        self._producers = {
            entry[0]: _restored(entry, used.get(entry[0], now_ms)) for entry in entries
        }
        self.transactions = OpenTransactions(self._open(), high_watermark=high_watermark)
        for header, coordinator_epoch in batches:
            self.on_append(header, now_ms, coordinator_epoch)

    def keep(self, known: "ProducerStates") -> None:
        """Take each producer from `known`, a state of the same log end, that is more recent there.
        A replay skips bytes that it cannot read, but those batches were appended all the same.
        """
        for producer_id, before in known._producers.items():
            read = self._producers.get(producer_id)
            if read is None or _reach(before) > _reach(read):
                self._producers[producer_id] = before
        ended = {*self.transactions.ended, *known.transactions.ended}
        self.transactions = OpenTransactions(self._open(), ended)

    def _open(self) -> Iterator[tuple[int, int]]:
        for producer_id, producer in self._producers.items():
            if producer.txn_first_offset != NO_OFFSET:
                yield producer_id, producer.txn_first_offset

    def expire(self, now_ms: int) -> list[ProducerId]:
        """Forget producers that have not been used for the expiration time and have no open
        transaction (I-60). Returns their ids.
        """
        gone = [
            ProducerId(producer_id)
            for producer_id, producer in self._producers.items()
            if now_ms - producer.last_used_ms >= self.expiration_ms
            and producer.txn_first_offset == NO_OFFSET
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return gone

    def snapshot(self) -> tuple[ProducerSnapshot, ...]:
        """The state for comparison. It is equal on replicas with equal logs, unless one of them has
        expired a producer earlier.
        """
        return tuple(
            _snapshot(producer_id, producer)
            for producer_id, producer in sorted(self._producers.items())
        )


def _snapshot(producer_id: int, producer: _Producer) -> ProducerSnapshot:
    return ProducerSnapshot(
        ProducerId(producer_id),
        ProducerEpoch(producer.epoch),
        tuple(producer.batches),
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
        producer.begins_at,
    )


def _restored(entry: PersistedProducer, used_ms: int) -> _Producer:
    _, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset, begins = (
        entry
    )
    producer = _Producer(
        epoch,
        used_ms,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        txn_first_offset=txn_first_offset,
        begins_at=begins,
    )
    if offset != NO_OFFSET:
        first = add_sequence(sequence, -delta)
        producer.batches.append(AppendedBatch(first, sequence, offset - delta, offset, timestamp))
    return producer


def _reach(producer: _Producer) -> tuple[int, int]:
    """(epoch, last offset) known of the producer; an end marker alone may have begun its epoch."""
    last_offset = producer.batches[-1].last_offset if producer.batches else NO_OFFSET
    return producer.epoch, max(last_offset, producer.marker_offset)


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
    # Every sequence of the run up to the last one is in the log, so a batch that ends there or
    # before is too, even if it is no longer remembered. Treating it as out of order would make the
    # client renumber it, and store it twice (P-80). A batch before the run may be in no log: it is
    # no duplicate.
    expected = f"expected {add_sequence(last.last_sequence, 1)}"
    if _distance(header.last_sequence, last.last_sequence) <= SEQUENCE_MAX // 2:
        begins_at = producer.begins_at
        if begins_at == NO_SEQUENCE or _distance(
            header.base_sequence, last.last_sequence
        ) <= _distance(begins_at, last.last_sequence):
            return Duplicate(-1, -1, -1, Offset(last.last_offset + 1))
        expected += f"; its batches here begin with {begins_at}"
    raise OutOfOrderSequenceNumber(
        f"producer {header.producer_id} sent sequence {header.base_sequence}, {expected}"
    )


def _check_outside_transaction(producer: _Producer, producer_id: int) -> None:
    if producer.txn_first_offset != NO_OFFSET:
        raise InvalidTxnState(
            f"producer {producer_id} sent a plain batch; its transaction, which began at offset"
            f" {producer.txn_first_offset}, is still open: end it first"
        )


def _distance(a: int, b: int) -> int:
    """Number of sequences from `a` up to `b`, over the wrap."""
    return (b - a) & SEQUENCE_MAX

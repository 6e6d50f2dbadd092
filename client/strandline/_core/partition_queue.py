"""One partition's records in a producer: batches, sequence numbers, retries, deadlines.

At most `max_in_flight` batches are under way. Failed batches are sent again only when no batch of
the partition is under way, all of them in sequence order (P-80). A leader therefore sees the same
order, whatever happens to the connection.

A batch given up leaves a hole in the sequence. If the batch is certainly not in the log, the later
batches move up. If it may be in the log, the rest waits until every result is known, and then
continues under a new producer epoch from sequence 0 (P-42, KIP-360). Each partition has its own
identity, so a hole in one does not stop the others.

Inputs are named `on_*` and return the batches that they settled, each with its error or None.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from strandline._core.delivery_terms import (
    LOST_IDENTITY,
    Answer,
    Identity,
    QueueOptions,
    expired,
    failure,
    too_large,
)
from strandline._core.producer_batch import NO_SEQUENCE, ProducerBatch, sequence_before
from strandline._core.splitting import split
from strandline.errors import BrokerError, DeliveryTimedOut, from_code
from strandline_proto import errors as wire
from strandline_proto.batch import add_sequence
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from strandline._core.backoff import Backoff

LAST_CALL_MS: Final = 100.0
SMALLER_FOR_MS: Final = 300_000.0
"""Time for which new batches stay small after a split: the topic's limit may be raised."""
_CORRUPT_TRIES_MAX: Final = 3

Settled = tuple[ProducerBatch, Exception | None]


class PartitionQueue:
    """Accumulates, numbers and retries the batches of one partition of one topic id."""

    is_bound_to_id = False
    """True if the queue fails with its topic, even if the topic is created again."""
    first_sequence = 0  # of each identity; simulations begin near the end of the numbers

    def __init__(
        self, topic: str, topic_id: bytes, partition: int, options: QueueOptions, backoff: Backoff
    ) -> None:
        self.topic, self.topic_id, self.partition = topic, topic_id, partition
        self.options = options
        self.in_flight: list[ProducerBatch] = []
        """Batches sent at least once and not settled, in sequence order."""
        self.ready: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        self.flushing = False
        self.retry_at_ms = 0.0
        self.sent_epoch = -1
        """Leader epoch that the batches under way were sent to."""
        self.wants_identity = False
        self.obstacle: BaseException | None = None
        """The last reason why batches could not be sent; the cause of a time-out."""
        self.spent_identity: Identity | None = None
        """An identity whose sequence has a hole here: the next one must differ."""
        self._identity: Identity | None = None
        self._next_sequence = 0
        self._backoff = backoff
        self._recovering = False
        self._resend: deque[ProducerBatch] = deque()
        self._renew = False
        self._gap_at = NO_SEQUENCE
        self._size_max = options.batch_size
        self._small_until_ms = 0.0
        self._recreated: Exception | None = None
        """Why the topic of before is gone, until nothing is under way to it."""

    # Records come in.

    def open_batch(self, now_ms: float) -> ProducerBatch:
        """The batch that takes the next record."""
        if self.open is None:
            if now_ms >= self._small_until_ms:
                self._size_max = self.options.batch_size
            self.open = self.new_batch(now_ms, self._size_max)
        return self.open

    def new_batch(self, now_ms: float, size_max: int) -> ProducerBatch:
        end_ms, kind = now_ms + self.options.delivery_timeout_ms, self.options.compression
        return ProducerBatch(
            size_max=size_max, compression=kind, created_ms=now_ms, deadline_ms=end_ms
        )

    def close_open(self) -> None:
        """Closes the full open batch, to be sent in its turn."""
        if self.open is not None and self.open.count > 0:
            self.ready.append(self.open)
            self.open = None

    # Batches go out.

    def take(self, now_ms: float) -> ProducerBatch | None:
        """The batch to send now, marked as under way; None if nothing may go at the moment."""
        if now_ms < self.retry_at_ms:
            return None
        if self._recovering:
            if any(b.outstanding for b in self.in_flight):
                return None
            self._recovering = False
            self._resend = deque(self.in_flight)
        if self.options.idempotent and self._identity is None:
            self.wants_identity = bool(self.in_flight or self.ready or self._open_is_due(now_ms))
            return None
        batch = self._next_resend(now_ms)
        if batch is None and not self._resend:
            batch = self._next_new(now_ms)
        if batch is not None:
            batch.outstanding = True
            batch.attempt += 1
            batch.sent_ms = now_ms
        return batch

    def _next_resend(self, now_ms: float) -> ProducerBatch | None:
        if sum(b.outstanding for b in self.in_flight) >= self.options.max_in_flight:
            return None  # a split made more batches; a leader remembers only so many
        while self._resend:
            if self._resend[0].settled:
                self._resend.popleft()
            elif self._is_too_late(self._resend[0], now_ms):
                return None
            else:
                return self._resend.popleft()
        return None

    def _is_too_late(self, batch: ProducerBatch, now_ms: float) -> bool:
        """True if no answer would arrive in time: an unwritten batch then stays unwritten."""
        if batch.may_be_written:
            return False
        last_call_ms = min(LAST_CALL_MS, self.options.delivery_timeout_ms / 4)
        return batch.deadline_ms - now_ms < last_call_ms

    def _next_new(self, now_ms: float) -> ProducerBatch | None:
        if self._renew or self._gap_at != NO_SEQUENCE:
            return None
        if len(self.in_flight) >= self.options.max_in_flight:
            return None
        if self.ready:
            if self._is_too_late(self.ready[0], now_ms):
                return None
            batch = self.ready.popleft()
        elif self.open is not None and self._open_is_due(now_ms):
            batch, self.open = self.open, None
        else:
            return None
        if self._identity is None:
            batch.seal(-1, -1, NO_SEQUENCE)
        else:
            batch.seal(*self._identity, self._next_sequence)
            self._next_sequence = add_sequence(self._next_sequence, batch.count)
        self.in_flight.append(batch)
        return batch

    def _open_is_due(self, now_ms: float) -> bool:
        batch = self.open
        if batch is None or batch.count == 0:
            return False
        if self.flushing or not (self.in_flight or self.ready):
            return True  # no batch is ahead of it: an awaited record waits for no timer
        return now_ms >= batch.created_ms + self.options.linger_ms

    def wake_at_ms(self, now_ms: float) -> float | None:
        """Time at which `take` may have a batch that it does not have now, without other input."""
        if now_ms < self.retry_at_ms:
            return self.retry_at_ms
        if self.open is not None and self.open.count > 0 and self.options.linger_ms > 0:
            due = self.open.created_ms + self.options.linger_ms
            if due > now_ms and len(self.in_flight) < self.options.max_in_flight:
                return due
        return None

    # Results come back.

    def on_answer(
        self, batch: ProducerBatch, attempt: int, answer: Answer, *, now_ms: float, chance: float
    ) -> list[Settled]:
        """Applies a leader's answer to an attempt of `batch`, which may be given up already."""
        if batch.settled:
            return []
        if answer.code == NONE:
            return self._acknowledged(batch, answer)
        error = from_code(answer.code, answer.message)
        if answer.appended:
            batch.may_be_written = True
        if attempt != batch.attempt:
            return []  # a later attempt of the same bytes is under way and decides
        batch.outstanding = False
        batch.last_error = error
        if settled := self._give_up_of_before(batch):
            pass
        elif answer.code in LOST_IDENTITY and self.options.idempotent:
            settled = self._out_of_sequence(batch, error)
        elif isinstance(error, wire.RecordTooLarge) and self._is_to_split(batch):
            self._split(batch)
            self._small_until_ms = now_ms + SMALLER_FOR_MS
            self._repair()
            return []
        elif not self._retries(batch, error):
            settled = self._give_up(batch, self._refusal(batch, error))
        else:
            settled = []
        if not settled:
            self._recover(now_ms, chance)
        self._repair()
        return settled

    def _is_to_split(self, batch: ProducerBatch) -> bool:
        """True if the batch may be split.

        Without sequence numbers, a part of a batch that may be written would be a second copy.
        """
        return batch.count > 1 and (self.options.idempotent or not batch.may_be_written)

    def _split(self, batch: ProducerBatch) -> None:
        """Replaces a batch that is too large by smaller ones, which are sent at once.

        The batches behind it are sent again after them.
        """
        self._size_max, parts = split(batch, self._part_size, self.options.compression)
        at = self.in_flight.index(batch)
        self.in_flight[at : at + 1] = parts
        self._recovering = True
        self._resend.clear()

    @property
    def _part_size(self) -> int:
        """Largest size of a part in bytes: a leader has refused more."""
        return self._size_max

    def _refusal(self, batch: ProducerBatch, error: BrokerError) -> Exception:
        is_large = isinstance(error, wire.RecordTooLarge) and batch.count == 1
        return failure(batch, str(self), too_large(batch, str(self), error) if is_large else error)

    def _recover(self, now_ms: float, chance: float) -> None:
        """Waits for the batches under way after a failure, then sends all again in order."""
        if not self._recovering:
            self.retry_at_ms = now_ms + self._backoff.next_ms(chance)
        self._recovering = True
        self._resend.clear()

    def _acknowledged(self, batch: ProducerBatch, answer: Answer) -> list[Settled]:
        batch.base_offset = answer.base_offset
        batch.leader_epoch = answer.leader_epoch
        batch.log_append_time_ms = answer.log_append_time_ms
        batch.outstanding = False
        batch.settled = True
        self.in_flight.remove(batch)
        self.obstacle = None
        self._backoff.reset()
        self._repair()
        return [(batch, None)]

    def _retries(self, batch: ProducerBatch, error: BrokerError) -> bool:
        if not error.retriable:
            return False
        if isinstance(error, wire.CorruptMessage) and batch.attempt >= _CORRUPT_TRIES_MAX:
            return False
        # Without idempotence the same bytes sent twice are two records.
        return self.options.idempotent or not batch.may_be_written

    def _out_of_sequence(self, batch: ProducerBatch, error: BrokerError) -> list[Settled]:
        """Handles a leader that expects another sequence: this attempt was not written."""
        ahead = self.in_flight[: self.in_flight.index(batch)]
        if ahead and isinstance(error, wire.OutOfOrderSequenceNumber):
            return []  # an earlier batch is unresolved: this one is retried after it
        if batch.may_be_written:
            return self._give_up(batch, failure(batch, str(self), error))
        if self._gap_at == NO_SEQUENCE:
            self._renew = True
        return []  # a known hole is closed by moving up

    def on_lost(
        self,
        batch: ProducerBatch,
        attempt: int,
        error: Exception,
        *,
        sent: bool,
        now_ms: float,
        chance: float,
    ) -> list[Settled]:
        """Handles a lost answer of a broken or silent stream. `sent`: the bytes may have left."""
        if batch.settled or attempt != batch.attempt or not batch.outstanding:
            return []
        batch.outstanding = False
        batch.last_error = error
        batch.may_be_written = batch.may_be_written or sent
        settled: list[Settled] = []
        if batch.may_be_written and not self.options.idempotent:
            settled = self._give_up(batch, failure(batch, str(self), error))
        elif not (settled := self._give_up_of_before(batch)):
            self._recover(now_ms, chance)
        self._repair()
        return settled

    def on_leader_moved(self, leader_epoch: int) -> None:
        """Sends the batches under way to a newer leader at once."""
        if leader_epoch <= self.sent_epoch or self._recreated is not None:
            return
        self.retry_at_ms = 0.0
        if not self.options.idempotent:
            return  # only its answer says if it was written
        for batch in self.in_flight:
            if batch.outstanding:
                batch.outstanding = False
                batch.may_be_written = True
                self._recovering = True
                self._resend.clear()
        self._repair()

    def on_recreated(self, topic_id: bytes, error: Exception) -> list[Settled]:
        """Moves batches to a recreated topic.

        Batches that are certainly in no log go to the new one, numbered from the first sequence on,
        once the answers of the old one are in. Batches that may be in the old log are settled with
        `error`.
        """
        self.topic_id, self.sent_epoch = topic_id, -1
        self._recreated = error
        self._small_until_ms = self.retry_at_ms = 0.0
        self._recovering = True
        self._resend.clear()
        settled: list[Settled] = []
        for batch in list(self.in_flight):
            if not batch.outstanding:
                settled += self._give_up_of_before(batch)
        self._repair()
        return settled

    def _give_up_of_before(self, batch: ProducerBatch) -> list[Settled]:
        """Gives up a batch that may be in a deleted log."""
        if self._recreated is None or not batch.may_be_written:
            return []
        return self._give_up(batch, failure(batch, str(self), self._recreated))

    def on_identity(self, identity: Identity) -> None:
        """Sets producer id and epoch for this partition; its sequence restarts."""
        self.wants_identity = False
        self._identity = identity
        self._renew, self._gap_at = False, NO_SEQUENCE
        self._number_from(0, self.first_sequence)

    def on_expiry(self, now_ms: float) -> list[Settled]:
        """Gives up batches past their delivery deadline; the error says if they may be written."""
        settled: list[Settled] = []
        for batch in [b for b in self.in_flight if b.deadline_ms <= now_ms]:
            batch.may_be_written = batch.may_be_written or batch.outstanding
            batch.outstanding = False
            settled += self._give_up(batch, self._expired(batch))
        while self.ready and self.ready[0].deadline_ms <= now_ms:
            batch = self.ready.popleft()
            batch.settled = True
            settled.append((batch, self._expired(batch)))
        if self.open is not None and self.open.count and self.open.deadline_ms <= now_ms:
            batch, self.open = self.open, None
            batch.settled = True
            settled.append((batch, self._expired(batch)))
        if settled:
            self._repair()
        return settled

    def _expired(self, batch: ProducerBatch) -> DeliveryTimedOut:
        cause = batch.last_error or self.obstacle
        if cause is None and self.in_flight:
            cause = self.in_flight[0].last_error
        return expired(batch, str(self), cause, self.options.delivery_timeout_ms)

    def on_hopeless(self, error: Exception) -> list[Settled]:
        """Settles everything: nothing of this topic id can be written any more."""
        settled: list[Settled] = []
        if self.open is not None and self.open.count:
            self.close_open()
        for batch in [*self.in_flight, *self.ready]:
            batch.may_be_written = batch.may_be_written or batch.outstanding
            batch.outstanding = False
            batch.settled = True
            settled.append((batch, failure(batch, str(self), error)))
        self.in_flight.clear()
        self.ready.clear()
        self._resend.clear()
        return settled

    def _give_up(self, batch: ProducerBatch, error: Exception) -> list[Settled]:
        batch.settled = True
        self.in_flight.remove(batch)
        if batch.base_sequence != NO_SEQUENCE:
            if batch.may_be_written:
                self._renew = True
            elif self._gap_at == NO_SEQUENCE or sequence_before(batch.base_sequence, self._gap_at):
                self._gap_at = batch.base_sequence
        return [(batch, error)]

    def _repair(self) -> None:
        """Closes the hole of a batch given up, once nothing is under way."""
        if not self._renew and self._gap_at == NO_SEQUENCE and self._recreated is None:
            return
        if any(b.outstanding for b in self.in_flight):
            return
        if self._recreated is not None:
            self._begin_again()
            return
        if any(b.may_be_written for b in self.in_flight):
            self._renew = True  # these are resolved first, under the numbers they have
            return
        if self._renew:
            if self._identity is not None:
                self.spent_identity, self._identity = self._identity, None
            self.wants_identity = True
            return
        first = next(
            (
                i
                for i, b in enumerate(self.in_flight)
                if not sequence_before(b.base_sequence, self._gap_at)
            ),
            len(self.in_flight),
        )
        gap_at, self._gap_at = self._gap_at, NO_SEQUENCE
        self._number_from(first, gap_at)

    def _begin_again(self) -> None:
        """Restarts the numbers: the log of a new topic has none of this producer."""
        self._recreated = None
        self._renew, self._gap_at = False, NO_SEQUENCE
        if self._identity is not None:
            self._number_from(0, self.first_sequence)

    def _number_from(self, first: int, sequence: int) -> None:
        assert self._identity is not None
        for batch in self.in_flight[first:]:
            batch.renumber(*self._identity, sequence)
            sequence = add_sequence(sequence, batch.count)
        self._next_sequence = sequence

    # Queries.

    @property
    def idle(self) -> bool:
        return not (self.in_flight or self.ready or (self.open is not None and self.open.count))

    @property
    def has_more(self) -> bool:
        """True if another batch may be due after the last one was taken."""
        return bool(self._resend or self.ready or self.open is not None)

    @property
    def waiting(self) -> int:
        """Number of records that are not settled."""
        held = sum(batch.count for batch in [*self.in_flight, *self.ready])
        return held + (self.open.count if self.open is not None else 0)

    @property
    def why_late(self) -> BaseException | None:
        """The last obstacle of the oldest batch."""
        oldest = self.in_flight[0].last_error if self.in_flight else None
        return oldest or self.obstacle

    @property
    def pending_bytes(self) -> int:
        """Bytes not sent yet; the sticky choice of a partition compares them."""
        waiting = sum(b.reserved for b in self.ready)
        return waiting + (self.open.reserved if self.open is not None else 0)

    @property
    def next_deadline_ms(self) -> float:
        batches = [*self.in_flight[:1], *list(self.ready)[:1]]
        if self.open is not None and self.open.count:
            batches.append(self.open)
        return min((b.deadline_ms for b in batches), default=float("inf"))

    @property
    def waiting_since_ms(self) -> float:
        """Send time of the oldest batch under way; infinity if there is none."""
        return min((b.sent_ms for b in self.in_flight if b.outstanding), default=float("inf"))

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"

"""Producers' batches at the leader of one partition: refuse, append, answer when the acks are
reached.

- With too few replicas in sync, a batch is refused before it is written (I-20). "Not written" is
  never said of a written batch (I-21).
- The producer's sequence is checked in the step that appends (I-57). Over Kafka's protocol, a
  producer that was forgotten continues once it has repeated its first batch (I-56).
- The first batch of a transaction waits for the transaction's coordinator (I-157). A plain batch is
  refused while a transaction of its producer is open here, or waits to be (I-160).
- A success is reported only in the leader epoch of the append. A leader that loses its role reports
  an unknown outcome for the waiting appends (I-19, P-25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.core.replication.first_batches import FirstBatches
from strandline_broker.core.replication.producer_state import Duplicate
from strandline_broker.hosts.replica.purgatory import AckPurgatory, ProduceOutcome
from strandline_broker.hosts.replica.record_check import LOG_APPEND_TIME, Looked, check_records
from strandline_broker.hosts.replica.transactions.unverified import NewBatch, Unverified
from strandline_proto.batch import (
    EndMarkerRecord,
    build_end_marker,
    check_batch,
    end_marker_epoch,
    read_header,
    stamp,
)
from strandline_proto.errors import (
    InvalidRecord,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    InvalidTxnState,
    KafkaStorageError,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordTooLarge,
    RequestTimedOut,
    UnknownProducerId,
    WireError,
)
from strandline_proto.ids import Offset
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.core.replication.verification import Guard, Guards
    from strandline_broker.hosts.disks.flush_schedule import FlushSchedule
    from strandline_broker.hosts.replica.leading import Leading
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import AckWaiter
    from strandline_broker.hosts.replica.transactions.unverified import (
        UnverifiedAppend,
        Verification,
    )
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Buffer
    from strandline_runtime.runtime import Clock

ACKS_ALL: Final = -1


class Appends:
    """The appends of one leadership. The caller has compared its epoch:
    `Partition.check_leader`.
    """

    __slots__ = (
        "_clock",
        "_committing",
        "_first_batches",
        "_flushes",
        "_flushing",
        "_leading",
        "_partition",
        "_unverified",
    )

    def __init__(
        self, partition: Partition, leading: Leading, clock: Clock, flushes: FlushSchedule
    ) -> None:
        self._partition = partition
        self._leading = leading
        self._clock = clock
        self._flushes = flushes
        self._committing = AckPurgatory()
        self._flushing = AckPurgatory()
        self._first_batches = FirstBatches()
        self._unverified: Unverified | None = None
        """The transactional batches that wait for coordinators; None until there is one."""

    @property
    def name(self) -> str:
        return self._partition.name

    @property
    def unverified(self) -> Unverified:
        """The transactional batches that wait for coordinators."""
        if self._unverified is None:
            self._unverified = Unverified(self._partition.key, self)
        return self._unverified

    @property
    def guards(self) -> Guards:
        """The guards of first batches that are not verified yet (I-158)."""
        return self.unverified.guards

    @property
    def purgatories(self) -> tuple[AckPurgatory, AckPurgatory]:
        """(the producers that wait for a commit, those that wait for the leader's disk)."""
        return self._committing, self._flushing

    def waiting(self) -> list[AckWaiter]:
        """The producers whose appends still await an answer; some may be answered already."""
        return [*self._committing.waiters(), *self._flushing.waiters()]

    def waiting_for_commit(self) -> list[AckWaiter]:
        """The same as `waiting`, without producers that wait only for the leader's disk."""
        return self._committing.waiters()

    def on_committed(self, high_watermark: int) -> None:
        self._committing.release(high_watermark)

    def on_durable(self, durable_offset: int) -> None:
        self._flushing.release(durable_offset)

    def fail_all(self, error: WireError) -> None:
        """Fail all waiters: the leadership has ended (P-25)."""
        self._committing.fail_all(error)
        self._flushing.fail_all(error)
        if self._unverified is not None:
            self._unverified.fail_all(
                NotLeaderOrFollower(
                    f"{self.name}: the leader changed before the transaction was verified; nothing"
                    " was appended"
                )
            )

    def on_marker(self, marker: EndMarker) -> None:
        """Voids the guards of the transaction that this marker ends, before it is appended, or
        found to be appended already.
        """
        if self._unverified is not None:
            self._unverified.on_marker(marker)

    def count_refused(self, error: WireError) -> None:
        """Counts a batch that was refused after its call had returned."""
        if not error.retriable:
            self._partition.counters.failed_produce_requests += 1

    def append(
        self,
        batch: Buffer,
        *,
        acks: int,
        on_done: Callable[[ProduceOutcome], None],
        looked: Looked | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        connection: object = None,
        verification: Verification | None = None,
    ) -> AckWaiter | UnverifiedAppend | None:
        """Append one batch as the leader; call `on_done` once, now or when its acks are reached.

        `verification`: of a request with a transactional id. The batch may then be appended later,
        once its transaction is verified.

        `connection`: stands for the connection of a client that cannot begin again under another
        producer id. Its forgotten producers may continue; None: they may not.

        Validation, sequence check, append and bookkeeping are one synchronous step (I-57). Raises
        WireError if the batch is refused: then nothing was written (I-20). A repeated batch is not
        validated: its first acceptance stays true, whatever the clock says now (I-55).
        """
        assert origin is not AppendOrigin.REPLICATION, "followers append from their leader"
        partition, leader = self._partition, self._leading.machine
        assert partition.role is self._leading, f"{partition.name}: that leadership is over"
        if origin.is_looked_into and partition.log.topic in INTERNAL_TOPICS:
            raise InvalidTopic(
                f"topic {partition.log.topic} is internal: only its coordinators write to it"
            )
        if len(batch) > partition.max_message_bytes:
            raise RecordTooLarge(
                f"{partition.name}: a batch of {len(batch)} bytes is above max.message.bytes"
                f" ({partition.max_message_bytes}); send less at once, or raise it"
            )
        header = check_batch(batch) if looked is None else looked.header
        if origin.is_looked_into:
            _check_attributes(header, verification)
        if verification is not None:
            _check_transactional(header, acks)
            new = NewBatch(batch, header, looked, was_forgotten=False, on_done=on_done)
            return self._append_transactional(new, verification, connection)
        is_idempotent = origin.is_looked_into and header.producer_id >= 0
        # The arrival of a batch counts, even if it is refused for another reason.
        was_forgotten = is_idempotent and self._was_forgotten(header, connection)
        if acks == ACKS_ALL:
            leader.check_can_append_all()
        if is_idempotent:
            verdict = partition.producers.check(
                header, monotonic_ms(self._clock), was_forgotten=was_forgotten
            )
            if isinstance(verdict, Duplicate):
                return self._answer_again(verdict, acks, on_done)
            if self._unverified is not None:
                self._check_waits_not(header)
        if origin.is_looked_into:
            self._check_records(batch, header, looked)
        return self._append_new(batch, header, acks, on_done)

    def _append_transactional(
        self, new: NewBatch, verification: Verification, connection: object
    ) -> AckWaiter | UnverifiedAppend | None:
        """Append the batch if its transaction is open here; else keep it until its transaction is
        verified.
        """
        partition, header, unverified = self._partition, new.header, self.unverified
        is_behind = unverified.is_behind(header, verification)
        was_forgotten = not is_behind and self._was_forgotten(header, connection)
        self._leading.machine.check_can_append_all()
        now_ms, verdict = monotonic_ms(self._clock), None
        if not is_behind:  # else its sequence counts in its turn
            verdict = partition.producers.check(header, now_ms, was_forgotten=was_forgotten)
        if isinstance(verdict, Duplicate):
            return self._answer_again(verdict, ACKS_ALL, new.on_done)
        self._check_records(new.batch, header, new.looked)
        if partition.producers.open_epoch(header.producer_id) == header.producer_epoch:
            assert not is_behind, f"{partition.name}: {header.producer_id} waits in a transaction"
            return self._append_new(new.batch, header, ACKS_ALL, new.on_done)
        looked = Looked(header, partition.log.config, None)
        return unverified.add(
            new._replace(looked=looked, was_forgotten=was_forgotten), verification
        )

    def append_verified(self, new: NewBatch, guard: Guard) -> AckWaiter | None:
        """Append a batch whose transaction was verified under the guard. All that may have changed
        since its arrival is checked again, in the step that appends: epoch and sequence before the
        guard (I-158, P-120). Raises WireError if the batch is refused.
        """
        partition, header = self._partition, new.header
        assert partition.role is self._leading, f"{partition.name}: that leadership is over"
        if partition.out_of_service is not None:
            raise KafkaStorageError(f"{partition.name}: {partition.out_of_service}")
        self._leading.machine.check_can_append_all()
        verdict = partition.producers.check(
            header, monotonic_ms(self._clock), was_forgotten=new.was_forgotten
        )
        if isinstance(verdict, Duplicate):
            return self._answer_again(verdict, ACKS_ALL, new.on_done)
        open_epoch = partition.producers.open_epoch(header.producer_id)
        if open_epoch is None:
            self.guards.check(guard, header.base_sequence)
        elif open_epoch != header.producer_epoch:
            raise InvalidTxnState(
                f"{partition.name}: the transaction of producer {header.producer_id} in epoch"
                f" {open_epoch} is still open, and epoch {header.producer_epoch} begins another"
            )
        self._check_records(new.batch, header, new.looked)
        return self._append_new(new.batch, header, ACKS_ALL, new.on_done)

    def _check_waits_not(self, header: BatchHeader) -> None:
        """Refuse a plain batch of a producer whose transactional ones wait for the coordinator."""
        if header.producer_id in self.guards:
            raise InvalidTxnState(
                f"{self.name}: producer {header.producer_id} has begun a transaction here and sent"
                " a batch outside it; end the transaction first"
            )

    def _was_forgotten(self, header: BatchHeader, connection: object) -> bool:
        """True if the batch is the first of a producer without state, which may have any sequence.
        Raises UnknownProducerId if the client has to repeat it first.
        """
        producers = self._partition.producers
        if connection is None or header.base_sequence < 0 or producers.knows(header.producer_id):
            return False
        is_repeated = self._first_batches.arrives(header, connection)
        if header.base_sequence == producers.first_sequence or is_repeated:
            return is_repeated
        raise UnknownProducerId(
            f"{self._partition.name}: producer {header.producer_id} is not known here and sent"
            f" sequence {header.base_sequence}; the batch is accepted if the producer repeats it,"
            " and no earlier one before it"
        )

    def _check_records(self, batch: Buffer, header: BatchHeader, looked: Looked | None) -> None:
        partition = self._partition
        config = partition.log.config
        if looked is None or looked.config is not config:
            check_records(partition.name, batch, header, config, wall_ms(self._clock))
        elif looked.refused is not None:
            raise looked.refused

    def _append_new(
        self,
        batch: Buffer,
        header: BatchHeader,
        acks: int,
        on_done: Callable[[ProduceOutcome], None],
    ) -> AckWaiter | None:
        outcome, end_offset, rolled = self._write(batch, header)
        waiter = self._wait(end_offset, outcome, acks, on_done)
        self._on_written(end_offset, rolled=rolled)
        return waiter

    def append_marker(self, marker: EndMarker) -> Offset:
        """Append the control batch of an end marker; returns its end offset. The caller has checked
        the marker in this step (`end_markers.append_marker`).
        """
        batch = build_end_marker(
            marker.producer_id,
            marker.producer_epoch,
            EndMarkerRecord(marker.is_commit, marker.coordinator_epoch),
            timestamp_ms=wall_ms(self._clock),
        )
        _, end_offset, rolled = self._write(batch, read_header(batch))
        self._on_written(end_offset, rolled=rolled)
        return Offset(end_offset)

    def after_commit(
        self, end_offset: int, on_done: Callable[[ProduceOutcome], None]
    ) -> AckWaiter | None:
        """Call `on_done` once the log is committed up to this offset, in this leadership; None if
        it was called already.
        """
        outcome = ProduceOutcome(appended=True)
        return self._wait(end_offset, outcome, ACKS_ALL, on_done)

    def _on_written(self, end_offset: int, *, rolled: bool) -> None:
        self._flushes.on_append(self._partition.log, rolled=rolled)
        self._leading.on_append(Offset(end_offset))

    def _write(self, batch: Buffer, header: BatchHeader) -> tuple[ProduceOutcome, int, bool]:
        """Write the batch and record its producer; returns the outcome, the batch's end offset, and
        True if a segment began with it.
        """
        partition, leader_epoch = self._partition, self._leading.machine.leader_epoch
        log, now_ms = partition.log, wall_ms(self._clock)
        if partition.is_reloading:
            raise KafkaStorageError(
                f"{self.name}: the state of its producers is read again; nothing was appended, try"
                " again soon"
            )
        stamps = log.config.message_timestamp_type == LOG_APPEND_TIME
        if stamps:
            batch, header = stamp(batch, header, now_ms)
        try:
            done = log.append_as_leader(batch, header, leader_epoch=leader_epoch, now_ms=now_ms)
        except OSError as error:
            raise partition.refuse_write(error) from error
        partition.counters.bytes_in += len(batch)
        partition.counters.messages_in += header.record_count
        if header.producer_id >= 0:
            self._first_batches.forget(header.producer_id)
            partition.producers.on_append(
                header._replace(base_offset=done.base_offset),
                monotonic_ms(self._clock),
                end_marker_epoch(batch, 0, header),
            )
            if self._unverified is not None and not header.is_control:
                self._unverified.guards.on_append(header.producer_id, header.producer_epoch)
        outcome = ProduceOutcome(
            base_offset=done.base_offset,
            log_append_time_ms=now_ms if stamps else -1,
            log_start_offset=log.log_start_offset,
            leader_epoch=leader_epoch,
            appended=True,
        )
        return outcome, done.next_offset, done.rolled

    def _answer_again(
        self, first: Duplicate, acks: int, on_done: Callable[[ProduceOutcome], None]
    ) -> AckWaiter | None:
        """A repeated batch succeeds with its first copy's offset, once that is committed (P-41)."""
        log = self._partition.log
        stamped = log.config.message_timestamp_type == LOG_APPEND_TIME
        outcome = ProduceOutcome(
            base_offset=first.base_offset,
            log_append_time_ms=first.timestamp if stamped else -1,
            log_start_offset=log.log_start_offset,
            leader_epoch=self._leading.machine.leader_epoch,
            appended=True,
        )
        return self._wait(first.required_offset, outcome, acks, on_done)

    def _wait(
        self,
        required_offset: int,
        outcome: ProduceOutcome,
        acks: int,
        on_done: Callable[[ProduceOutcome], None],
    ) -> AckWaiter | None:
        partition = self._partition
        durable = partition.log.durable_offset
        if acks == ACKS_ALL and required_offset > partition.high_watermark:
            purgatory = self._committing
        elif acks == 1 and self._flushes.always and required_offset > durable:
            purgatory = self._flushing
        else:
            on_done(outcome)
            return None
        return purgatory.add(required_offset, outcome, on_done)

    def time_out(self, waiter: AckWaiter, timeout_ms: int) -> None:
        """Answer after the producer's own limit, unless there is an answer by now. The replicas in
        sync may be the cause.
        """
        if waiter.is_done:
            return
        error: WireError = RequestTimedOut(
            f"{self.name}: not committed within {timeout_ms} ms; the records were appended and may"
            " still be"
        )
        if self._leading.machine.below_min_isr():
            error = NotEnoughReplicasAfterAppend(
                f"{self._leading.describe_isr()};"
                " the records were appended and may still be committed"
            )
        waiter.give_up(error)


def _check_attributes(header: BatchHeader, verification: Verification | None) -> None:
    """Check the attributes that only a broker may set, and whether the batch is of its request's
    kind.
    """
    if header.is_control:
        raise InvalidRecord("a producer may not write control batches; only brokers do")
    if header.is_transactional and verification is None:
        raise InvalidRequest(
            "the batch is transactional, and its request has no transactional_id; send the id of"
            " the producer, or a batch without transaction"
        )
    if header.is_log_append_time:
        raise InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")
    if header.has_delete_horizon:
        raise InvalidRecord("a producer may not set a delete horizon; only the log cleaner does")


def _check_transactional(header: BatchHeader, acks: int) -> None:
    """Check a batch of a request with a transactional id."""
    if acks != ACKS_ALL:
        raise InvalidRequiredAcks(
            f"acks is {acks} in a request with a transactional_id; set acks=all (-1)"
        )
    if header.producer_id < 0:
        raise InvalidRequest(
            "a batch of a request with a transactional_id has no producer id; set"
            " enable.idempotence=true"
        )
    if not header.is_transactional:
        raise InvalidTxnState(
            f"producer {header.producer_id} sent a batch outside a transaction in a request with a"
            " transactional_id; begin a transaction, or send no transactional_id"
        )

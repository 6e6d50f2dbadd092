"""Transactional batches that wait for the coordinator's answer, at the leader of one partition.

The first batch of a transaction waits until the coordinator says that the partition belongs to the
transaction (I-157). Later batches of the same producer and epoch wait behind it, in the order of
their arrival (P-37). Other batches of the partition pass them.

When the answer arrives, one step without `await` appends them all. Each append checks leadership,
epoch, sequence and guard again (I-158). No task waits here, and no client's call: a client that
disconnects only drops its batches.

An end marker voids guards, and ends the wait for their answers. Batches of an earlier epoch are
refused. A transaction without an epoch of its own may begin in the epoch in which the one before
has ended, and a late marker does not tell which of the two it ends. So the coordinator is asked
again, as if the batches had just arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from strandline_broker.core.replication.end_marker import EPOCH_OF_ITS_OWN
from strandline_broker.core.replication.verification import Guards
from strandline_broker.hosts.replica.purgatory import ProduceOutcome
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    WireError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.core.replication.verification import Guard
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.replica.purgatory import AckWaiter
    from strandline_broker.hosts.replica.record_check import Looked
    from strandline_proto.batch import BatchHeader
    from strandline_proto.decompression import Buffer

BYTES_MAX: Final = 64 << 20
"""Limit of bytes in the batches of one listener that wait for coordinators."""


class Room:
    """The bytes of the batches that wait for coordinators' answers."""

    __slots__ = ("bytes_max", "taken")

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.taken = 0

    def take(self, size: int) -> None:
        if self.taken + size > self.bytes_max:
            raise ThrottlingQuotaExceeded(
                f"transactional batches of {self.taken} bytes wait for their coordinators already;"
                f" at most {self.bytes_max} may: try again"
            )
        self.taken += size

    def release(self, size: int) -> None:
        self.taken -= size


class Verification(NamedTuple):
    """The parts of a request with a transactional id that all its batches share."""

    transactional_id: str
    transaction_version: int
    """1: the client adds partitions to its transaction; 2: its first write to one adds it."""
    verifier: Verifier
    room: Room

    @property
    def raises_epoch(self) -> bool:
        return self.transaction_version >= EPOCH_OF_ITS_OWN


class NewBatch(NamedTuple):
    """One transactional batch of a client, with what its append needs."""

    batch: Buffer
    header: BatchHeader
    looked: Looked | None
    was_forgotten: bool
    """True if its producer has no state here, and may begin with any sequence."""
    on_done: Callable[[ProduceOutcome], None]


class VerifiedAppends(Protocol):
    """The appends of the leadership, which these batches join once they are verified."""

    @property
    def name(self) -> str:
        """The partition's name."""

    def append_verified(self, new: NewBatch, guard: Guard) -> AckWaiter | None:
        """Appends the batch, or raises WireError."""

    def time_out(self, waiter: AckWaiter, timeout_ms: int) -> None:
        """Ends the wait of an appended batch."""

    def count_refused(self, error: WireError) -> None:
        """Counts a batch that is refused."""


class UnverifiedAppend:
    """One batch that waits for the coordinator, then for its acks."""

    __slots__ = ("_appends", "_batch", "_question", "_waiter")

    def __init__(self, appends: VerifiedAppends, question: Question, batch: NewBatch) -> None:
        self._appends = appends
        self._question = question
        self._batch: NewBatch | None = batch
        """None: it waits for the coordinator no more."""
        self._waiter: AckWaiter | None = None

    def append(self) -> None:
        """Appends the batch, which is verified. An error of the append is its outcome."""
        batch = self._take()
        if batch is None:
            return
        try:
            self._waiter = self._appends.append_verified(batch, self._question.guard)
        except WireError as error:
            self._finish(batch, error)

    def refuse(self, error: WireError) -> None:
        """Gives the error as the outcome: nothing was appended."""
        batch = self._take()
        if batch is not None:
            self._finish(batch, error)

    def time_out(self, timeout_ms: int) -> None:
        """Answers with an error, unless the batch has its answer by now."""
        if self._waiter is not None:
            self._appends.time_out(self._waiter, timeout_ms)
            return
        self.refuse(
            RequestTimedOut(
                f"{self._appends.name}: the coordinator of the transaction did not answer within"
                f" {timeout_ms} ms; nothing was appended"
            )
        )

    def abandon(self, error: WireError) -> None:
        """Drops the batch, whose client has gone, or only its answer once it is appended."""
        if self._waiter is not None:
            self._waiter.give_up(error)
        else:
            self.refuse(error)

    def _take(self) -> NewBatch | None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._question.remove(self, len(batch.batch))
        return batch

    def _finish(self, batch: NewBatch, error: WireError) -> None:
        self._appends.count_refused(error)
        batch.on_done(ProduceOutcome(error=error))


class Question:
    """One question to the coordinator, and the batches that wait for its answer, in order."""

    __slots__ = ("_answer", "_unverified", "_verification", "guard", "waiting")

    def __init__(self, unverified: Unverified, guard: Guard, verification: Verification) -> None:
        self._unverified = unverified
        self._verification = verification
        self.guard = guard
        self.waiting: dict[UnverifiedAppend, None] = {}
        self._answer = self._ask()

    def _ask(self) -> asyncio.Future[None]:
        asked = self._verification
        answer = asked.verifier.ask(
            asked.transactional_id,
            self.guard.producer_id,
            self.guard.producer_epoch,
            self._unverified.key,
            verify_only=not asked.raises_epoch,
        )
        answer.add_done_callback(self._answered)
        return answer

    def ask_again(self, guard: Guard) -> None:
        """Asks under another guard. The former answer counts no more."""
        self.guard = guard
        former, self._answer = self._answer, self._ask()
        former.cancel()

    def add(self, batch: NewBatch) -> UnverifiedAppend:
        # A view would keep all bytes of its request.
        kept = batch._replace(batch=bytes(batch.batch))
        added = UnverifiedAppend(self._unverified.appends, self, kept)
        self.waiting[added] = None
        return added

    def remove(self, waiting: UnverifiedAppend, size: int) -> None:
        """Drops a batch; without any, no batch needs the answer."""
        self._verification.room.release(size)
        del self.waiting[waiting]
        if not self.waiting and not self._answer.done():
            self._unverified.end(self)
            self._answer.cancel()

    def refuse_all(self, error: WireError) -> None:
        for waiting in list(self.waiting):
            waiting.refuse(error)

    def _answered(self, answer: asyncio.Future[None]) -> None:
        error = _error_of(answer)
        if answer is not self._answer:
            return
        if error is not None:
            self.refuse_all(error)
        for waiting in list(self.waiting):
            waiting.append()
        self._unverified.end(self)


def _error_of(answer: asyncio.Future[None]) -> WireError | None:
    if answer.cancelled():
        return CoordinatorNotAvailable("the broker asks no coordinator any more; try again")
    error = answer.exception()
    assert error is None or isinstance(error, WireError), repr(error)
    return error


class Unverified:
    """The batches of one leadership that wait for coordinators."""

    __slots__ = ("_questions", "appends", "guards", "key")

    def __init__(self, key: Key, appends: VerifiedAppends) -> None:
        self.key = key
        self.appends = appends
        self.guards = Guards()
        self._questions: dict[Guard, Question] = {}

    def __len__(self) -> int:
        return sum(len(question.waiting) for question in self._questions.values())

    def is_behind(self, header: BatchHeader, verification: Verification) -> bool:
        """True if batches of this producer and epoch wait, so that the batch must wait too."""
        return (
            self.guards.find(
                header.producer_id, header.producer_epoch, raises_epoch=verification.raises_epoch
            )
            is not None
        )

    def add(self, batch: NewBatch, verification: Verification) -> UnverifiedAppend:
        """Keeps the batch until the coordinator has answered. Raises ThrottlingQuotaExceeded."""
        header, room = batch.header, verification.room
        room.take(len(batch.batch))
        guard = self.guards.take(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            raises_epoch=verification.raises_epoch,
        )
        question = self._questions.get(guard)
        if question is None:
            question = self._questions[guard] = Question(self, guard, verification)
        return question.add(batch)

    def end(self, question: Question) -> None:
        """Ends a question that has its answer, or whose answer no batch needs."""
        self._questions.pop(question.guard, None)
        self.guards.drop(question.guard)

    def fail_all(self, error: WireError) -> None:
        """Refuses all batches: the leadership has ended (P-25)."""
        for question in list(self._questions.values()):
            question.refuse_all(error)

    def on_marker(self, marker: EndMarker) -> None:
        """Voids the guards of the transaction that this marker ends, before it is appended."""
        for voided in self.guards.on_marker(marker):
            question = self._questions.pop(voided, None)
            if question is None:
                continue  # a group's coordinator asked under it
            if voided.producer_epoch == marker.producer_epoch:
                guard = self.guards.take(
                    voided.producer_id,
                    voided.producer_epoch,
                    voided.lowest_sequence,
                    raises_epoch=voided.raises_epoch,
                )
                self._questions[guard] = question
                question.ask_again(guard)
            else:
                question.refuse_all(
                    InvalidProducerEpoch(
                        f"{self.appends.name}: producer {voided.producer_id} sent epoch"
                        f" {voided.producer_epoch}; its transaction was ended in epoch"
                        f" {marker.producer_epoch}"
                    )
                )

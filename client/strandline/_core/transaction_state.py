"""The state of a producer's transactions: which calls are allowed, and what an error means.

Each transaction has a producer epoch of its own (P-105): the answer to the end of one gives the
identity of the next. An abortable error leaves only the abort. After a fatal error, nothing is
allowed: another producer has the transactional id, or the coordinator has forgotten it, and this
producer never takes the id back (P-114).

The answer to a commit may be lost. Then the outcome is unknown until the same commit is repeated,
and an abort is refused meanwhile: the transaction may be committed already.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline.errors import (
    AbortableTransactionError,
    BrokerError,
    FatalTransactionError,
    TransactionAbortable,
    TransactionFenced,
    WrongTransactionState,
    describe,
    from_code,
)
from strandline_proto import errors as wire
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from strandline._core.delivery_terms import Identity

BEGIN: Final = "begin_transaction"
COMMIT: Final = "commit_transaction"
ABORT: Final = "abort_transaction"
SEND: Final = "send"
SEND_OFFSETS: Final = "send_offsets_to_transaction"

_FATAL: Final = frozenset(
    {
        wire.ProducerFenced.code,
        wire.InvalidProducerIdMapping.code,
        wire.InvalidTxnState.code,
        wire.FencedInstanceId.code,
    }
)
"""Codes after which no transaction of this producer can be right."""
_FENCED: Final = frozenset({wire.ProducerFenced.code, wire.InvalidProducerEpoch.code})
"""Codes by which a coordinator refuses the end of a transaction of an older epoch."""


class Phase(enum.Enum):
    """The phases between two transactions."""

    READY = "no transaction is open"
    OPEN = "a transaction is open"
    COMMITTING = "a commit is under way"
    ABORTING = "an abort is under way"
    COMMIT_UNKNOWN = "the outcome of the commit is unknown"
    ABORT_UNKNOWN = "the abort is not confirmed"
    BROKEN = "the transaction has failed"
    FATAL = "the producer has failed"


ALLOWED: Final[dict[Phase, tuple[str, ...]]] = {
    Phase.READY: (BEGIN,),
    Phase.OPEN: (SEND, SEND_OFFSETS, COMMIT, ABORT),
    Phase.COMMITTING: (),
    Phase.ABORTING: (),
    Phase.COMMIT_UNKNOWN: (COMMIT,),
    Phase.ABORT_UNKNOWN: (ABORT,),
    Phase.BROKEN: (ABORT,),
    Phase.FATAL: (),
}


class Fate(enum.Enum):
    """The consequence of a coordinator's answer."""

    DONE = "done"
    AGAIN = "again"
    """The error is retriable: the same request is repeated."""
    REFUSED = "refused"


class End(NamedTuple):
    """The end of a transaction, as the coordinator is asked for it."""

    identity: Identity
    committed: bool


class TransactionState:
    """The transactions of one producer, one after the other."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.identity: Identity | None = None
        self.phase = Phase.READY
        self.number = 0
        """Number of transactions begun so far; a record belongs to the one it was sent in."""
        self.error: Exception | None = None
        """The first error of the present transaction, or the fatal one."""
        self.watchers: list[Callable[[], None]] = []
        """Called after each change of the phase."""
        self._is_touched = False
        self._is_asked = False
        self._offsets_under_way = 0

    def _turn(self, phase: Phase) -> None:
        self.phase = phase
        for watcher in self.watchers:
            watcher()

    # Calls of the application.

    def require(self, call: str) -> None:
        """Raises the error of a call that the present phase does not allow."""
        if call not in ALLOWED[self.phase]:
            self._refuse(call)

    def _refuse(self, call: str) -> NoReturn:
        if self.phase is Phase.FATAL:
            raise self._fatal()
        if self.phase is Phase.BROKEN:
            raise self.abortable()
        allowed = ALLOWED[self.phase]
        what = f"allowed are {', '.join(allowed)}" if len(allowed) > 1 else "; ".join(allowed)
        if len(allowed) == 1:
            what = f"only {what} is allowed"
        raise WrongTransactionState(
            f"{call} of the producer with transactional_id {self.transactional_id!r}: "
            f"{self.phase.value}; {what or 'wait for its end'}"
        )

    def abortable(self) -> AbortableTransactionError:
        """The error of every call but the abort, once the transaction has failed."""
        assert self.error is not None
        return AbortableTransactionError(
            f"the transaction of {self.transactional_id!r} can only be aborted, call "
            f"{ABORT}(): {describe(self.error)}",
            self.error,
        )

    def _fatal(self) -> FatalTransactionError:
        cause = self.error
        assert cause is not None
        if code_of(cause) in _FENCED:
            return TransactionFenced(
                f"this producer may not use the transactional_id {self.transactional_id!r} any "
                "more: another producer has started with it, or its transaction took longer than "
                f"transaction_timeout_ms and was aborted ({describe(cause)}); close this producer",
                cause,
            )
        return FatalTransactionError(
            f"the producer with transactional_id {self.transactional_id!r} cannot go on, close it: "
            f"{describe(cause)}",
            cause,
        )

    def on_identity(self, identity: Identity) -> None:
        """Sets the first identity, from the coordinator's answer to the start."""
        assert self.phase is Phase.READY, self.phase
        self.identity = identity

    def begin(self) -> None:
        self.require(BEGIN)
        self.number += 1
        self.error, self._is_touched, self._is_asked = None, False, False
        self._turn(Phase.OPEN)

    def touch(self) -> Identity:
        """Returns the identity for a batch or for offsets, which may be written from now on."""
        assert self.identity is not None
        self._is_touched = True
        return self.identity

    def begin_offsets(self) -> Identity:
        """Returns the identity of the offsets, until whose outcome no commit is allowed."""
        self.require(SEND_OFFSETS)
        self._offsets_under_way += 1
        return self.touch()

    def end_offsets(self) -> None:
        self._offsets_under_way -= 1

    def begin_commit(self) -> None:
        """Starts a commit, or repeats one without an outcome."""
        self.require(COMMIT)
        if self._offsets_under_way > 0:
            raise WrongTransactionState(
                f"{COMMIT} of the producer with transactional_id {self.transactional_id!r}: "
                f"offsets are being sent; wait for {SEND_OFFSETS}"
            )
        self._turn(Phase.COMMITTING)

    def begin_abort(self) -> None:
        self.require(ABORT)
        self._turn(Phase.ABORTING)

    def ask(self) -> End | None:
        """Returns the question for the coordinator, once all records have an outcome.

        None if nothing was written: then the transaction is over.
        """
        assert self.phase in (Phase.COMMITTING, Phase.ABORTING), self.phase
        assert self.identity is not None
        if not self._is_touched:
            self._turn(Phase.READY)
            return None
        self._is_asked = True
        return End(self.identity, self.phase is Phase.COMMITTING)

    def interrupt(self) -> None:
        """Notes a commit or abort that has ended without an outcome: cancelled, or too late."""
        if self.phase is Phase.COMMITTING:
            self._turn(Phase.COMMIT_UNKNOWN if self._is_asked else Phase.OPEN)
        elif self.phase is Phase.ABORTING:
            self._turn(Phase.ABORT_UNKNOWN)

    # Errors and answers.

    def fail(self, error: Exception) -> None:
        """Notes an error of the open transaction: a failed record, or offsets without an outcome.

        Errors of records that an abort gives up are its effect, and those of an earlier
        transaction are known.
        """
        if code_of(error) in _FATAL:
            self._fail_for_good(error)
        elif self.phase is Phase.OPEN or (self.phase is Phase.COMMITTING and not self._is_asked):
            self.error = error
            self._turn(Phase.BROKEN)

    def _fail_for_good(self, error: Exception) -> None:
        if self.phase is not Phase.FATAL:
            self.error = error
            self._turn(Phase.FATAL)

    def on_end(self, code: int, message: str, identity: Identity) -> Fate:
        """Applies the answer to the present commit or abort; `identity` is for the next one."""
        assert self._is_asked
        if self.phase is Phase.FATAL:
            return Fate.REFUSED
        if code == NONE:
            self.identity = identity
            self._turn(Phase.READY)
            return Fate.DONE
        error = from_code(code, message)
        if error.retriable:
            return Fate.AGAIN
        if isinstance(error, TransactionAbortable) and self.phase is Phase.COMMITTING:
            self.error, self._is_asked = error, False
            self._turn(Phase.BROKEN)
        else:
            self._fail_for_good(error)
        return Fate.REFUSED

    def require_committing(self) -> None:
        """Raises the error of a record that has failed since the commit began."""
        if self.phase is not Phase.COMMITTING:
            self._refuse(COMMIT)

    def require_ended(self, call: str) -> None:
        """Raises the error of a commit or abort that the coordinator has refused."""
        if self.phase is not Phase.READY:
            self._refuse(call)

    # Queries.

    @property
    def is_open(self) -> bool:
        """True if records are taken."""
        return self.phase is Phase.OPEN

    def is_over(self, number: int) -> bool:
        """True if the transaction of this number has ended."""
        return number != self.number or self.phase is Phase.READY

    @property
    def may_commit(self) -> bool:
        """True if no record has failed so far."""
        return self.phase in (Phase.OPEN, Phase.COMMITTING)

    @property
    def is_to_abort(self) -> bool:
        """True if the end of the producer aborts a transaction."""
        return ABORT in ALLOWED[self.phase]

    @property
    def is_fenced(self) -> bool:
        return self.phase is Phase.FATAL and code_of(self.error) in _FENCED


def code_of(error: BaseException | None) -> int | None:
    """The broker's code in an error or in its causes; None if there is none."""
    while error is not None:
        if isinstance(error, BrokerError):
            return error.code
        error = getattr(error, "cause", None)
    return None

"""The states of a transactional producer: what each allows, and what errors and answers do."""

from __future__ import annotations

import pytest

from strandline._core.delivery_terms import Identity
from strandline._core.transaction_state import (
    ABORT,
    ALLOWED,
    BEGIN,
    COMMIT,
    SEND,
    SEND_OFFSETS,
    End,
    Fate,
    Phase,
    TransactionState,
    code_of,
)
from strandline.errors import (
    AbortableTransactionError,
    DeliveryError,
    FatalTransactionError,
    OutcomeUnknown,
    ProducerFenced,
    TransactionFenced,
    WrongTransactionState,
    from_code,
)
from strandline_proto import errors as wire

FIRST, NEXT = Identity(7, 3), Identity(7, 4)
CALLS = (BEGIN, COMMIT, ABORT, SEND, SEND_OFFSETS)


def opened(*, touched: bool = True) -> TransactionState:
    state = TransactionState("pay")
    state.on_identity(FIRST)
    state.begin()
    if touched:
        assert state.touch() == FIRST
    return state


def in_phase(phase: Phase) -> TransactionState:
    state = opened()
    if phase is Phase.READY:
        state.begin_commit()
        state.ask()
        state.on_end(0, "", NEXT)
    elif phase in (Phase.COMMITTING, Phase.COMMIT_UNKNOWN):
        state.begin_commit()
        state.ask()
    elif phase in (Phase.ABORTING, Phase.ABORT_UNKNOWN):
        state.begin_abort()
        state.ask()
    elif phase is Phase.BROKEN:
        state.fail(from_code(10, "too large"))
    elif phase is Phase.FATAL:
        state.fail(from_code(90, "fenced"))
    if phase in (Phase.COMMIT_UNKNOWN, Phase.ABORT_UNKNOWN):
        state.interrupt()
    assert state.phase is phase
    return state


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
@pytest.mark.parametrize("call", CALLS)
def test_each_phase_allows_some_calls_and_its_error_names_them(phase: Phase, call: str) -> None:
    state = in_phase(phase)
    if call in ALLOWED[phase]:
        state.require(call)
        return
    kinds = {Phase.BROKEN: AbortableTransactionError, Phase.FATAL: FatalTransactionError}
    with pytest.raises(kinds.get(phase, WrongTransactionState)) as raised:
        state.require(call)
    text = str(raised.value)
    assert "'pay'" in text
    if phase not in kinds:
        assert call in text
        assert phase.value in text
        assert all(allowed in text for allowed in ALLOWED[phase])
    assert state.phase is phase


def test_the_answer_to_an_end_gives_the_identity_of_the_next_transaction() -> None:
    state = opened()
    state.begin_commit()
    assert state.ask() == End(FIRST, committed=True)
    assert state.on_end(0, "", NEXT) is Fate.DONE
    state.begin()
    assert (state.touch(), state.number) == (NEXT, 2)
    state.begin_abort()
    assert state.ask() == End(NEXT, committed=False)


@pytest.mark.parametrize("end", ["begin_commit", "begin_abort"])
def test_a_transaction_that_nothing_was_written_in_asks_nobody(end: str) -> None:
    state = opened(touched=False)
    getattr(state, end)()
    assert state.ask() is None
    assert state.phase is Phase.READY
    state.begin()


def test_a_commit_that_has_not_asked_is_open_again_and_one_that_has_is_unknown() -> None:
    state = opened()
    state.begin_commit()
    state.interrupt()
    assert state.is_open
    state.begin_commit()
    state.ask()
    state.interrupt()
    assert state.phase is Phase.COMMIT_UNKNOWN
    state.begin_commit()
    assert state.ask() == End(FIRST, committed=True)


@pytest.mark.parametrize("code", [7, 14, 15, 16, 51])
@pytest.mark.parametrize("phase", [Phase.COMMITTING, Phase.ABORTING])
def test_a_retriable_answer_leaves_the_question_open(code: int, phase: Phase) -> None:
    state = in_phase(phase)
    assert state.on_end(code, "", NEXT) is Fate.AGAIN
    assert (state.phase, state.identity) == (phase, FIRST)


@pytest.mark.parametrize("code", [47, 48, 49, 90, 42, -1])
@pytest.mark.parametrize("phase", [Phase.COMMITTING, Phase.ABORTING])
def test_any_other_refusal_of_an_end_is_fatal(code: int, phase: Phase) -> None:
    state = in_phase(phase)
    assert state.on_end(code, "", NEXT) is Fate.REFUSED
    assert state.phase is Phase.FATAL
    assert state.is_fenced is (code in (47, 90))
    with pytest.raises(TransactionFenced if state.is_fenced else FatalTransactionError) as raised:
        state.require_ended(COMMIT)
    assert isinstance(raised.value, ProducerFenced) is state.is_fenced
    assert state.on_end(0, "", NEXT) is Fate.REFUSED  # a late answer revives nothing
    assert state.phase is Phase.FATAL


def test_a_commit_that_can_only_be_aborted_is_aborted_under_the_same_identity() -> None:
    state = in_phase(Phase.COMMITTING)
    assert state.on_end(wire.TransactionAbortable.code, "", NEXT) is Fate.REFUSED
    with pytest.raises(AbortableTransactionError):
        state.require_ended(COMMIT)
    state.begin_abort()
    assert state.ask() == End(FIRST, committed=False)


def test_a_failed_record_breaks_a_commit_that_waits_for_it_and_none_that_is_decided() -> None:
    state = opened()
    state.begin_commit()
    state.fail(from_code(10))
    assert state.phase is Phase.BROKEN
    state.interrupt()
    assert state.phase is Phase.BROKEN
    asked = in_phase(Phase.COMMITTING)
    asked.fail(from_code(10))
    assert asked.phase is Phase.COMMITTING


@pytest.mark.parametrize("phase", [Phase.READY, Phase.ABORTING, Phase.ABORT_UNKNOWN])
def test_records_that_an_abort_gives_up_are_no_news(phase: Phase) -> None:
    state = in_phase(phase)
    state.fail(DeliveryError("aborted"))
    assert state.phase is phase


@pytest.mark.parametrize("code", [48, 49, 82, 90])
@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.BROKEN, Phase.ABORTING, Phase.READY])
def test_a_fatal_error_is_found_in_its_wrapping(code: int, phase: Phase) -> None:
    state = in_phase(phase)
    state.fail(OutcomeUnknown("lost", cause=from_code(code), may_have_been_written=True))
    assert state.phase is Phase.FATAL


@pytest.mark.parametrize("code", [47, 120, 10, 22, 25, 113])
def test_an_abortable_error_keeps_its_first_reason(code: int) -> None:
    state = opened()
    state.fail(DeliveryError("first", cause=from_code(code)))
    state.fail(DeliveryError("second"))
    assert state.phase is Phase.BROKEN
    with pytest.raises(AbortableTransactionError, match="first"):
        state.require(COMMIT)


def test_no_commit_while_offsets_have_no_outcome() -> None:
    state = opened(touched=False)
    assert state.begin_offsets() == FIRST
    with pytest.raises(WrongTransactionState, match="offsets are being sent"):
        state.begin_commit()
    state.end_offsets()
    state.begin_commit()
    assert state.ask() is not None


def test_an_error_of_one_transaction_is_not_one_of_the_next() -> None:
    state = in_phase(Phase.BROKEN)
    state.begin_abort()
    state.ask()
    state.on_end(0, "", NEXT)
    state.begin()
    assert state.error is None
    assert state.may_commit
    assert not state.is_over(2)
    assert state.is_over(1)


def test_watchers_hear_of_each_turn() -> None:
    state, heard = TransactionState("pay"), list[bool]()
    state.watchers.append(lambda: heard.append(state.is_open))
    state.on_identity(FIRST)
    state.begin()
    state.begin_abort()
    state.ask()
    assert heard == [True, False, False]


def test_the_code_of_an_error_is_that_of_its_cause() -> None:
    assert code_of(None) is None
    assert code_of(DeliveryError("x", cause=ValueError())) is None
    assert code_of(DeliveryError("x", cause=from_code(47))) == 47

"""EndTxn: the table of COORDINATION 3.7, every cell, and what follows a decision."""

from __future__ import annotations

import pytest

from strandline_broker.core.transactions.commands import (
    NO_PRODUCER_ID_LEFT,
    Aborted,
    MarkersDone,
    Producer,
    SendMarkers,
)
from strandline_broker.core.transactions.transaction import DATA_EPOCH_MAX
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.transactions_rig import T0, T1, TransactionsRig, code

OK = 0


def state_of(name: str, version: int) -> tuple[TransactionsRig, Producer, Producer]:
    """A rig in that state, the producer that led there (`retry`), and the present one."""
    rig = TransactionsRig()
    producer = rig.init()
    if name == "Empty":
        return rig, producer, rig.init(producer=producer)
    rig.add(producer, version=version)
    if name == "Ongoing":
        return rig, producer, producer
    rig.end(producer, commit="Commit" in name, version=version)
    if name.startswith("Complete"):
        rig.marked()
    found = rig.of()
    assert rig.state() == name
    return rig, producer, Producer(found.producer_id, found.producer_epoch)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        ("Empty", 48, 48),
        ("Ongoing", OK, OK),
        ("PrepareCommit", 51, 48),
        ("PrepareAbort", 48, 51),
        ("CompleteCommit", OK, 48),
        ("CompleteAbort", 48, OK),
    ],
)
def test_without_bumps_the_present_epoch_is_of_the_last_transaction(
    state: str, commit: int, abort: int
) -> None:
    for is_commit, expected in ((True, commit), (False, abort)):
        rig, _, present = state_of(state, version=0)
        reply = rig.end(present, commit=is_commit, version=0)
        assert (OK if reply == present else code(reply)) == expected, (state, is_commit)
        old = Producer(present.producer_id, ProducerEpoch(present.producer_epoch - 1))
        assert code(rig.end(old, commit=is_commit, version=0)) == 90


@pytest.mark.parametrize(
    ("state", "commit", "commit_retry", "abort", "abort_retry"),
    [
        ("Empty", 48, 90, "bump", 90),
        ("Ongoing", "bump", "-", "bump", "-"),
        # The end of the next, empty transaction waits while this one completes.
        ("PrepareCommit", 51, 51, 51, 48),
        ("PrepareAbort", 51, 90, 51, 51),
        ("CompleteCommit", 48, OK, "bump", 48),
        ("CompleteAbort", 48, 90, "bump", OK),
    ],
)
def test_with_bumps_the_epoch_tells_a_retry_from_the_next_end(
    state: str, commit: object, commit_retry: object, abort: object, abort_retry: object
) -> None:
    for is_commit, present_answer, retry_answer in (
        (True, commit, commit_retry),
        (False, abort, abort_retry),
    ):
        rig, retry, present = state_of(state, version=2)
        before = len(rig.log)
        if retry_answer != "-":
            reply = rig.end(retry, commit=is_commit)
            assert (OK if reply == present else code(reply)) == retry_answer
            assert len(rig.log) == before, "a retry changes nothing (I-167)"
        reply = rig.end(present, commit=is_commit)
        if present_answer == "bump":
            assert reply == (present.producer_id, present.producer_epoch + 1)
        else:
            assert code(reply) == present_answer


def test_an_unknown_id_or_another_producer_id_is_49() -> None:
    rig = TransactionsRig()
    producer = rig.begun()
    assert code(rig.end(producer, name="other")) == 49
    stranger = Producer(ProducerId(producer.producer_id + 1), producer.producer_epoch)
    assert code(rig.end(stranger)) == 49


def test_the_error_of_a_wrong_state_names_the_state_and_what_is_allowed() -> None:
    rig = TransactionsRig()
    producer = rig.init()
    refused = str(rig.end(producer))
    assert "cannot commit" in refused
    assert "state Empty" in refused
    assert "add partitions to a transaction first" in refused


def test_late_end_txn_does_not_touch_the_next_transaction() -> None:
    """Golden history 27, P-105: mutant 42 (no bump)."""
    rig = TransactionsRig()
    first = rig.begun()
    second = rig.end(first)
    rig.marked()
    assert second == (first.producer_id, first.producer_epoch + 1)
    rig.add(second)
    assert code(rig.end(first)) == 90
    assert rig.state() == "Ongoing"


def test_markers_carry_the_raised_epoch_and_the_end_is_complete_after_the_last_of_them() -> None:
    """Mutant 55 (Complete after the first marker)."""
    rig = TransactionsRig()
    producer = rig.init()
    rig.add(producer, T0)
    rig.add(producer, T1)
    rig.end(producer)
    assert SendMarkers("x") in rig.effects
    assert rig.markers == [("x", producer.producer_id, producer.producer_epoch + 1, True)]
    rig.marked(T0)
    assert rig.state() == "PrepareCommit"
    rig.marked(T0)
    rig.marked(T1)
    assert rig.state() == "CompleteCommit"
    assert rig.of().partitions == ()


def test_the_markers_of_an_earlier_decision_complete_nothing() -> None:
    """P-131: before version 2 both decisions have one epoch."""
    rig = TransactionsRig()
    producer = rig.begun(version=0)
    rig.end(producer, version=0)
    first = rig.transactions.outstanding["x"].prepared_at
    rig.marked()
    rig.add(producer, version=0)
    rig.end(producer, version=0)
    rig.run(MarkersDone("x", first, (T0,)))
    assert rig.state() == "PrepareCommit"
    rig.marked()
    assert rig.state() == "CompleteCommit"


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_at_the_last_epoch_gives_the_producer_another_id(commit: bool) -> None:
    """Golden history 31, I-169, P-119; over a failover at Prepare: mutants 62 and 63."""
    rig = TransactionsRig()
    last = rig.at(DATA_EPOCH_MAX)
    rig.add(last)
    renewed = rig.end(last, commit=commit)
    assert renewed.producer_epoch == 0
    assert renewed.producer_id != last.producer_id
    assert rig.markers[-1][1:] == (last.producer_id, DATA_EPOCH_MAX + 1, commit)
    rig.fail_over()
    assert code(rig.end(last, commit=commit)) == 51
    assert code(rig.add(renewed)) == 51, "busy before the producer id"
    rig.marked()
    rig.fail_over()
    assert rig.end(last, commit=commit) == renewed, "the old id is remembered"
    assert rig.add(renewed).errors == (None,)
    assert code(rig.end(last, commit=commit)) == 49, "late: the next has begun"
    assert rig.state() == "Ongoing"


def test_a_timeout_at_the_last_epoch_gives_another_id_too() -> None:
    rig = TransactionsRig()
    last = rig.at(DATA_EPOCH_MAX)
    rig.add(last, version=0)
    rig.wall_ms += 60_001
    rig.time_out()
    assert rig.markers[-1][1:] == (last.producer_id, DATA_EPOCH_MAX + 1, False)
    rig.fail_over()
    rig.marked()
    assert rig.of().producer_epoch == 0
    assert rig.of().previous_producer_id == last.producer_id
    assert code(rig.end(last)) == 90, "its commit has come too late"
    renewed = rig.end(last, commit=False)
    assert renewed == (rig.of().producer_id, 0)


def test_timeout_vs_commit() -> None:
    """Golden history 32, I-171, P-121: mutants 60 (two bumps) and 61 (timeout aborts Prepare)."""
    rig = TransactionsRig()
    producer = rig.begun()
    rig.wall_ms += 60_000
    rig.time_out()
    assert rig.state() == "Ongoing", "not past its timeout yet"
    rig.wall_ms += 1
    rig.time_out()
    rig.time_out()
    assert rig.markers == [("x", producer.producer_id, producer.producer_epoch + 1, False)]
    assert isinstance(rig.effects[-1], Aborted)
    assert code(rig.end(producer)) == 90
    rig.marked()
    assert rig.of().producer_epoch == producer.producer_epoch + 1
    assert code(rig.end(producer)) == 90
    # Its own abort is answered: the producer goes on with the raised epoch.
    assert rig.end(producer, commit=False) == (producer.producer_id, producer.producer_epoch + 1)


def test_a_timeout_does_not_abort_a_decided_transaction() -> None:
    rig = TransactionsRig()
    producer = rig.begun()
    rig.end(producer)
    rig.wall_ms += 10 * 60_000
    assert rig.transactions.timed_out(rig.wall_ms) == []
    rig.time_out()
    assert rig.state() == "PrepareCommit"


def test_without_producer_ids_at_hand_nothing_is_decided() -> None:
    rig = TransactionsRig()
    last = rig.at(DATA_EPOCH_MAX)
    rig.add(last)
    rig.has_producer_ids = False
    assert rig.end(last) is NO_PRODUCER_ID_LEFT
    assert rig.state() == "Ongoing"

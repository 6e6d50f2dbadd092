"""Committed offsets, as clients were told of them."""

from __future__ import annotations

import pytest

from strandline_proof.sim.oracles.groups.registers import Written, check_registers
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.workload.group_history import (
    AdminAcknowledged,
    AdminAsked,
    CommitAcknowledged,
    CommitAsked,
    CommitRefused,
    Committed,
    CommitUnknown,
    GroupEvent,
    Joined,
    OffsetsAsked,
    OffsetsTold,
    Told,
)

T0 = ("t", 0)
ONE, TWO = Committed(1, -1, "1"), Committed(2, -1, "2")


def history(*events: GroupEvent) -> list[Told]:
    first = Told(0.0, "a", Joined("g", "m1", 1))
    return [first, *(Told(float(at), "a", event) for at, event in enumerate(events))]


def asked(operation: int, value: Committed) -> CommitAsked:
    return CommitAsked(operation, {T0: value}, "m1", 1)


def reads(operation: int, value: Committed | None) -> tuple[GroupEvent, GroupEvent]:
    question = OffsetsAsked(operation, "g", frozenset({T0}))
    return question, OffsetsTold(operation, {T0: value})


def check(
    *events: GroupEvent,
    written: tuple[Committed | None, ...] = (ONE, TWO),
    by_deposed: tuple[Written, ...] = (),
) -> int:
    at_once = [Written(value, 0.5) for value in written]
    return check_registers(history(*events), {("g", T0): at_once}, {("g", T0): by_deposed})


def test_a_sound_register_passes() -> None:
    assert (
        check(
            *reads(10, None),
            asked(1, ONE),
            CommitAcknowledged(1),
            *reads(11, ONE),
            asked(2, TWO),
            *reads(12, TWO),
            CommitUnknown(2, "late"),
            *reads(13, TWO),
        )
        == 4
    )


def test_who_asked_before_may_be_told_what_was_before() -> None:
    question, answer = reads(10, None)
    check(asked(1, ONE), question, CommitAcknowledged(1), answer)


@pytest.mark.parametrize(
    ("value", "rule"), [(None, "I-106"), (ONE, "I-106"), (Committed(9), "I-143")]
)
def test_what_is_told_is_not_older_than_what_was_acknowledged(
    value: Committed | None, rule: str
) -> None:
    with pytest.raises(Violation, match=rule):
        check(asked(1, ONE), asked(2, TWO), CommitAcknowledged(2), *reads(10, value))


def test_an_acknowledged_commit_that_is_not_in_the_log_is_lost() -> None:
    with pytest.raises(Violation, match="I-142"):
        check(asked(1, Committed(7, -1, "7")), CommitAcknowledged(1))


def test_what_an_administrator_has_forgotten_is_gone() -> None:
    order = AdminAsked(3, "delete_group_offsets", "g", {T0: None})
    written = (ONE, None)
    check(order, AdminAcknowledged(3), *reads(10, None), written=written)
    with pytest.raises(Violation, match="I-106"):
        check(order, AdminAcknowledged(3), *reads(10, ONE), written=written)


def test_who_had_nothing_to_forget_forgets_nothing_that_comes_later() -> None:
    order = AdminAsked(3, "delete_groups", "g", {T0: None})
    events = history(order, AdminAcknowledged(3), *reads(10, ONE))
    later = [Written(ONE, 1.5), Written(None, 9.0)]
    assert check_registers(events, {("g", T0): later}, {}) == 1


def test_what_was_refused_for_good_is_never_committed() -> None:
    with pytest.raises(Violation, match="refused, and committed"):
        check(asked(1, ONE), CommitRefused(1, "fenced"))
    check(asked(1, Committed(7, -1, "7")), CommitRefused(1, "fenced"))


COMMITTED = (asked(1, ONE), asked(2, TWO), CommitAcknowledged(2))
"""Who asks now asks at 3, and is told at 4."""


@pytest.mark.parametrize("value", [None, ONE])
def test_who_is_deposed_and_has_not_heard_of_it_says_what_was(value: Committed | None) -> None:
    assert check(*COMMITTED, *reads(10, value), by_deposed=(Written(value, 3.5),)) == 1


@pytest.mark.parametrize(
    "said", [Written(ONE, 2.5), Written(ONE, 4.5), Written(None, 3.5), Written(TWO, 3.5)]
)
def test_what_another_was_told_by_a_deposed_one_excuses_nothing(said: Written) -> None:
    with pytest.raises(Violation, match="I-106"):
        check(*COMMITTED, *reads(10, ONE), by_deposed=(said,))


def test_a_deposed_one_too_says_only_what_somebody_has_committed() -> None:
    strange = Committed(9, -1, "9")
    with pytest.raises(Violation, match="I-143"):
        check(*COMMITTED, *reads(10, strange), by_deposed=(Written(strange, 3.5),))

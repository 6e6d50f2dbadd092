"""How long a member works on what a poll gives it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from strandline_proof.sim.groups.member import WORK_S, Member


def worked(*, catches_up: bool) -> set[float]:
    member: Any = object.__new__(Member)
    member._groups = SimpleNamespace(catches_up=catches_up)
    member._rng = random.Random(1)
    return {member._work_s() for _ in range(100)}


def test_a_member_works_on_what_it_was_given() -> None:
    assert worked(catches_up=False) == set(WORK_S)


def test_a_member_that_is_waited_for_loses_no_time_by_its_work() -> None:
    assert worked(catches_up=True) == {0.0}

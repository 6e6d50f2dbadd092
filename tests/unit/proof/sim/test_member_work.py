"""How long a member works on what a poll gives it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from strandline_proof.sim.groups.member import FETCH_BYTES, WORK_S, Member
from strandline_proof.sim.work import Work


def worked(*, fetch_bytes: int, lasting: bool, ends: bool = False) -> set[float]:
    topology = SimpleNamespace(fetch_bytes=fetch_bytes, work=Work(lasting=lasting))
    member: Any = object.__new__(Member)
    member._world = SimpleNamespace(topology=topology)
    member._groups = SimpleNamespace(ends=ends)
    member._rng = random.Random(1)
    return {member._work_s() for _ in range(100)}


def test_a_member_works_on_what_it_was_given_until_the_run_ends() -> None:
    assert worked(fetch_bytes=1, lasting=False) == set(WORK_S)
    assert worked(fetch_bytes=FETCH_BYTES, lasting=True) == set(WORK_S)
    assert worked(fetch_bytes=1, lasting=False, ends=True) == {0.0}


def test_a_member_of_one_batch_a_poll_that_must_reach_the_end_loses_no_time() -> None:
    assert worked(fetch_bytes=1, lasting=True) == {0.0}

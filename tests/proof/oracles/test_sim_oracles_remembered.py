"""Who is waited for after a loss of power of all, in simulated clusters (I-53)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.push_answer import LogEnd
from strandline_proof.mutants.catalogue import mutant_named
from strandline_proof.mutants.plans import plans
from strandline_proof.sim.run.run import RunResult, run_plan

if TYPE_CHECKING:
    from collections.abc import Callable

Patch = pytest.MonkeyPatch


def forgotten_at_once(patch: Patch) -> None:
    patch.setattr(Applied, "by_leader_of", lambda self, partition: True)


def the_shortest_leads(patch: Patch) -> None:
    real = LogEnds.of

    def of(self: LogEnds, *of_whom: Any) -> LogEnd | None:
        end = real(self, *of_whom)
        return None if end is None else LogEnd(-end.last_epoch, -end.offset)

    patch.setattr(LogEnds, "of", of)


def run(name: str) -> RunResult:
    (plan,) = plans(mutant_named(name).needs, first=1, number=1)
    return run_plan(plan)


@pytest.mark.parametrize(
    "name", ["forgotten-before-it-is-applied", "who-was-waited-for-is-forgotten"]
)
def test_all_lose_power_and_the_longest_log_leads(name: str) -> None:
    result = run(name)
    assert result.failure is None, result.timeline.text()
    assert result.sometimes["balanced recovery"] > 0


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (forgotten_at_once, "has not waited for [1]"),
        (the_shortest_leads, "holds committed offset"),
    ],
)
def test_what_a_recovery_forgets(
    monkeypatch: Patch, plant: Callable[[Patch], None], says: str
) -> None:
    plant(monkeypatch)
    result = run("forgotten-before-it-is-applied")
    assert result.invariant == "I-53"
    assert says in result.what

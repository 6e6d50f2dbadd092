"""Unclean elections in simulated clusters: what they may cost, and that all of it is reported."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.hosts.replica.leading import Leading
from strandline_broker.hosts.replica.losses import Losses
from strandline_proof.sim.plan.plan import Fault, Plan, moment
from strandline_proof.sim.run.run import RunResult, run_plan
from strandline_proof.sim.topology.topology import Topology

if TYPE_CHECKING:
    import pytest

CLUSTER = Topology(partitions=1)
FAULTS = tuple(moment("unclean-election", random.Random(2), CLUSTER, 1.0))


def run(*faults: Fault) -> RunResult:
    return run_plan(Plan(1, CLUSTER, faults, chaos_s=7.0))


def test_an_election_that_the_topic_allows_costs_records_and_says_so() -> None:
    result = run(*FAULTS)
    assert result.failure is None, result.timeline.text()
    assert result.sometimes["elected uncleanly, as the topic allows"] > 0
    assert result.sometimes["committed records lost by an unclean election"] > 0
    assert result.sometimes["loss reported with a count"] > 0


def test_the_same_faults_cost_nothing_where_it_does_not() -> None:
    result = run(*(fault for fault in FAULTS if fault.kind != "unclean"))
    assert result.failure is None, result.timeline.text()
    assert result.sometimes["elected uncleanly, as the topic allows"] == 0
    assert result.sometimes["loss permitted"] == 0


def test_an_election_that_the_topic_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControllerState, "elects_uncleanly", lambda self, topic: True)
    result = run(*(fault for fault in FAULTS if fault.kind != "unclean"))
    assert result.invariant == "I-48"
    assert "its topic does not allow that" in result.what


def test_a_loss_that_nobody_tells_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Losses, "on_cut", lambda self, partition, offset, **_: None)
    result = run(*FAULTS)
    assert result.invariant == "I-53"
    assert "in no range that is reported" in result.what


def test_an_end_that_lags_behind_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The history would see an end that falls, not one that is always late."""
    real = Leading.committed_end
    monkeypatch.setattr(Leading, "committed_end", lambda self, *a: max(0, real(self, *a) - 3))
    result = run()
    assert result.invariant == "I-11"
    assert "no deposed leader was left" in result.what

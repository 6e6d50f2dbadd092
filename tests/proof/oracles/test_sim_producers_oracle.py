"""I-58: what a replica knows of producers is read anew from its log at each role, cut and start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_broker.hosts.replica.partition import Partition
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.topology.topology import Topology

if TYPE_CHECKING:
    import pytest

KILL = Fault(1.5, "kill", {"node": "leader-0", "restart_s": 0.3})


def found(*faults: Fault) -> tuple[str, str]:
    """(the invariant that a run contradicts, what does)"""
    outcome = run_plan(Plan(1, Topology(partitions=1), faults, chaos_s=3.0))
    return outcome.invariant, str(outcome.failure)


def test_a_start_that_forgets_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "rebuild", lambda self, *arguments, **named: None)
    invariant, what = found(KILL)
    assert invariant == "I-58"
    assert "nothing is known of producer" in what


def test_a_follower_that_takes_no_notice_of_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ProducerStates.on_append

    def forget(self: ProducerStates, header: Any, now_ms: int, epoch: int | None = None) -> None:
        # Every second batch: a producer that is unknown would be refused sooner or later.
        if header.base_offset % 2 == 0 or header.base_sequence == 0:
            real(self, header, now_ms, epoch)

    monkeypatch.setattr(ProducerStates, "on_append", forget)
    assert found(Fault(1.0, "move-leader", {"partition": 0, "to": 2}))[0] == "I-58"


def test_a_cut_that_leaves_producers_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Partition.rebuild_producers

    async def keep(self: Partition) -> None:
        if self.follower is None:
            await real(self)
        else:
            self.take_producers(self.producers)

    monkeypatch.setattr(Partition, "rebuild_producers", keep)
    cut_off = Fault(1.0, "isolate", {"node": "leader-0", "for_s": 1.5, "hold": False})
    invariant, what = found(cut_off)
    assert invariant == "I-58", what

"""The leader and the controller die, and the controller alone comes back (P-81)."""

import pytest

from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import Topology

BACK_S = 2.5


def test_who_died_while_the_controller_was_away_is_noticed_before_its_session_ends() -> None:
    """The leader's machine stays up, so that its port refuses."""
    faults = (
        Fault(2.0, "kill", {"node": "controller", "restart_s": 0.5}),
        Fault(2.0, "kill", {"node": "leader-0", "restart_s": 3.0}),
    )
    done = Run(Plan(seed=5, topology=Topology(partitions=1), faults=faults, chaos_s=6.0))
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    fenced = [line for line in outcome.timeline.lines if line.event == "broker fenced"]
    assert fenced[0].fields["why"] == "its process is gone", outcome.timeline.text()
    assert BACK_S + 0.5 <= fenced[0].time_s < BACK_S + 1.0
    elected = [
        line
        for line in outcome.timeline.lines
        if line.event == "role" and line.time_s > BACK_S and line.fields["leader_epoch"] > 0
    ]
    assert elected[0].time_s < BACK_S + 1.0


@pytest.mark.parametrize(("seed", "room"), [(1, 100), (3, 0)])
def test_a_controller_on_a_full_disk_refuses_and_decides_when_there_is_room(
    seed: int, room: int
) -> None:
    """P-24, P-61: a leader dies meanwhile, and its end cannot be written yet."""
    faults = (
        Fault(1.6, "disk-full", {"node": "controller", "for_s": 3.0, "room": room}),
        Fault(2.0, "kill", {"node": "leader-0", "restart_s": 1.0}),
    )
    done = Run(Plan(seed=seed, topology=Topology(partitions=3), faults=faults, chaos_s=7.0))
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert "decisions are refused" in {line.event for line in outcome.timeline.lines}
    assert done.world.nodes["controller"].exits == []

"""Three hundred partitions: a broker dies, the others lead what it led, it comes back (I-94)."""

import pytest

from strandline_proof.mutants.catalogue import mutant_named
from strandline_proof.sim.loop.timeline import Line
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run, run_plan
from strandline_proof.sim.topology.topology import Topology

pytestmark = pytest.mark.proof

PARTITIONS = 300
DIES_S, BACK_S = 3.0, 5.5
SESSION_S = 1.0
MANY = Topology(partitions=PARTITIONS, sends_per_s=2, segment_bytes=1 << 20)


def lines_of(mutant: str) -> tuple[Run, list[Line]]:
    """A run of the plan that the planted bug is looked for with, without the bug."""
    needs = mutant_named(mutant).needs
    faults: tuple[Fault, ...] = needs.aimed
    assert needs.topology["partitions"] == PARTITIONS
    run = Run(Plan(seed=5, topology=MANY, faults=faults, chaos_s=7.0))
    outcome = run.execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert all(outcome.struck[fault.kind] for fault in faults)
    return run, outcome.timeline.lines


def fenced(lines: list[Line]) -> list[object]:
    return [line.fields["broker"] for line in lines if line.event == "broker fenced"]


def roles(lines: list[Line], node: str, *, leader: int) -> dict[str, float]:
    """When a broker took its last role under that leader before the dead one was back."""
    return {
        str(line.fields["partition"]): line.time_s
        for line in lines
        if (line.node, line.event) == (node, "role")
        and line.fields["leader"] == leader
        and DIES_S < line.time_s < BACK_S
    }


def test_brokers_that_take_longer_than_a_session_for_an_envelope_stay() -> None:
    _, lines = lines_of("only-answers-are-progress")
    assert fenced(lines) == [1]
    took = max(roles(lines, "broker-2", leader=2).values()) - DIES_S
    assert took > 1.2 * SESSION_S, "or the test says nothing"


def test_one_replica_that_is_held_up_is_elected_around_alone() -> None:
    run, lines = lines_of("one-replica-holds-up-a-push")
    assert fenced(lines) == [1]
    elected = roles(lines, "broker-2", leader=2)
    assert len(elected) > PARTITIONS / 8
    assert max(elected.values()) - DIES_S < SESSION_S, "the others wait for nobody"
    late = [line for line in lines if line.event == "cannot apply"]
    assert {line.fields["partition"] for line in late} == {"t:0"}
    assert DIES_S < roles(lines, "broker-3", leader=3)["t:0"] < DIES_S + 1.2 * SESSION_S
    moved = [p for p in elected if p in roles(lines, "broker-3", leader=3)]
    assert moved == []
    assert run.world.nodes["broker-2"].exits == []


def test_a_topic_of_many_partitions_lies_beside_the_main_one() -> None:
    faults = (
        Fault(3.0, "kill", {"node": "broker-1", "restart_s": 1.5}),
        Fault(4.0, "power", {"nodes": ["leader-0"], "restart_s": 0.5, "survival": 0.5}),
    )
    topology = Topology(partitions=1, crowd=30, flush_policy="always")
    outcome = run_plan(Plan(seed=3, topology=topology, faults=faults, chaos_s=6.0))
    assert outcome.failure is None, outcome.timeline.text()
    assert outcome.sometimes["acknowledged in a topic of many partitions"] > 30

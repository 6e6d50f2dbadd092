"""Two processes that say they are one server (P-71): one of them ends, and nothing is lost."""

from typing import Any

import pytest

from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import Topology

TAKEN = "broker's id taken by another machine"
REPLACED = "has been replaced by another process with the same id"


def ran(seed: int, *faults: Fault, **topology: Any) -> Run:
    run = Run(Plan(seed, Topology(partitions=1, **topology), faults))
    outcome = run.execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert outcome.acknowledged > 100
    return run


def twin(at_s: float, disk: str, for_s: float, *, again: bool = False) -> Fault:
    arguments = {"node": "leader-0", "disk": disk, "for_s": for_s, "again": again}
    return Fault(at_s, "twin", arguments)


def exits(run: Run, prefix: str) -> list[str]:
    return [why for n in run.world.nodes.values() if n.name.startswith(prefix) for why in n.exits]


POLICIES = pytest.mark.parametrize(
    "policy", ["replicated", pytest.param("always", marks=pytest.mark.proof)]
)


@POLICIES
def test_a_copied_machine_takes_over_and_the_older_process_ends(policy: str) -> None:
    run = ran(1, twin(3.0, "copy", 2.5), flush_policy=policy)
    assert run.oracles.sometimes[TAKEN] >= 2, "the twin, and its original when it is started again"
    assert any(REPLACED in why for why in exits(run, "broker"))
    assert not any(REPLACED in why for why in exits(run, "twin")), "its original is older by then"
    assert all(member.name.startswith("broker") for member in run.world.members.values())


@POLICIES
def test_two_copies_that_are_started_again_and_again_lose_nothing(policy: str) -> None:
    run = ran(2, twin(2.0, "copy", 5.0, again=True), flush_policy=policy)
    assert run.oracles.sometimes[TAKEN] >= 2, "the older copy waits for the end of the other"


def test_an_empty_machine_waits_while_the_broker_lives_and_takes_its_id_when_it_is_dead() -> None:
    assert ran(3, twin(3.0, "empty", 2.5)).oracles.sometimes[TAKEN] == 0
    dies = Fault(3.5, "kill", {"node": "leader-0", "restart_s": 3.0})
    run = ran(3, twin(3.0, "empty", 4.5), dies)
    assert run.oracles.sometimes[TAKEN] == 2
    assert not exits(run, "twin")


@pytest.mark.parametrize("node", ["controller", "broker-1"])
def test_a_second_process_on_the_same_directory_ends_at_once(node: str) -> None:
    run = ran(4, Fault(2.0, "second", {"node": node}))
    (why,) = exits(run, "second")
    assert "is locked by another running process" in why
    assert not exits(run, node)


def test_a_second_process_does_not_mend_the_disk_of_the_first() -> None:
    rate = {"node": "broker-1", "for_s": 5.0, "rate": 0.5}
    second = Fault(3.01, "second", {"node": "broker-1"})
    run = ran(3, Fault(3.0, "misread", rate), second, scrub_ms=1500, segment_bytes=400)
    assert run.world.nodes["broker-1"].disk.counts["misread"] > 0


def test_whoever_has_the_id_is_struck_although_it_is_another_machine() -> None:
    kills = [
        Fault(3.4, "kill", {"node": f"{role}-0", "restart_s": 0.3}) for role in ("heir", "other")
    ]
    run = ran(2, twin(3.0, "copy", 2.5), *kills)
    (double,) = run.world.doubles
    assert double.name in [n.node for n in run.world.timeline.lines if n.event == "killed"]
    assert not double.running

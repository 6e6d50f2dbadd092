"""Plans are plain data, follow from their seed alone, and say what is wrong with them."""

import json
import random
from typing import Any

import pytest

from strandline_chaos.sim.kinds import KINDS
from strandline_chaos.sim.moments import MOMENTS
from strandline_chaos.sim.plan import BadPlan, check_fault, draw_plan, moment, read_plan
from strandline_chaos.sim.topology import ImpossibleTopology, Topology


def document(seed: int = 1, **changes: Any) -> str:
    return json.dumps({**draw_plan(seed, commit="here").document(), **changes})


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_comes_back_from_its_file(seed: int) -> None:
    assert read_plan(document(seed), commit="here") == draw_plan(seed)


def test_every_kind_of_fault_is_drawn_by_some_seed() -> None:
    drawn = {fault.kind for seed in range(200) for fault in draw_plan(seed).faults}
    assert drawn == set(KINDS)


@pytest.mark.parametrize("name", MOMENTS)
def test_a_moment_consists_of_faults_that_there_are(name: str) -> None:
    topology = Topology(partitions=2)
    faults = moment(name, random.Random(1), topology, 2.0)
    for each in faults:
        check_fault(each, topology)
    assert min(each.at_s for each in faults) == 2.0


def test_half_of_the_faults_at_most_wait_for_an_event() -> None:
    faults = [fault for seed in range(100) for fault in draw_plan(seed).faults]
    waiting = sum(fault.after is not None for fault in faults)
    assert 0.2 < waiting / len(faults) < 0.5


def fault(**changes: Any) -> list[dict[str, Any]]:
    kill = {"node": "broker-1", "restart_s": 1.0}
    return [{"at_s": 1.0, "kind": "kill", "arguments": kill, **changes}]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"commit": "there"}, "of commit there, this is here"),
        ({"format": 0}, "no format 1"),
        ({"faults": fault(kind="meteor")}, "'meteor' is not known; use one of kill"),
        ({"faults": fault(after="lunch")}, "'lunch' is not one of leader, isr"),
        ({"faults": fault(arguments={"node": "broker-1"})}, "kill takes"),
        (
            {"faults": fault(arguments={"node": "broker-9", "restart_s": 1.0})},
            "no node 'broker-9'",
        ),
        ({"faults": [{"kind": "kill"}]}, "missing or unknown"),
        ({"topology": {"brokers": 2}}, "needs as many brokers, there are 2"),
        ({"topology": {"racks": 2}}, "missing or unknown"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPlan, match=why):
        read_plan(document(**changes), commit="here")


def test_a_file_that_is_no_plan_is_refused() -> None:
    with pytest.raises(BadPlan, match="not JSON"):
        read_plan("{", commit="here")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"brokers": 0}, "brokers=0"),
        ({"min_insync_replicas": 4}, "nothing could be acknowledged"),
        ({"flush_policy": "never"}, "flush_policy"),
    ],
)
def test_an_impossible_cluster_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ImpossibleTopology, match=why):
        Topology(**settings)

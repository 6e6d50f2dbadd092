"""Plans are plain data, follow from their seed alone, and say what is wrong with them."""

import dataclasses
import json
import random
from typing import Any

import pytest

from strandline_proof.sim.kinds import ALL_KINDS, GROUP_KINDS, KINDS, TRANSACTION_KINDS
from strandline_proof.sim.kinds.meaning import MEANING
from strandline_proof.sim.plan.moments import MOMENTS
from strandline_proof.sim.plan.plan import (
    BadPlan,
    Fault,
    check_fault,
    check_plan,
    draw_plan,
    moment,
    read_plan,
)
from strandline_proof.sim.topology.groups import GroupSpec
from strandline_proof.sim.topology.topology import ImpossibleTopology, Topology
from strandline_proof.sim.topology.transactions import Transacting
from strandline_proof.sim.topology.work import Work


def document(seed: int = 1, **changes: Any) -> str:
    return json.dumps({**draw_plan(seed, commit="here").document(), **changes})


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_comes_back_from_its_file(seed: int) -> None:
    assert read_plan(document(seed), commit="here") == draw_plan(seed)


def test_a_plan_that_is_kept_says_what_it_found() -> None:
    kept = read_plan(document(note="Two leaders in one epoch."), commit="here")
    assert "Two leaders in one epoch." in kept.text()
    assert json.loads(json.dumps(kept.document()))["note"] == "Two leaders in one epoch."


def test_of_every_kind_of_fault_it_is_said_what_it_does() -> None:
    assert set(MEANING) == set(ALL_KINDS)


def test_every_kind_of_fault_is_drawn_by_some_seed() -> None:
    drawn = {fault.kind for seed in range(200) for fault in draw_plan(seed).faults}
    assert drawn == {*KINDS, *GROUP_KINDS, *TRANSACTION_KINDS}


@pytest.mark.parametrize("name", MOMENTS)
def test_a_moment_consists_of_faults_that_there_are(name: str) -> None:
    topology = Topology(partitions=2)
    faults = moment(name, random.Random(1), topology, 2.0)
    for each in faults:
        check_fault(each, topology)
    assert min(each.at_s for each in faults) == 2.0


def test_what_is_drawn_is_within_its_bounds() -> None:
    topology = Topology(
        brokers=4, offsets_partitions=1, groups=(GroupSpec(),), transactions=Transacting()
    )
    for kind, draw in ALL_KINDS.items():
        for seed in range(60):
            check_fault(Fault(1.0, kind, draw(random.Random(seed), topology)), topology)


def test_every_number_of_a_fault_has_a_bound() -> None:
    topology = Topology(brokers=4)
    for kind, draw in ALL_KINDS.items():
        drawn = draw(random.Random(1), topology)
        for name, value in drawn.items():
            if type(value) in (int, float):
                most = 1e300 if type(value) is float else 1 << 62
                with pytest.raises(BadPlan, match=name):
                    check_fault(Fault(1.0, kind, {**drawn, name: most}), topology)


def test_every_habit_of_clients_is_drawn_by_some_seed() -> None:
    drawn = [draw_plan(seed).topology.work for seed in range(200)]
    for each in dataclasses.fields(Work):
        assert len({getattr(work, each.name) for work in drawn}) > 1, each.name


def test_a_plan_that_says_nothing_of_clients_has_those_of_before() -> None:
    found = json.loads(document())
    del found["topology"]["work"]
    assert read_plan(json.dumps(found), commit="here").topology.work == Work()


def test_no_batch_comes_again_where_producers_are_forgotten() -> None:
    """It would be appended twice (P-41)."""
    for plan in map(draw_plan, range(2000)):
        kinds = {fault.kind for fault in plan.faults}
        assert plan.topology.work.expiry_ms == 0 or "resend" not in kinds


def test_what_is_drawn_can_be_replayed() -> None:
    for seed in range(2000):
        check_plan(draw_plan(seed))


def test_half_of_the_faults_at_most_wait_for_an_event() -> None:
    faults = [fault for seed in range(100) for fault in draw_plan(seed).faults]
    waiting = sum(fault.after is not None for fault in faults)
    assert 0.2 < waiting / len(faults) < 0.5


SPLIT: dict[str, Any] = {"shape": "ring", "for_s": 1, "hold": False, "one_way": False}
RESEND: dict[str, Any] = {"partition": 0, "back": 0, "times": 1}
RATE: dict[str, Any] = {"node": "broker-1", "rate": 1.2, "for_s": 1.0}
POWER: dict[str, Any] = {"nodes": ["broker-1"], "restart_s": 1, "survival": 0}


def fault(**changes: Any) -> list[dict[str, Any]]:
    kill = {"node": "broker-1", "restart_s": 1.0}
    return [{"at_s": 1.0, "kind": "kill", "arguments": kill, **changes}]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"commit": "there"}, "of commit there, this is commit here"),
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
        ({"topology": {"shelves": 2}}, "missing or unknown: topology has 'shelves', known are"),
        ({"topology": {"racks": -1}}, "racks=-1 is not a whole number from 0 to 20"),
        ({"topology": {"brokers": "3"}}, "brokers='3' is not a whole number from 1 to 20"),
        ({"topology": {"brokers": 1000}}, "brokers=1000 is not a whole number"),
        ({"topology": {"segment_bytes": 0}}, "segment_bytes=0"),
        ({"topology": {"work": 3}}, "work=3 is not an object of burst, linger_ms"),
        ({"topology": {"work": {"speed": 3}}}, "is not an object of burst"),
        ({"topology": {"work": {"burst": 0}}}, "burst=0 is not a whole number from 1 to 500"),
        ({"topology": {"work": {"lasting": 1}}}, "lasting=1 is not true or false"),
        ({"topology": {"work": {"compression": "gzip"}}}, "'gzip' is not one of none, snappy"),
        ({"away": "writer"}, "away='writer' is not one of broker-1, broker-2"),
        ({"away": []}, r"away=\[\] is not one of"),
        ({"unseen": True}, "unseen=True is not false, nor true of a broker that is away"),
        ({"away": "broker-1", "unseen": 1}, "unseen=1 is not false"),
        (
            {"patience_s": "long"},
            "patience_s='long' is not a number of seconds up to 3600, nor null",
        ),
        ({"patience_s": -1}, "patience_s=-1"),
        ({"note": 4}, "note=4 is not a text"),
        ({"seed": True}, "seed=True"),
        ({"seed": -4}, "seed=-4"),
        ({"chaos_s": "long"}, "chaos_s='long'"),
        ({"faults": fault(at_s="soon")}, "at_s='soon' is not a number"),
        ({"faults": fault(at_s=-1)}, "at_s=-1 is not a number of seconds from 0 on"),
        ({"faults": fault(at_s=50)}, "everything heals at 9.0 s"),
        ({"faults": fault(delay_s=float("nan"))}, "delay_s=nan"),
        ({"faults": fault(arguments=3)}, "kill takes"),
        ({"faults": fault(arguments={"node": "broker-1", "restart_s": "later"})}, "not a number"),
        ({"faults": fault(arguments={"node": "broker-1", "restart_s": -1})}, "below 0"),
        ({"faults": fault(arguments={"node": 1, "restart_s": 1})}, "node=1 is not a name"),
        (
            {"faults": fault(kind="split", arguments=SPLIT | {"shape": "star"})},
            "shape='star' is not one of halves, ring",
        ),
        (
            {"faults": fault(kind="split", arguments=SPLIT | {"hold": 1})},
            "hold=1 is not true or false",
        ),
        ({"faults": fault(kind="helix", arguments={"partition": 9})}, "there is no partition 9"),
        (
            {"faults": fault(kind="reassign", arguments={"partition": 0, "target": [1, 9]})},
            "is not a list of different brokers from 1 to",
        ),
        (
            {"faults": fault(kind="min-insync", arguments={"value": 4, "for_s": 1})},
            "not from 1 to replication_factor=3",
        ),
        ({"faults": fault(kind="power", arguments=POWER | {"nodes": ["writer"]})}, "no server"),
        ({"faults": fault(kind="power", arguments=POWER | {"survival": 2})}, "is above 1"),
        ({"faults": fault(kind=["kill"])}, "is not known; use one of kill"),
        ({"faults": fault(kind="power", arguments=POWER | {"nodes": [{}]})}, "no server {}"),
        ({"faults": {}}, "faults is an object, not a list"),
        ({"faults": None}, "faults is null, not a list"),
        ({"faults": ["kill"]}, "fault 1 is a text, not an object with fields"),
        ({"faults": [*fault(), *fault(when=3)]}, "fault 2 has 'when', known are at_s, kind"),
        ({"topology": [3]}, "topology is a list, not an object with fields"),
        ({"topology": None}, "topology is null"),
        ({"weather": "rain"}, "the plan has 'weather'"),
        ({"seed": 10**400, "chaos_s": 10**400}, "chaos_s="),
        ({"faults": fault(at_s=10**400)}, "at_s=10+ is not a number"),
        ({"faults": fault(delay_s=1e9)}, "delay_s=1000000000.0 is above 3600 s"),
        ({"faults": fault() * 10_001}, "it has 10001 faults; leave at most 10000"),
        ({"faults": fault(kind="resend", arguments=RESEND | {"times": 10**8})}, "above 1000"),
        ({"faults": fault(kind="resend", arguments=RESEND | {"back": -1})}, "back=-1 is below 0"),
        ({"faults": fault(kind="clock-rate", arguments=RATE | {"rate": 1e300})}, "is above 100"),
        ({"faults": fault(kind="clock-rate", arguments=RATE | {"rate": 1e-9})}, "is below 0.01"),
        ({"faults": fault(kind="clock-rate", arguments=RATE | {"for_s": 1e9})}, "is above 3600"),
        (
            {"faults": fault(kind="clock-jump", arguments={"node": "broker-1", "offset_s": 1e12})},
            "offset_s=1000000000000.0 is above 31536000",
        ),
        (
            {"faults": fault(kind="move-leader", arguments={"partition": 0, "to": 9})},
            "to=9 is not a broker from 1 to",
        ),
        (
            {"faults": fault(kind="topic-recreate", arguments={"pause_s": 0, "partitions": 0})},
            "partitions=0 is below 1",
        ),
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

"""Groups in whole clusters in virtual time: their members share what is written, come and go, and
all of it is read, whatever becomes of the coordinator.
"""

import asyncio
import json
import random
from typing import Any

import pytest

from strandline._groups.rebalancing import Rebalancing
from strandline_proof.sim.kinds import GROUP_KINDS
from strandline_proof.sim.plan.group_moments import GROUP_MOMENTS
from strandline_proof.sim.plan.plan import BadPlan, Fault, Plan, draw_plan, read_plan
from strandline_proof.sim.run.run import Run, RunResult
from strandline_proof.sim.topology.groups import BUSY, CLASSIC, MANUAL, PATTERN, STATIC, GroupSpec
from strandline_proof.sim.topology.topology import ImpossibleTopology, Topology
from strandline_proof.sim.workload import group_history as told

MIXED = (
    GroupSpec((MANUAL, f"{STATIC} {MANUAL}", PATTERN)),
    GroupSpec((f"{PATTERN} {MANUAL}", BUSY), assignor="range"),
)


def plan_of(*faults: Fault, groups: tuple[GroupSpec, ...] = MIXED, **topology: Any) -> Plan:
    cluster = Topology(offsets_partitions=2, groups=groups, **topology)
    return Plan(seed=1, topology=cluster, faults=faults, chaos_s=5.0)


def executed(plan: Plan) -> tuple[Run, RunResult]:
    done = Run(plan)
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    return done, outcome


def test_members_share_the_partitions_and_read_everything() -> None:
    done, outcome = executed(plan_of())
    events = [each.event for each in done.world.groups.history.told]
    assert outcome.sometimes["member committed"] > 10
    assert outcome.sometimes["committed without being a member"] > 2
    for kind in (told.Joined, told.Assigned, told.Revoked, told.Delivered, told.Left):
        assert any(isinstance(event, kind) for event in events), kind
    lives = [each.who for each in done.world.groups.history.told]
    assert {f"member-0-{n}/1" for n in range(3)} <= set(lives)
    assert not any(life.endswith("/2") for life in lives), "nobody was to begin anew"


@pytest.mark.parametrize(
    "faults",
    [
        (
            Fault(2.0, "kill", {"node": "coordinator-0", "restart_s": 1.0}),
            Fault(2.6, "kill", {"node": "coordinator-1", "restart_s": 1.0}),
        ),
        (
            Fault(1.0, "member-crash", {"node": "member-0-1", "restart_s": 1.9}),
            Fault(2.0, "coordinator-move", {"group": 0, "to": 2}),
            Fault(3.0, "coordinator-move", {"group": 1, "to": 3}),
        ),
        (
            Fault(1.0, "member-pause", {"node": "member-1-0", "for_s": 2.5}),
            Fault(1.5, "group-empty", {"group": 0, "for_s": 0.5, "crash": True}),
            Fault(1.6, "stall", {"node": "coordinator-0", "for_s": 2.0}, "rebalance", 0.01),
        ),
        (
            Fault(1.0, "member-leave", {"node": "member-0-0", "restart_s": 0.3}),
            Fault(1.2, "member-busy", {"node": "member-1-1", "for_s": 2.0}),
            Fault(2.5, "coordinator-reassign", {"group": 0, "target": [3, 1]}),
        ),
    ],
    ids=["coordinators die", "a crash and moves", "sleepers", "leaving and busy"],
)
def test_a_group_is_whole_again(faults: tuple[Fault, ...]) -> None:
    _, outcome = executed(plan_of(*faults))
    assert sum(outcome.struck.values()) == len(faults)


WITH_THE_PRODUCT = ("deposed-coordinator", "no-controller")
"""Moments that `make test` runs; `make proof` runs the others."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in WITH_THE_PRODUCT else [pytest.mark.proof])
        for name in GROUP_MOMENTS
    ],
)
def test_every_moment_of_groups_can_be_lived_through(name: str) -> None:
    topology = plan_of().topology
    faults = [
        Fault(round(1.0 + at_s, 3), kind, arguments, after, delay_s)
        for at_s, kind, arguments, after, delay_s in GROUP_MOMENTS[name](
            random.Random(3), topology, 0
        )
    ]
    plan = plan_of(*faults)
    assert read_plan(json.dumps(plan.document()), commit="") == plan
    _, outcome = executed(plan)
    if name == "no-controller":
        assert outcome.sometimes["coordinator proved by a write that it leads"] > 0


@pytest.mark.proof
def test_a_member_that_takes_nothing_up_strands_its_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_up = Rebalancing._take_up

    async def hang(self: Rebalancing, step: Any) -> None:
        if self._session.runtime.pid % 2:
            await take_up(self, step)
        else:
            await asyncio.sleep(3600)

    monkeypatch.setattr(Rebalancing, "_take_up", hang)
    outcome = Run(plan_of()).execute()
    assert outcome.invariant == "I-88"
    assert "a group is not settled" in outcome.what


@pytest.mark.proof
def test_a_group_that_passes_over_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    position = Rebalancing._position

    def too_far(self: Rebalancing, key: Any, at: Any) -> Any:
        return position(self, key, at._replace(offset=max(at.offset, 0) + 3))

    monkeypatch.setattr(Rebalancing, "_position", too_far)
    outcome = Run(plan_of()).execute()
    assert outcome.invariant == "I-106"
    assert "and 0 is next" in outcome.what


@pytest.mark.proof
def test_a_share_of_the_seeds_has_groups_and_their_faults() -> None:
    plans = [draw_plan(seed) for seed in range(400)]
    grouped = [plan for plan in plans if plan.topology.groups]
    classic = [p for p in grouped if p.topology.groups[0].protocol == CLASSIC]
    assert 0.1 < (len(grouped) - len(classic)) / len(plans) < 0.3  # of the library's members alone
    assert 0.25 < len(classic) / len(plans) < 0.4  # where clients speak Kafka's protocol
    kinds = {fault.kind for plan in grouped for fault in plan.faults}
    assert kinds >= set(GROUP_KINDS)
    aimed = [f for p in grouped for f in p.faults if "coordinator-" in str(f.arguments.get("node"))]
    assert len({fault.kind for fault in aimed}) > 5
    for plan in plans:
        assert read_plan(json.dumps(plan.document()), commit="") == plan
        if not plan.topology.groups:
            assert not {f.kind for f in plan.faults} & set(GROUP_KINDS)


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (({"members": [], "assignor": "range"},), "1 to 20 members"),
        (({"members": ["lazy"], "assignor": "range"},), "'lazy'"),
        (({"members": [""], "assignor": "sticky"},), "'sticky'"),
        (({"members": [""]},), "is not a group"),
        (([1],), "is not a group"),
        ("group", "is not a list"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: Any, said: str) -> None:
    with pytest.raises(ImpossibleTopology, match=said):
        Topology(offsets_partitions=1, groups=groups)


def test_groups_need_a_topic_to_be_kept_in() -> None:
    with pytest.raises(ImpossibleTopology, match="offsets_partitions"):
        Topology(groups=MIXED)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(1.0, "member-crash", {"node": "writer", "restart_s": 1.0}), "'writer' is no member"),
        (Fault(1.0, "coordinator-move", {"group": 7, "to": 1}), "no group 7"),
        (Fault(1.0, "kill", {"node": "coordinator-2", "restart_s": 1.0}), "no node"),
    ],
)
def test_faults_name_groups_and_members_that_are_there(fault: Fault, said: str) -> None:
    with pytest.raises(BadPlan, match=said):
        read_plan(json.dumps(plan_of(fault).document()), commit="")


def test_faults_of_groups_need_groups() -> None:
    plan = Plan(1, Topology(), (Fault(1.0, "coordinator-move", {"group": 0, "to": 1}),))
    with pytest.raises(BadPlan, match="there are no groups"):
        read_plan(json.dumps(plan.document()), commit="")

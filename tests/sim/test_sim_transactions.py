"""Transactions in whole clusters in virtual time: producers of both variants, loops that consume,
transform and produce, and readers of committed records, whatever becomes of who decides.
"""

import json
import random
from typing import Any

import pytest

from strandline_proof.sim.kinds import TRANSACTION_KINDS
from strandline_proof.sim.plan.plan import BadPlan, Fault, Plan, draw_plan, read_plan
from strandline_proof.sim.plan.transaction_moments import TRANSACTION_MOMENTS
from strandline_proof.sim.run.run import Run, RunResult
from strandline_proof.sim.topology.topology import ImpossibleTopology, Topology
from strandline_proof.sim.topology.transactions import KAFKA, OURS, Transacting
from strandline_proof.sim.topology.work import Work
from strandline_proof.sim.transactions.ledger import ABORTED, COMMITTED

pytestmark = pytest.mark.proof

BOTH = Transacting(tellers=(OURS, KAFKA), copiers=1, timeout_ms=900)


def plan_of(*faults: Fault, transactions: Transacting = BOTH, **others: Any) -> Plan:
    others = {"partitions": 1, "sends_per_s": 2, "flush_policy": "always", **others}
    cluster = Topology(
        offsets_partitions=1, work=Work(kafka=True), transactions=transactions, **others
    )
    return Plan(seed=1, topology=cluster, faults=faults, chaos_s=4.0)


def executed(plan: Plan) -> tuple[Run, RunResult]:
    done = Run(plan)
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert done.oracles.transactions.is_judged(), "nothing was judged"
    return done, outcome


def test_both_variants_commit_abort_and_are_copied() -> None:
    done, outcome = executed(plan_of())
    for what in (
        "transaction committed",
        "transaction aborted",
        "transaction of Kafka's first variant committed",
        "records copied in a transaction",
        "last stable offset below the high watermark",
        "marker written",
        "transaction complete",
    ):
        assert outcome.sometimes[what] > 2, what
    assert outcome.sometimes["zombie was fenced"] > 0
    outcomes = {attempt.outcome for attempt in done.world.ledger.attempts}
    assert outcomes >= {COMMITTED, ABORTED}
    assert {life.is_committed for life in done.world.ledger.lives if life.is_whole} == {True, False}


@pytest.mark.parametrize(
    "faults",
    [
        (
            Fault(1.0, "kill", {"node": "decider-0", "restart_s": 0.8}, "decision", 0.002),
            Fault(2.0, "isolate", {"node": "decider-1", "for_s": 1.5, "hold": True}, "decision"),
        ),
        (
            Fault(1.0, "kill", {"node": "ledger-0", "restart_s": 0.8}, "decision", 0.001),
            Fault(1.2, "decider-move", {"state_partition": 0, "to": 2}),
            Fault(2.2, "pause", {"node": "keeper-0", "for_s": 1.5}, "decision"),
            Fault(2.4, "teller-crash", {"node": "copier-0", "restart_s": 0.2}),
        ),
    ],
    ids=["deciders", "leaders of markers and offsets"],
)
def test_transactions_end_whatever_becomes_of_who_decides(faults: tuple[Fault, ...]) -> None:
    _, outcome = executed(plan_of(*faults))
    assert sum(outcome.struck.values()) == len(faults)


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8, 15])
@pytest.mark.parametrize("kind", ["kill", "pause"])
def test_30_coordinator_dies_each_step(kind: str, delay_ms: int) -> None:
    """Each record of a coordinator is followed by its end, at several moments after the append, so
    that each of its awaits is cut off; each transaction has one outcome.
    """
    how: dict[str, Any] = {"restart_s": 0.6} if kind == "kill" else {"for_s": 1.2}
    faults = [
        Fault(0.9 + n / 3, kind, {"node": f"decider-{n % 2}", **how}, "decision", delay_ms / 1000)
        for n in range(9)
    ]
    executed(plan_of(*faults, transactions=Transacting(tellers=(OURS, OURS, KAFKA))))


def test_35_leaderless_marker() -> None:
    """A partition is without a leader for long: the transaction is complete once it has one."""
    away: dict[str, Any] = {"restart_s": 3.0}
    faults = [
        Fault(1.5, "kill", {"node": f"broker-{n}", **away}, "decision", 0.002) for n in (2, 3)
    ]
    plan = plan_of(*faults, transactions=Transacting(partitions=3, timeout_ms=4000))
    _, outcome = executed(plan)
    assert outcome.struck["kill"] == 2


@pytest.mark.parametrize("name", TRANSACTION_MOMENTS)
def test_every_moment_of_transactions_can_be_lived_through(name: str) -> None:
    topology = plan_of().topology
    faults = [
        Fault(round(1.0 + at_s, 3), kind, arguments, after, delay_s)
        for at_s, kind, arguments, after, delay_s in TRANSACTION_MOMENTS[name](
            random.Random(3), topology
        )
    ]
    plan = plan_of(*faults)
    assert read_plan(json.dumps(plan.document()), commit="") == plan
    executed(plan)


def test_seeds_draw_transactions_and_what_strikes_them() -> None:
    plans = [draw_plan(seed) for seed in range(1, 401)]
    drawn = [plan for plan in plans if plan.topology.transactions is not None]
    assert 0.1 < len(drawn) / len(plans) < 0.3
    kinds = {fault.kind for plan in drawn for fault in plan.faults}
    assert kinds >= set(TRANSACTION_KINDS)
    with_kafka = [
        plan
        for plan in drawn
        if plan.topology.transactions is not None and KAFKA in plan.topology.transactions.tellers
    ]
    assert len(with_kafka) > 5
    for plan in drawn:
        assert read_plan(json.dumps(plan.document()), commit="") == plan
    for plan in plans:
        if plan.topology.transactions is None:
            assert not {f.kind for f in plan.faults} & set(TRANSACTION_KINDS)


@pytest.mark.parametrize(
    ("transactions", "said"),
    [
        ({"tellers": []}, "1 to 10"),
        ({"tellers": ["java"]}, "'java'"),
        ({"copiers": -1}, "copiers=-1"),
        ({"readers": 1}, "readers"),
        ({"tellers": "ours"}, "is not a list"),
        (7, "is not null"),
    ],
)
def test_transactions_that_cannot_be_are_refused(transactions: Any, said: str) -> None:
    with pytest.raises(ImpossibleTopology, match=said):
        Topology(offsets_partitions=1, transactions=transactions)


def test_transactions_need_their_topics_and_their_protocol() -> None:
    with pytest.raises(ImpossibleTopology, match="offsets_partitions"):
        Topology(transactions=Transacting())
    with pytest.raises(ImpossibleTopology, match=r"work\.kafka"):
        Topology(offsets_partitions=1, transactions=Transacting(tellers=(KAFKA,)))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(1.0, "teller-crash", {"node": "writer", "restart_s": 1.0}), "'writer' is no prod"),
        (Fault(1.0, "decider-move", {"state_partition": 7, "to": 1}), "no state_partition 7"),
        (Fault(1.0, "kill", {"node": "decider-2", "restart_s": 1.0}), "no node"),
    ],
)
def test_faults_name_producers_and_deciders_that_are_there(fault: Fault, said: str) -> None:
    with pytest.raises(BadPlan, match=said):
        read_plan(json.dumps(plan_of(fault).document()), commit="")


def test_faults_of_transactions_need_transactions() -> None:
    plan = Plan(1, Topology(), (Fault(1.0, "decider-move", {"state_partition": 0, "to": 1}),))
    with pytest.raises(BadPlan, match="there are no transactions"):
        read_plan(json.dumps(plan.document()), commit="")

"""What is asked of a cluster while one broker is away, and what is not."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.plan.plan import Fault, Plan, draw_plan
from strandline_proof.sim.run.all_but_one import NEW_RECORDS, Core
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.topology.topology import Topology

KEY = (b"topic", 0)
AWAY = 3


class Cluster:
    """Three brokers, of which the last is away, and one partition of all of them."""

    def __init__(self) -> None:
        self.ghost = SimpleNamespace(given_up=False, damaged={})
        self.partition = SimpleNamespace(
            replicas=(1, 2, 3), isr=(1, 2), elr=(), leader=1, original=()
        )
        self.brokers = {n: SimpleNamespace(fenced=n == AWAY) for n in (1, 2, 3)}
        self.history = SimpleNamespace(acknowledged=10)
        control = SimpleNamespace(
            brokers=self.brokers,
            partitions={KEY: self.partition},
            main_keys=lambda: [KEY],
            min_insync=lambda partition: 2,
        )
        self.nodes = {f"broker-{n}": Machine(f"broker-{n}") for n in (1, 2, 3)}
        world: Any = SimpleNamespace(
            nodes=self.nodes,
            controller=Machine("controller"),
            brokers=list(self.nodes.values()),
            topology=Topology(partitions=1),
        )
        oracles: Any = SimpleNamespace(
            control=control,
            history=self.history,
            replicas=SimpleNamespace(ghost=lambda key: self.ghost),
        )
        self.core = Core(world, oracles, f"broker-{AWAY}", unseen=False)
        self.history.acknowledged += NEW_RECORDS

    def lead(self, **changes: Any) -> str:
        vars(self.partition).update(changes)
        return self.core.problem()


class Machine:
    def __init__(self, name: str) -> None:
        self.name = name
        self.running = True

    def kill(self) -> None:
        self.running = False


def test_the_core_may_be_well_without_the_broker_that_is_away() -> None:
    cluster = Cluster()
    assert cluster.core.problem() == ""
    assert not cluster.nodes["broker-3"].running


def test_a_broker_that_is_away_stays_away() -> None:
    cluster = Cluster()
    cluster.nodes["broker-3"].running = True  # somebody has started it
    assert cluster.core.problem() == ""
    assert not cluster.nodes["broker-3"].running


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"leader": -1}, "has no leader, and [1, 2] may lead"),
        ({"leader": -1, "isr": (), "elr": (3, 2)}, "has no leader, and [2] may lead"),
        ({"leader": -1, "isr": (), "elr": (3,)}, ""),
        ({"leader": -1, "isr": (3,)}, ""),
        ({"isr": (1,)}, "has ISR (1,), here are {1, 2}"),
        ({"isr": (1,), "original": (1, 2)}, ""),
    ],
)
def test_a_partition_is_led_where_somebody_here_may(changes: dict[str, Any], problem: str) -> None:
    assert Cluster().lead(**changes) == (problem and f"partition 0 {problem}")


def test_a_partition_with_damage_may_need_the_broker_that_is_away() -> None:
    cluster = Cluster()
    cluster.ghost.damaged = {"broker-1": ()}
    assert cluster.lead(isr=(1,)) == ""


def test_servers_that_are_here_are_there() -> None:
    cluster = Cluster()
    cluster.brokers[2].fenced = True
    assert cluster.core.problem() == "broker 2 is fenced"
    cluster.nodes["broker-2"].running = False
    assert cluster.core.problem() == "broker-2 is down"
    cluster = Cluster()
    cluster.brokers[AWAY].fenced = False
    assert cluster.core.problem() == "broker 3 is not fenced"


def test_records_are_acknowledged_where_enough_are_here() -> None:
    cluster = Cluster()
    cluster.history.acknowledged -= 1
    assert cluster.core.problem() == "only 2 new records were acknowledged"
    assert cluster.lead(replicas=(1, 3), isr=(1,)) == "", "fewer than min.insync.replicas"


def test_a_broker_is_away_in_half_of_the_seeds() -> None:
    away = [draw_plan(seed).away for seed in range(200)]
    assert 0.35 < sum(map(bool, away)) / len(away) < 0.6
    assert {"broker-1", "broker-2", "broker-3", "broker-4"} < {*away}


def test_a_run_goes_on_while_one_broker_is_away_and_ends_with_all() -> None:
    pause = Fault(1.0, "pause", {"node": "broker-2", "for_s": 1.5})
    plan = Plan(1, Topology(), (pause,), chaos_s=3.0, away="broker-1")
    outcome = run_plan(plan)
    assert outcome.failure is None
    assert outcome.sometimes["core was well without a broker"] == 1
    without = run_plan(dataclasses.replace(plan, away=""))
    assert without.sometimes["core was well without a broker"] == 0

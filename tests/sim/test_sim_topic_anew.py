"""A topic that is deleted and made again under load, at moments that are bad for it (P-19, P-51,
I-36, I-87): its old replicas are deleted, or set aside as strays, and never serve again.
"""

from typing import Any

import pytest

from strandline import Admin, NewTopic
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import DATA, Topology
from strandline_proof.sim.workload.churn import CHURN
from strandline_proto.ids import TopicId

pytestmark = pytest.mark.proof

ONE = "broker-2"


def anew(at_s: float, *, pause_s: float = 0.0, partitions: int = 1) -> Fault:
    return Fault(at_s, "topic-recreate", {"pause_s": pause_s, "partitions": partitions})


def down(at_s: float, restart_s: float) -> Fault:
    return Fault(at_s, "kill", {"node": ONE, "restart_s": restart_s})


def dark(operation: int) -> Fault:
    """The power of one broker goes right before its n-th disk operation from here on."""
    arguments = {"operation": operation, "nodes": [], "restart_s": 0.3, "survival": 0.5}
    return Fault(2.0, "crash-point", {"node": ONE, **arguments})


def full(at_s: float, for_s: float) -> Fault:
    return Fault(at_s, "disk-full", {"node": ONE, "for_s": for_s, "room": 0})


SLOW = Fault(1.5, "slow-disk", {"node": ONE, "for_s": 2.5, "factor": 50})
FIRST = anew(0.5)
"""The topic is there from about here on."""
PLANS = {
    "nothing else": (FIRST, anew(2.0), anew(2.5, partitions=3), anew(3.0)),
    "a broker is down": (FIRST, down(1.5, 1.5), anew(2.0, partitions=3)),
    "a broker is down while it goes for good, then it is made again": (
        *(FIRST, down(1.5, 1.0), anew(1.8, pause_s=1.5, partitions=2)),
    ),
    "a broker is paused": (
        *(FIRST, Fault(1.5, "pause", {"node": ONE, "for_s": 1.0}), anew(2.0, partitions=3)),
    ),
    "a broker is paused for longer than its session": (
        *(FIRST, Fault(1.5, "pause", {"node": ONE, "for_s": 3.0}), anew(2.0)),
    ),
    "a broker is cut off": (
        *(FIRST, Fault(1.5, "isolate", {"node": ONE, "for_s": 2.5, "hold": True}), anew(2.0)),
    ),
    "the controller dies": (
        *(FIRST, anew(2.0, partitions=2)),
        Fault(2.05, "kill", {"node": "controller", "restart_s": 0.4}),
    ),
    "its replicas are still being made": (SLOW, anew(1.6), anew(1.7, partitions=3), anew(1.8)),
    "a disk is full": (FIRST, full(1.5, 2.0), anew(2.0, partitions=3)),
    "a broker dies on its full disk": (FIRST, full(1.5, 2.5), down(1.7, 0.3), anew(2.5)),
    "a broker dies in the middle of it": (FIRST, anew(2.0, partitions=2), down(2.02, 0.4)),
}


def run(*faults: Fault, **topology: Any) -> Run:
    done = Run(Plan(seed=3, topology=Topology(partitions=1, **topology), faults=faults, chaos_s=5))
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    assert outcome.sometimes["topic created again"] == sum(
        fault.kind == "topic-recreate" for fault in faults
    )
    return done


def check_directories(done: Run) -> list[str]:
    """Every broker holds and serves what is assigned to it, and nothing else. Returns strays."""
    strays = []
    control = done.oracles.control
    assert control.state is not None
    for node in done.world.brokers:
        me = int(node.name.rpartition("-")[2])
        assigned = {key for key, p in control.partitions.items() if me in p.replicas}
        assert set(node.process.replicas.partitions) == assigned, node.name
        names = [name for name in SimFs(node.disk).listdir(DATA) if name.startswith(CHURN)]
        assert not [name for name in names if name.endswith("-delete")], names
        strays += [name for name in names if name.endswith("-stray")]
        plain = {name for name in names if "." not in name}
        names_of = [control.state.topics[TopicId(t)].name for t, _ in assigned]
        assert len(plain) == names_of.count(CHURN), (node.name, names)
    return strays


@pytest.mark.parametrize("when", PLANS)
def test_a_topic_is_made_again_while(when: str) -> None:
    done = run(*PLANS[when])
    check_directories(done)


def test_a_late_request_of_before_makes_it_as_it_was_then() -> None:
    """It names no id either. Whoever writes goes by the partitions that there are."""
    wanted = anew(2.0, pause_s=1.0, partitions=3)
    made = Run(Plan(seed=3, topology=Topology(partitions=1), faults=(FIRST, wanted), chaos_s=5))
    scene = made.nemesis.scene

    async def make(node: Any, runtime: Any, stop: Any) -> None:
        async with Admin(scene.world.topology.bootstrap, runtime=runtime) as admin:
            await admin.create_topics([NewTopic(CHURN, num_partitions=1, replication_factor=3)])

    made.world.loop.post(2.5, None, scene.run_client, "late", make)
    outcome = made.execute()
    assert outcome.failure is None, outcome.timeline.text()


def test_what_a_broker_that_was_down_held_of_it_is_set_aside() -> None:
    done = run(*PLANS["a broker is down"])
    (stray,) = check_directories(done)
    assert stray.startswith(f"{CHURN}-0.")


@pytest.mark.parametrize("operation", [3, 9, 15, 21, 27])
def test_no_disk_operation_of_it_is_a_bad_moment_to_lose_the_power(operation: int) -> None:
    done = run(FIRST, dark(operation), anew(2.0, partitions=2))
    check_directories(done)

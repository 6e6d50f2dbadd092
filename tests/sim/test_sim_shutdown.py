"""Controlled shutdown (I-84, P-58, P-64, P-65): quick, whoever else stops, dies or is slow."""

import pytest

from strandline_proof.sim.plan.plan import Fault, Plan
from strandline_proof.sim.run.run import Run
from strandline_proof.sim.topology.topology import Topology

STOP_S = 2.0


def stop(*numbers: int) -> tuple[Fault, ...]:
    return tuple(Fault(STOP_S, "stop", {"node": f"broker-{n}", "restart_s": 2.5}) for n in numbers)


def controller_dies(at_s: float, restart_s: float) -> Fault:
    return Fault(at_s, "kill", {"node": "controller", "restart_s": restart_s})


CHURNING = tuple(
    Fault(1.5 + i / 10, "topic-recreate", {"pause_s": 0.0, "partitions": 1}) for i in range(12)
)
"""Decisions of the controller that never cease (P-65)."""
PLANS: dict[str, tuple[tuple[Fault, ...], float]] = {
    "one stops": (stop(1), 0.5),
    "two stop": (stop(1, 2), 0.5),
    "all stop": (stop(1, 2, 3), 0.5),
    "the controller is down": ((controller_dies(1.8, 1.5), *stop(1)), 1.5),
    "the controller is down and all stop": ((controller_dies(1.8, 1.5), *stop(1, 2, 3)), 1.5),
    "the controller dies and comes back meanwhile": (
        *((controller_dies(STOP_S + 0.004, 0.2), *stop(1, 2)), 1.5),
    ),
    "another broker hangs": (
        *((Fault(1.9, "pause", {"node": "broker-3", "for_s": 1.0}), *stop(1)), 1.5),
    ),
    "the decisions never cease": ((*CHURNING, *stop(1)), 0.5),
}


@pytest.mark.parametrize("when", PLANS)
def test_a_broker_stops_soon_although(when: str) -> None:
    faults, limit_s = PLANS[when]
    plan = Plan(seed=5, topology=Topology(partitions=2), faults=faults, chaos_s=5)
    done = Run(plan)
    outcome = done.execute()
    assert outcome.failure is None, outcome.timeline.text()
    for fault in faults:
        if fault.kind == "stop":
            name = fault.arguments["node"]
            lines = [line for line in outcome.timeline.lines if line.node == name]
            ended = [line.time_s for line in lines if line.event == "process ended"]
            assert ended[0] - STOP_S < limit_s, outcome.timeline.text()

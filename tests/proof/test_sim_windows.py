"""Windows: operations that stand still at a named place, answers that are lost, and what strikes
meanwhile. Whole clusters are sound over them, and a run is the same in each repetition.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proof.sim.kinds import ALL_KINDS
from strandline_proof.sim.kinds.places import PLACES
from strandline_proof.sim.kinds.windows import WINDOW
from strandline_proof.sim.plan.plan import Fault, Plan, check_plan
from strandline_proof.sim.plan.windows import FAMILIES, draw_window
from strandline_proof.sim.run.run import RunResult, run_plan
from strandline_proof.sim.topology.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

SMALL = Topology(partitions=1, segment_bytes=400, retention_check_ms=600)


def delay(at_s: float, point: str, *, late: bool = False, node: str = "leader-0") -> Fault:
    what = {"node": node, "point": point, "count": 1, "for_s": 0.8, "late": late}
    return Fault(at_s, "delay-at", what)


def power(delay_s: float = 0.1) -> Fault:
    what = {"nodes": ["leader-0"], "restart_s": 0.3, "survival": 0.0}
    return Fault(2.0, "power", what, WINDOW, delay_s)


def deletes(at_s: float) -> Fault:
    return Fault(at_s, "delete-records", {"partition": 0, "back": 1})


def ran(faults: Iterable[Fault], **topology: Any) -> RunResult:
    faults = sorted(faults, key=lambda fault: fault.at_s)
    shape = {**{f: getattr(SMALL, f) for f in ("partitions", "segment_bytes")}, **topology}
    plan = Plan(7, Topology(retention_check_ms=600, **shape), tuple(faults), chaos_s=6.0)
    check_plan(plan)
    result = run_plan(plan)
    assert result.failure is None, result.timeline.text()
    return result


@pytest.mark.parametrize("late", [False, True])
def test_a_log_start_that_is_not_durable_yet_meets_a_loss_of_power(late: bool) -> None:
    faults = [delay(2.0, "log-starts-renamed", late=late), power(), deletes(2.1), deletes(4.0)]
    result = ran(faults)
    assert result.struck["delay-at"] == 1
    what = "is known late" if late else "stands still"
    assert result.sometimes[f"{what}: log-starts-renamed"] == 1
    assert result.unprompted == 0, "the window was open when the power went"
    assert result.digest == ran(faults).digest


@pytest.mark.parametrize("method", ["Produce", "AlterPartition"])
def test_an_answer_is_lost_when_all_is_done_and_asked_for_again(method: str) -> None:
    node = "leader-0" if method == "Produce" else "controller"
    lost = Fault(2.0, "lost-answer", {"node": node, "method": method, "count": 1})
    dies = Fault(2.0, "kill", {"node": "leader-0", "restart_s": 0.4}, WINDOW, 0.0)
    shrinks = Fault(2.1, "isolate", {"node": "other-0", "for_s": 2.2, "hold": False})
    result = ran([lost, dies, shrinks])
    assert result.struck["lost-answer"] == 1
    assert result.sometimes[f"answer lost: {method}"] == 1
    assert result.acknowledged > 20


def test_every_place_is_in_a_family_and_every_window_is_a_plan() -> None:
    assert sorted(point for family in FAMILIES for point in family) == sorted(PLACES)
    rng = random.Random(1)
    kinds = set()
    for _ in range(500):
        faults = tuple(
            Fault(1.0 + at_s, kind, what, after, delay_s)
            for at_s, kind, what, after, delay_s in draw_window(rng, SMALL)
        )
        check_plan(Plan(1, SMALL, faults))
        kinds |= {fault.kind for fault in faults}
    assert {"delay-at", "crash-at", "lost-answer"} <= kinds <= set(ALL_KINDS)

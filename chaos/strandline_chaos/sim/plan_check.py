"""What can be wrong with a plan that somebody wrote or changed by hand: said at once, with field,
value and remedy, and not when the fault is due.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Final

from strandline_chaos.sim.kinds import KINDS
from strandline_chaos.sim.kinds.disks import FILES
from strandline_chaos.sim.kinds.network import SHAPES
from strandline_chaos.sim.kinds.processes import DISKS, POINTS
from strandline_chaos.sim.moments import ROLES
from strandline_chaos.sim.topology import CONTROLLER

if TYPE_CHECKING:
    from strandline_chaos.sim.plan import Fault, Plan
    from strandline_chaos.sim.topology import Topology

EVENTS: Final = ("leader", "isr", "join")
"""What a fault may wait for: a leadership or an ISR that the controller changes, and a leader that
asks to add a member.
"""
NAMED: Final[dict[str, tuple[str, ...]]] = {
    "file": tuple(FILES),
    "point": tuple(POINTS),
    "disk": DISKS,
    "shape": SHAPES,
}
"""Arguments that are one of some words."""
SIGNED: Final = ("offset_s",)
"""Arguments that may be below zero."""
SHARES: Final = ("rate", "probability", "survival")
"""Arguments from 0 to 1, but for the rate of a clock."""
CHAOS_S_MAX: Final = 3600


class BadPlan(ValueError):
    """A plan that cannot be run; the message names what is wrong with it."""


def check_plan(plan: Plan) -> None:
    if type(plan.seed) is not int or plan.seed < 0:
        raise BadPlan(f"seed={plan.seed!r} is not a whole number from 0 on")
    if not _is_number(plan.chaos_s) or not 0 < plan.chaos_s <= CHAOS_S_MAX:
        raise BadPlan(f"chaos_s={plan.chaos_s!r} is not a number of seconds up to {CHAOS_S_MAX}")
    for fault in plan.faults:
        if _is_number(fault.at_s) and fault.at_s > plan.chaos_s:
            raise BadPlan(
                f"{fault.kind} at_s={fault.at_s}: everything heals at {plan.chaos_s} s, so it would"
                " never strike; let it strike earlier, or raise chaos_s"
            )
        check_fault(fault, plan.topology)


def check_fault(fault: Fault, topology: Topology) -> None:
    if fault.kind not in KINDS:
        raise BadPlan(f"fault {fault.kind!r} is not known; use one of {', '.join(KINDS)}")
    if fault.after not in (None, *EVENTS):
        raise BadPlan(f"after={fault.after!r} is not one of {', '.join(EVENTS)}")
    for name, value in (("at_s", fault.at_s), ("delay_s", fault.delay_s)):
        if not _is_number(value) or value < 0:
            raise BadPlan(f"{fault.kind}: {name}={value!r} is not a number of seconds from 0 on")
    example = KINDS[fault.kind](random.Random(0), topology)
    if not isinstance(fault.arguments, dict) or set(fault.arguments) != set(example):
        raise BadPlan(f"{fault.kind} takes {sorted(example)}, not {fault.arguments!r}")
    for name, like in example.items():
        _check_argument(fault, name, fault.arguments[name], like)
    _check_nodes(fault, topology)


def _check_argument(fault: Fault, name: str, value: Any, like: Any) -> None:
    if isinstance(like, bool):
        problem = "" if isinstance(value, bool) else "is not true or false"
    elif isinstance(like, list):
        problem = "" if isinstance(value, list) else "is not a list"
    elif isinstance(like, str):
        problem = _word_problem(name, value)
    else:
        problem = _number_problem(fault.kind, name, value, whole=isinstance(like, int))
    if problem:
        raise BadPlan(f"{fault.kind}: {name}={value!r} {problem}")


def _word_problem(name: str, value: Any) -> str:
    if not isinstance(value, str):
        return "is not a name"
    if name in NAMED and value not in NAMED[name]:
        return f"is not one of {', '.join(NAMED[name])}"
    return ""


def _number_problem(kind: str, name: str, value: Any, *, whole: bool) -> str:
    if not _is_number(value):
        return "is not a number"
    if whole and type(value) is not int:
        return "is not a whole number"
    if value < 0 and name not in SIGNED:
        return "is below 0"
    if kind == "clock-rate" and name == "rate":
        return "lets the clock stand still: that is the fault clock-freeze" if value == 0 else ""
    return "is above 1" if value > 1 and name in SHARES else ""


def _check_nodes(fault: Fault, topology: Topology) -> None:
    roles = {f"{role}-{p}" for role in ROLES for p in range(topology.partitions)}
    there = f"; there are {', '.join(topology.nodes)} and roles such as leader-0"
    for name in ("node", "a", "b"):
        node = fault.arguments.get(name, CONTROLLER)
        if node not in {*topology.nodes, *roles}:
            raise BadPlan(f"{fault.kind}: there is no node {node!r}{there}")
    for node in fault.arguments.get("nodes", ()):
        if node not in {*topology.servers, *roles}:
            raise BadPlan(f"{fault.kind}: there is no server {node!r}{there}")
    partition = fault.arguments.get("partition", 0)
    if partition >= topology.partitions:
        raise BadPlan(
            f"{fault.kind}: there is no partition {partition}, they are 0 to"
            f" {topology.partitions - 1}"
        )
    for name in ("target", "other"):
        _check_replicas(fault, name, topology)
    least = fault.arguments.get("value", 1)
    if fault.kind == "min-insync" and not 1 <= least <= topology.replication_factor:
        raise BadPlan(
            f"min-insync: value={least} is not from 1 to"
            f" replication_factor={topology.replication_factor}"
        )


def _check_replicas(fault: Fault, name: str, topology: Topology) -> None:
    replicas = fault.arguments.get(name, [1])
    ids = range(1, topology.brokers + 1)
    if not replicas or any(replicas.count(b) > 1 or b not in ids for b in replicas):
        raise BadPlan(
            f"{fault.kind}: {name}={replicas!r} is not a list of different brokers from 1 to"
            f" {topology.brokers}"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)

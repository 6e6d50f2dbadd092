"""Checks of a plan that a person wrote or changed by hand.

An error names the field, the value and the remedy before the run, not when the fault is due.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds import ALL_KINDS, GROUP_KINDS, TRANSACTION_KINDS
from strandline_proof.sim.kinds.clients import LIES
from strandline_proof.sim.kinds.disks import FILES
from strandline_proof.sim.kinds.network import SHAPES
from strandline_proof.sim.kinds.places import PLACES
from strandline_proof.sim.kinds.processes import DISKS
from strandline_proof.sim.kinds.windows import METHODS, WINDOW
from strandline_proof.sim.plan.moments import ROLES
from strandline_proof.sim.plan.transaction_moments import DECISION
from strandline_proof.sim.topology.topology import CONTROLLER, COORDINATOR
from strandline_proof.sim.topology.transactions import COPIES, DECIDER, KEEPER, LEDGER

if TYPE_CHECKING:
    from strandline_proof.sim.plan.plan import Fault, Plan
    from strandline_proof.sim.topology.topology import Topology

EVENTS: Final = ("leader", "isr", "join")
"""Events that a fault may wait for: the controller changes a leader or an ISR, or a leader requests
to add a member.
"""
REBALANCE: Final = "rebalance"
"""The event of a plan with groups: a member learns that partitions come or go."""
NAMED: Final[dict[str, tuple[str, ...]]] = {
    "file": tuple(FILES),
    "point": tuple(PLACES),
    "disk": DISKS,
    "shape": SHAPES,
    "lie": LIES,
    "method": METHODS,
}
"""Arguments with a fixed set of values."""
SHARES: Final = ("rate", "probability", "survival")
"""Arguments from 0 to 1, except the rate of a clock."""
CHAOS_S_MAX: Final = 3600
SECONDS: Final = (0.0, float(CHAOS_S_MAX))
"""Bounds of every argument whose name says that it is in seconds."""
BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "offset_s": (-31_536_000, 31_536_000),
    "times": (0, 1000),
    "count": (1, 100_000),
    "operation": (0, 1_000_000_000),
    "factor": (0, 10_000),
    "ms": (0, 60_000),
    "delete_retention_ms": (0, 1_000_000_000),
    "lag_ms": (0, 1_000_000_000),
    "bits": (1, 1000),
    "bytes": (0, 1 << 20),
    "room": (0, 1 << 30),
    "back": (0, 1_000_000),
    "keys": (1, 10_000),
    "partitions": (1, 20),
    "state_partition": (0, 19),
}
"""Least and greatest value of the other numbers: beyond them a run says nothing, or never ends."""
CLOCK_RATES: Final = (0.01, 100.0)
FAULTS_MAX: Final = 10_000


class BadPlan(ValueError):
    """A plan that cannot be run; the message names what is wrong with it."""


def check_fields(what: str, found: Any, like: Any) -> dict[str, Any]:
    """The fields of a dataclass `like`, as a person wrote them: every required field, and no
    unknown one.
    """
    remedy = "; compare it with a file that `chaos sim` has kept"
    if not isinstance(found, dict):
        raise BadPlan(f"{what} is {_kind_of(found)}, not an object with fields{remedy}")
    for each in dataclasses.fields(like):
        needed = each.default is each.default_factory is dataclasses.MISSING
        if needed and each.name not in found:
            raise BadPlan(f"a field is missing or unknown: {what} has no {each.name}{remedy}")
    known = [each.name for each in dataclasses.fields(like)]
    for name in found:
        if name not in known:
            raise BadPlan(
                f"a field is missing or unknown: {what} has {name!r}, known are"
                f" {', '.join(known)}{remedy}"
            )
    return found


def check_list(what: str, found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise BadPlan(
            f"{what} is {_kind_of(found)}, not a list; compare it with a file that"
            " `chaos sim` has kept"
        )
    return found


def _kind_of(found: Any) -> str:
    """The JSON name of the value's type."""
    if found is None:
        return "null"
    names = {bool: "a truth value", str: "a text", list: "a list", dict: "an object"}
    return names.get(type(found), "a number")


def check_plan(plan: Plan) -> None:
    if type(plan.seed) is not int or plan.seed < 0:
        raise BadPlan(f"seed={plan.seed!r} is not a whole number from 0 on")
    if not _is_number(plan.chaos_s) or not 0 < plan.chaos_s <= CHAOS_S_MAX:
        raise BadPlan(f"chaos_s={plan.chaos_s!r} is not a number of seconds up to {CHAOS_S_MAX}")
    patience_s = plan.patience_s
    if patience_s is not None and not (_is_number(patience_s) and 0 <= patience_s <= CHAOS_S_MAX):
        raise BadPlan(
            f"patience_s={patience_s!r} is not a number of seconds up to {CHAOS_S_MAX}, nor null"
        )
    if plan.away not in ("", *plan.topology.broker_names):
        raise BadPlan(
            f"away={plan.away!r} is not one of {', '.join(plan.topology.broker_names)}, nor empty"
        )
    if type(plan.unseen) is not bool or (plan.unseen and not plan.away):
        raise BadPlan(f"unseen={plan.unseen!r} is not false, nor true of a broker that is away")
    if not isinstance(plan.note, str):
        raise BadPlan(f"note={plan.note!r} is not a text: write what was found, or leave it out")
    if len(plan.faults) > FAULTS_MAX:
        raise BadPlan(f"it has {len(plan.faults)} faults; leave at most {FAULTS_MAX} of them")
    for fault in plan.faults:
        if _is_number(fault.at_s) and fault.at_s > plan.chaos_s:
            raise BadPlan(
                f"{fault.kind} at_s={fault.at_s}: everything heals at {plan.chaos_s} s, so it would"
                " never strike; let it strike earlier, or raise chaos_s"
            )
        check_fault(fault, plan.topology)


def check_fault(fault: Fault, topology: Topology) -> None:
    if not isinstance(fault.kind, str) or fault.kind not in ALL_KINDS:
        raise BadPlan(f"fault {fault.kind!r} is not known; use one of {', '.join(ALL_KINDS)}")
    events = (*EVENTS, WINDOW, REBALANCE) if topology.groups else (*EVENTS, WINDOW)
    if topology.transactions is not None:
        events = (*events, DECISION)
    if fault.after not in (None, *events):
        raise BadPlan(f"after={fault.after!r} is not one of {', '.join(events)}")
    for name, value in (("at_s", fault.at_s), ("delay_s", fault.delay_s)):
        if not _is_number(value) or value < 0:
            raise BadPlan(f"{fault.kind}: {name}={value!r} is not a number of seconds from 0 on")
        if value > CHAOS_S_MAX:
            raise BadPlan(f"{fault.kind}: {name}={value!r} is above {CHAOS_S_MAX} s")
    example = ALL_KINDS[fault.kind](random.Random(0), topology)
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
    if kind == "clock-rate" and name == "rate":
        if value == 0:
            return "lets the clock stand still: that is the fault clock-freeze"
        low, high = CLOCK_RATES
    elif name in SHARES:
        low, high = 0.0, 1.0
    else:
        low, high = BOUNDS.get(name, SECONDS if name.endswith("_s") else (0.0, math.inf))
    if low <= value <= high:
        return ""
    return f"is below {low:.10g}" if value < low else f"is above {high:.10g}"


def _check_nodes(fault: Fault, topology: Topology) -> None:
    roles = {f"{role}-{p}" for role in ROLES for p in range(topology.partitions)}
    roles |= {f"{COORDINATOR}-{group}" for group in range(len(topology.groups))}
    roles |= _transaction_roles(topology)
    there = f"; there are {', '.join(topology.nodes)} and roles such as leader-0"
    for name in ("node", "a", "b"):
        node = fault.arguments.get(name, CONTROLLER)
        if node not in {*topology.nodes, *roles}:
            raise BadPlan(f"{fault.kind}: there is no node {node!r}{there}")
    for node in fault.arguments.get("nodes", ()):
        if not isinstance(node, str) or node not in {*topology.servers, *roles}:
            raise BadPlan(f"{fault.kind}: there is no server {node!r}{there}")
    partition = fault.arguments.get("partition", 0)
    if partition >= topology.partitions:
        raise BadPlan(
            f"{fault.kind}: there is no partition {partition}, they are 0 to"
            f" {topology.partitions - 1}"
        )
    _check_clients(fault, topology)
    for name in ("target", "other"):
        _check_replicas(fault, name, topology)
    to = fault.arguments.get("to", 1)
    if not 1 <= to <= topology.brokers:
        raise BadPlan(f"{fault.kind}: to={to} is not a broker from 1 to {topology.brokers}")
    least = fault.arguments.get("value", 1)
    if fault.kind == "min-insync" and not 1 <= least <= topology.replication_factor:
        raise BadPlan(
            f"min-insync: value={least} is not from 1 to"
            f" replication_factor={topology.replication_factor}"
        )


def _check_clients(fault: Fault, topology: Topology) -> None:
    if fault.kind in GROUP_KINDS:
        _check_group(fault, topology)
    if fault.kind in TRANSACTION_KINDS:
        _check_transactions(fault, topology)


def _transaction_roles(topology: Topology) -> set[str]:
    transactions = topology.transactions
    if transactions is None:
        return set()
    roles = {f"{role}-{p}" for role in (LEDGER, COPIES) for p in range(transactions.partitions)}
    deciders = {f"{DECIDER}-{p}" for p in range(transactions.state_partitions)}
    return roles | deciders | {f"{KEEPER}-{p}" for p in range(topology.offsets_partitions)}


def _check_transactions(fault: Fault, topology: Topology) -> None:
    transactions = topology.transactions
    if transactions is None:
        raise BadPlan(f"{fault.kind}: there are no transactions; the topology names them")
    partition = fault.arguments.get("state_partition", 0)
    if partition >= transactions.state_partitions:
        raise BadPlan(
            f"{fault.kind}: there is no state_partition {partition}, they are 0 to"
            f" {transactions.state_partitions - 1}"
        )
    clients = (*transactions.teller_names, *transactions.copier_names)
    client = fault.arguments.get("node", fault.arguments.get("a", clients[0]))
    if client not in clients:
        raise BadPlan(
            f"{fault.kind}: {client!r} is no producer of transactions; they are"
            f" {', '.join(clients)}"
        )


def _check_group(fault: Fault, topology: Topology) -> None:
    if not topology.groups:
        raise BadPlan(f"{fault.kind}: there are no groups; the topology names them")
    group = fault.arguments.get("group", 0)
    if group >= len(topology.groups):
        raise BadPlan(
            f"{fault.kind}: there is no group {group}, they are 0 to {len(topology.groups) - 1}"
        )
    member = fault.arguments.get("node", fault.arguments.get("a", topology.member_names[0]))
    if fault.kind.startswith("member") and member not in topology.member_names:
        raise BadPlan(
            f"{fault.kind}: {member!r} is no member; they are {', '.join(topology.member_names)}"
        )


def _check_replicas(fault: Fault, name: str, topology: Topology) -> None:
    replicas = fault.arguments.get(name, [1])
    ids = range(1, topology.brokers + 1)
    if not replicas or any(
        type(b) is not int or replicas.count(b) > 1 or b not in ids for b in replicas
    ):
        raise BadPlan(
            f"{fault.kind}: {name}={replicas!r} is not a list of different brokers from 1 to"
            f" {topology.brokers}"
        )


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return abs(value) < 1 << 63
    return isinstance(value, float) and math.isfinite(value)

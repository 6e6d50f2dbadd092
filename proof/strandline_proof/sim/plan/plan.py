"""Plans of a simulated cluster's faults: an explicit list, a pure function of the seed.

Each seed draws a cluster, a random subset of the kinds of faults, and how many. A plan is plain
data: it is printed with every failure, kept in a file, replayed and shrunk.
"""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds import KINDS, SINGLE_KINDS
from strandline_proof.sim.kinds.admin import COMPACTION, RETENTION
from strandline_proof.sim.kinds.disks import CHANGE_BYTES
from strandline_proof.sim.kinds.draw import seconds
from strandline_proof.sim.kinds.groups import draw_group_fault
from strandline_proof.sim.kinds.moves import BROKERS as BROKERS_TO_MOVE
from strandline_proof.sim.kinds.moves import FEW
from strandline_proof.sim.kinds.moves import KINDS as MOVES
from strandline_proof.sim.kinds.transactions import draw_transaction_fault
from strandline_proof.sim.plan.check import (
    EVENTS,
    REBALANCE,
    BadPlan,
    check_fault,
    check_fields,
    check_list,
    check_plan,
)
from strandline_proof.sim.plan.group_moments import draw_group_moment
from strandline_proof.sim.plan.moments import MOMENTS, Step, steps_of
from strandline_proof.sim.plan.transaction_moments import DECISION, draw_transaction_moment
from strandline_proof.sim.plan.windows import draw_move, draw_window
from strandline_proof.sim.topology.groups import CLASSIC, draw_group
from strandline_proof.sim.topology.groups import DRAWN as GROUPS_DRAWN
from strandline_proof.sim.topology.topology import CONTROLLER, ImpossibleTopology, Topology
from strandline_proof.sim.topology.transactions import DRAWN as TRANSACTIONS_DRAWN
from strandline_proof.sim.topology.transactions import KAFKA, OURS, draw_transactions
from strandline_proof.sim.topology.work import draw_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "EVENTS",
    "BadPlan",
    "Fault",
    "Plan",
    "check_fault",
    "check_plan",
    "draw_plan",
    "read_plan",
]

CHAOS_S: Final = 9.0
CHAOS_BEFORE_CORE_S: Final = 8.25
LAST_FAULT_S: Final = 8.0
PATIENCE_S: Final = 3.0
"""Time after which a fault strikes without its event: a plan is not to lose it."""
CORE: Final = 0.5
UNSEEN: Final = 0.5
RESTORES: Final = ("store-restored",)
"""Faults that all brokers must settle together: a restored store does not know which replicas are
in sync.
"""
RESEND: Final = "resend"
FAULTS_MAX: Final = 12
KINDS_DRAWN: Final = (1, 3, 5, 7, 9)
"""Number of kinds of faults that a seed draws from: few kinds find what depth finds, many what
breadth finds.
"""
RETENTION_CHECK_MS: Final = 600
CLEANER_MS: Final = 500
SENDS_PER_S: Final = (2, 6, 12)
"""Records a second. An idle partition has faults of its own, and a busy one takes most of the time
of a run.
"""
SCRUB_MS: Final = 1500
"""Milliseconds between scrubs of the logs, in seeds whose disks change bytes."""
RACKS: Final = (0, 0, 2, 3)
TOGETHER: Final = 0.4
"""Probability that a fault follows the one before it within half a second, on the same server if
both have one. Two faults at the right moment may break what one fault alone does not.
"""
BALANCE_S: Final = (1, 2, 300)
"""Seconds between balances of leaders; the last one is longer than any run."""
FORMAT: Final = 1
MOMENT: Final = 0.3
"""Probability that a plan has one of the moments beside its faults."""
WINDOWS: Final = 0.35
"""Probability that a plan has windows beside its other faults, and the most windows of a plan:"""
WINDOWS_MAX: Final = 3
MOVED: Final = 0.08
"""Probability that a partition is reassigned to few brokers, or to some that die."""
LAST_MOMENT_S: Final = 6.0
GROUP_FAULTS: Final = (1, 5)
"""Number of faults of groups beside the others, where there are groups."""
GROUP_MOMENT: Final = 0.4
TRANSACTION_FAULTS: Final = (1, 5)
TRANSACTION_MOMENT: Final = 0.5
CROWDED: Final = 0.08
CROWD: Final = (20, 60)
"""Share of the seeds with a topic of many partitions beside the main one, and its partitions."""
OFFSETS_PARTITIONS: Final = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of `kind` strikes at `at_s`. With `after` it strikes `delay_s` after the first such
    event from then on, or when the plan's patience ends. A node may be named by its role:
    `leader-0` is the leader of partition 0.
    """

    at_s: float
    kind: str
    arguments: dict[str, Any]
    after: str | None = None
    delay_s: float = 0.0

    def __str__(self) -> str:
        when = f"{self.at_s:7.3f} s"
        if self.after is not None:
            when += f", {self.delay_s * 1000:.0f} ms after a change of {self.after}"
        return f"{when}  {self.kind} " + " ".join(f"{k}={v}" for k, v in self.arguments.items())


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    topology: Topology
    faults: tuple[Fault, ...]
    chaos_s: float = CHAOS_S
    away: str = ""
    """A broker that is dead when everything heals, until the others have shown that they
    are well.
    """
    unseen: bool = False
    """True if its machine is off too, and the controller restarts: that broker is then unknown to
    it.
    """
    patience_s: float | None = PATIENCE_S
    """Time for which a fault waits for its event before it strikes without it; None: for ever."""
    commit: str = field(default="", compare=False)
    note: str = field(default="", compare=False)
    """The plan's finding, if it is kept for that: what was broken, why, and what that teaches."""

    def document(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    def text(self) -> str:
        head = f"seed {self.seed}, {self.topology}, {self.chaos_s} s of chaos"
        if self.away:
            head += f", then {self.away} is away for a while"
        if self.unseen:
            head += ", unseen by the controller"
        notes = [self.note] if self.note else []
        return "\n".join([head, *notes, *(f"  {fault}" for fault in self.faults)])


def read_plan(text: str, *, commit: str) -> Plan:
    """Reads the plan in a file. Raises BadPlan if it is none, of another commit, or names unknown
    faults.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadPlan(f"it is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadPlan(f"it has no format {FORMAT}; is it a file that `chaos sim` has written?")
    if commit and found.get("commit") and found["commit"] != commit:
        raise BadPlan(
            f"it is of {_sources(found['commit'])}, this is {_sources(commit)}: the same seed means"
            " another history there; run it on the sources it is of, or use --any-commit"
        )
    check_fields("the plan", {k: v for k, v in found.items() if k != "format"}, Plan)
    faults = tuple(
        Fault(**check_fields(f"fault {number}", fault, Fault))
        for number, fault in enumerate(check_list("faults", found["faults"]), start=1)
    )
    try:
        topology = Topology(**check_fields("topology", found["topology"], Topology))
    except ImpossibleTopology as error:
        raise BadPlan(str(error)) from None
    optional = ("chaos_s", "away", "unseen", "patience_s", "commit", "note")
    others = {k: found[k] for k in optional if k in found}
    plan = Plan(found["seed"], topology, faults, **others)
    check_plan(plan)
    return plan


def _sources(commit: object) -> str:
    """The sources of a plan's `commit`, in words."""
    text = str(commit)
    if text.endswith("-dirty"):
        return f"commit {text} (with changed files)"
    return text if text.startswith("version ") else f"commit {text}"


CRASH_POINT_PLACES: Final = ((CONTROLLER, 0.0), ("broker-1", 0.0), ("leader-0", 1.5))
"""Servers whose disk operations are counted, and the time from which on they are."""


def crash_point_plans(operations: int, *, commit: str = "") -> Iterator[Plan]:
    """Plans in which every machine loses power at the 1st, 2nd, ... disk operation of one server:
    of the controller and of a broker, from its start on, and of a broker that is being written to.

    All is flushed before it is acknowledged, so nothing may be lost.
    """
    topology = Topology(partitions=1, flush_policy="always", segment_bytes=1500)
    everything = {"nodes": list(topology.servers), "restart_s": 0.3}
    for operation in range(1, operations + 1):
        for node, at_s in CRASH_POINT_PLACES:
            struck = {"node": node, "operation": operation, **everything}
            survival = (0.0, 0.5)[operation % 2]
            fault = Fault(at_s, "crash-point", {**struck, "survival": survival})
            yield Plan(operation, topology, (fault,), chaos_s=4.0, commit=commit)


def moment(name: str, rng: random.Random, topology: Topology, begin_s: float) -> list[Fault]:
    """The faults of a moment that begins at that time."""
    return _faults(steps_of(name, rng, topology), begin_s)


def _faults(steps: Iterable[Step], begin_s: float) -> list[Fault]:
    return [
        Fault(round(begin_s + at_s, 3), kind, arguments, after, delay_s)
        for at_s, kind, arguments, after, delay_s in steps
    ]


def _draw_moment(seed: int, topology: Topology) -> list[Fault]:
    rng = random.Random(f"moment {seed}")
    if rng.random() >= MOMENT or topology.replication_factor < 3:
        return []
    name = rng.choice(list(MOMENTS))
    return moment(name, rng, topology, seconds(rng, 0.5, LAST_MOMENT_S))


def _draw_windows(seed: int, topology: Topology) -> list[Fault]:
    rng = random.Random(f"windows {seed}")
    faults: list[Fault] = []
    for _ in range(rng.randint(1, WINDOWS_MAX) if rng.random() < WINDOWS else 0):
        faults += _faults(draw_window(rng, topology), seconds(rng, 0.3, LAST_MOMENT_S))
    if rng.random() < MOVED:
        topology = _wide_enough(topology)
        faults += _faults(draw_move(rng, topology), seconds(rng, 0.8, LAST_MOMENT_S))
    return faults


def _wide_enough(topology: Topology) -> Topology:
    """A topology with a broker more than the replicas need, if it has none."""
    return dataclasses.replace(topology, brokers=max(BROKERS_TO_MOVE, topology.brokers))


def _with_groups(seed: int, topology: Topology) -> Topology:
    """A topology with groups, or without: most seeds have none."""
    rng = random.Random(f"groups {seed}")
    if rng.random() >= GROUPS_DRAWN:
        return topology
    groups = tuple(draw_group(rng) for _ in range(rng.choice((1, 1, 1, 2))))
    partitions = rng.choice(OFFSETS_PARTITIONS)
    return dataclasses.replace(topology, offsets_partitions=partitions, groups=groups)


def _with_classic_group(seed: int, topology: Topology) -> Topology:
    """A topology whose first group is a classic one, if clients speak Kafka's protocol."""
    if not topology.work.kafka:
        return topology
    rng = random.Random(f"classic {seed}")
    first, *others = topology.groups or (draw_group(rng),)
    groups = (dataclasses.replace(first, protocol=CLASSIC), *others)
    partitions = topology.offsets_partitions or rng.choice(OFFSETS_PARTITIONS)
    return dataclasses.replace(topology, offsets_partitions=partitions, groups=groups)


def _with_crowd(seed: int, topology: Topology) -> Topology:
    rng = random.Random(f"crowd {seed}")
    crowd = rng.randint(*CROWD) if rng.random() < CROWDED else 0
    return dataclasses.replace(topology, crowd=crowd)


def _draw_group_faults(seed: int, topology: Topology) -> list[Fault]:
    rng = random.Random(f"group faults {seed}")
    if not topology.groups:
        return []
    faults = []
    for _ in range(rng.randint(*GROUP_FAULTS)):
        kind, arguments = draw_group_fault(rng, topology)
        after = rng.choice((*EVENTS, REBALANCE, REBALANCE)) if rng.random() < 0.5 else None
        delay_s = 0.0 if after is None else seconds(rng, 0.0, 0.05)
        faults.append(Fault(seconds(rng, 0.5, LAST_FAULT_S), kind, arguments, after, delay_s))
    if rng.random() < GROUP_MOMENT:
        faults += _faults(draw_group_moment(rng, topology), seconds(rng, 0.5, LAST_MOMENT_S))
    return faults


def _with_transactions(seed: int, topology: Topology) -> Topology:
    """A topology with transactions, or without: most seeds have none. Brokers remember producers
    for longer than any run, and sequences begin at 0: each transaction has an epoch of its own.
    """
    rng = random.Random(f"transactions {seed}")
    if rng.random() >= TRANSACTIONS_DRAWN:
        return topology
    return with_transactions(rng, topology)


def with_transactions(rng: random.Random, topology: Topology) -> Topology:
    """The topology with drawn transactions."""
    drawn = draw_transactions(rng)
    if not topology.work.kafka:
        tellers = tuple(OURS if kind == KAFKA else kind for kind in drawn.tellers)
        drawn = dataclasses.replace(drawn, tellers=tellers)
    work = dataclasses.replace(topology.work, expiry_ms=0, first_sequence=0)
    partitions = topology.offsets_partitions or rng.choice(OFFSETS_PARTITIONS)
    return dataclasses.replace(
        topology, offsets_partitions=partitions, work=work, transactions=drawn
    )


def draw_transaction_faults(seed: int, topology: Topology) -> list[Fault]:
    rng = random.Random(f"transaction faults {seed}")
    if topology.transactions is None:
        return []
    faults = []
    for _ in range(rng.randint(*TRANSACTION_FAULTS)):
        kind, arguments = draw_transaction_fault(rng, topology)
        after = rng.choice((*EVENTS, DECISION, DECISION)) if rng.random() < 0.5 else None
        delay_s = 0.0 if after is None else seconds(rng, 0.0, 0.05)
        faults.append(Fault(seconds(rng, 0.5, LAST_FAULT_S), kind, arguments, after, delay_s))
    if rng.random() < TRANSACTION_MOMENT:
        steps = draw_transaction_moment(rng, topology)
        faults += _faults(steps, seconds(rng, 0.8, LAST_MOMENT_S))
    return faults


def draw_plan(seed: int, *, commit: str = "", groups: bool = True) -> Plan:
    """The plan of a seed. Without `groups` it is as if the seed drew none."""
    rng = random.Random(f"plan {seed}")
    topology = Topology(
        brokers=rng.choice((3, 3, 3, 4)),
        partitions=rng.choice((1, 2)),
        flush_policy=rng.choice(("replicated", "always")),
        segment_bytes=rng.choice((400, 1500, 4000, 1 << 20)),
        fetch_bytes=rng.choice((1, 1 << 20, 1 << 20, 1 << 20)),
        balance_s=random.Random(f"balance {seed}").choice(BALANCE_S),
        sends_per_s=random.Random(f"pace {seed}").choice(SENDS_PER_S),
        racks=random.Random(f"racks {seed}").choice(RACKS),
    )
    if groups:
        topology = _with_groups(seed, topology)
    topology = _with_crowd(seed, dataclasses.replace(topology, work=draw_work(seed)))
    if groups:
        topology = _with_transactions(seed, _with_classic_group(seed, topology))
    kinds = rng.sample(list(SINGLE_KINDS), rng.choice(KINDS_DRAWN))
    if not MOVES.keys().isdisjoint(kinds):
        topology = _wide_enough(topology)
    faults: list[Fault] = []
    for _ in range(rng.randint(2, FAULTS_MAX)):
        kind = rng.choice(kinds)
        arguments = KINDS[kind](rng, topology)
        at_s = seconds(rng, 0.0, LAST_FAULT_S)
        if faults and rng.random() < TOGETHER:
            at_s = min(LAST_FAULT_S, round(faults[-1].at_s + rng.uniform(0.0, 0.5), 3))
            if "node" in arguments and faults[-1].arguments.get("node") in topology.servers:
                arguments["node"] = faults[-1].arguments["node"]
        after = rng.choice(EVENTS) if rng.random() < 0.35 else None
        delay_s = 0.0 if after is None else seconds(rng, 0.0, 0.05)
        faults.append(Fault(at_s, kind, arguments, after, delay_s))
    faults += _draw_moment(seed, topology)
    faults += _draw_group_faults(seed, topology)
    faults += draw_transaction_faults(seed, topology)
    faults += _draw_windows(seed, topology)
    faults.sort(key=lambda fault: fault.at_s)
    topology = _fitted(topology, faults)
    plan = Plan(seed, topology, tuple(faults), commit=commit)
    return plan if any(fault.kind in RESTORES for fault in faults) else _without_one(plan)


def _fitted(topology: Topology, faults: list[Fault]) -> Topology:
    """The topology with everything that these faults need of a cluster."""
    if any(fault.kind in (*FEW, *MOVES) for fault in faults):
        topology = _wide_enough(topology)
    topology = scrubbed(topology, faults)
    if any(fault.kind in RETENTION for fault in faults):
        topology = dataclasses.replace(topology, retention_check_ms=RETENTION_CHECK_MS)
    if any(fault.kind in COMPACTION for fault in faults):
        topology = dataclasses.replace(topology, cleaner_ms=CLEANER_MS)
    if any(
        fault.kind == RESEND for fault in faults
    ):  # P-41 holds while brokers remember the producer
        work = dataclasses.replace(topology.work, expiry_ms=0)
        topology = dataclasses.replace(topology, work=work)
    return topology


def scrubbed(topology: Topology, faults: Iterable[Fault]) -> Topology:
    """The topology with a scrub, if faults change bytes. Without a scrub, bytes that no client
    reads would stay damaged, and no client could read what a leader serves of them.
    """
    if any(fault.kind in CHANGE_BYTES for fault in faults):
        return dataclasses.replace(topology, scrub_ms=SCRUB_MS)
    return topology


def _without_one(plan: Plan) -> Plan:
    """The plan with a broker absent at first when the others are healed, in half of the seeds. The
    absence takes some of the chaos's time, so moments that need that time have none.
    """
    rng = random.Random(f"core {plan.seed}")
    if rng.random() < CORE and all(f.at_s < CHAOS_BEFORE_CORE_S for f in plan.faults):
        away = rng.choice(plan.topology.broker_names)
        unseen = rng.random() < UNSEEN
        return dataclasses.replace(plan, away=away, unseen=unseen, chaos_s=CHAOS_BEFORE_CORE_S)
    return plan

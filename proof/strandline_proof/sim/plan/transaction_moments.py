"""Moments of transactions: short sequences of faults aimed at a decision and its markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import seconds
from strandline_proof.sim.topology.transactions import COPIES, DECIDER, LEDGER, Transacting

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from strandline_proof.sim.plan.moments import Step
    from strandline_proof.sim.topology.topology import Topology

DECISION: Final = "decision"
"""The event of a plan with transactions: a coordinator appends a record."""


def _at(
    at_s: float, kind: str, after: str | None = None, delay_s: float = 0.0, **what: Any
) -> Step:
    return round(at_s, 3), kind, what, after, round(delay_s, 3)


def _some(rng: random.Random, topology: Topology) -> tuple[Transacting, str, str]:
    """The transactions, one of their producers, and the leader that may decide for it."""
    transactions = topology.transactions or Transacting()
    decider = f"{DECIDER}-{rng.randrange(transactions.state_partitions)}"
    names = (*transactions.teller_names, *transactions.copier_names)
    return transactions, rng.choice(names), decider


def _decider_dies(rng: random.Random, topology: Topology) -> list[Step]:
    """Coordinators die within milliseconds of a decision, one after the other."""
    _, _, decider = _some(rng, topology)
    return [
        _at(0.6 * n, "kill", DECISION, seconds(rng, 0.0, 0.02), node=decider, restart_s=1.0)
        for n in range(3)
    ]


def _decider_deposed(rng: random.Random, topology: Topology) -> list[Step]:
    """A coordinator is cut off, or stands still, after a decision, and another one goes on."""
    _, _, decider = _some(rng, topology)
    for_s = rng.choice((1.5, 2.5))
    if rng.random() < 0.5:
        how: dict[str, Any] = {"for_s": for_s, "hold": True}
        return [_at(0.0, "isolate", DECISION, seconds(rng, 0.0, 0.01), node=decider, **how)]
    return [_at(0.0, "pause", DECISION, seconds(rng, 0.0, 0.01), node=decider, for_s=for_s)]


def _late_records(rng: random.Random, topology: Topology) -> list[Step]:
    """Records of a transaction arrive when it is over: its producer is cut off, then dead."""
    transactions, client, _ = _some(rng, topology)
    leader = f"{rng.choice((LEDGER, COPIES))}-{rng.randrange(transactions.partitions)}"
    cut: dict[str, Any] = {"a": client, "b": leader, "hold": True, "one_way": False}
    return [
        _at(0.0, "teller-cut", DECISION, seconds(rng, 0.0, 0.01), for_s=2.0, **cut),
        _at(rng.uniform(0.1, 1.0), "teller-crash", node=client, restart_s=0.1),
    ]


def _leader_dies(rng: random.Random, topology: Topology) -> list[Step]:
    """The leader that is to write a marker dies, and its coordinator moves meanwhile."""
    transactions, _, decider = _some(rng, topology)
    leader = f"{rng.choice((LEDGER, COPIES))}-{rng.randrange(transactions.partitions)}"
    index, to = int(decider.rpartition("-")[2]), rng.randint(1, topology.brokers)
    return [
        _at(0.0, "kill", DECISION, seconds(rng, 0.0, 0.02), node=leader, restart_s=1.5),
        _at(rng.uniform(0.0, 0.8), "decider-move", state_partition=index, to=to),
    ]


TRANSACTION_MOMENTS: Final[dict[str, Callable[[random.Random, Topology], list[Step]]]] = {
    "decider-dies": _decider_dies,
    "decider-deposed": _decider_deposed,
    "late-records": _late_records,
    "marker's-leader-dies": _leader_dies,
}


def draw_transaction_moment(rng: random.Random, topology: Topology) -> list[Step]:
    return TRANSACTION_MOMENTS[rng.choice(list(TRANSACTION_MOMENTS))](rng, topology)

"""Faults of transactions: of their producers, and of the leaders that decide and keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds import disks, network, processes
from strandline_proof.sim.kinds.draw import seconds
from strandline_proof.sim.topology.transactions import (
    COPIES,
    DECIDER,
    KEEPER,
    LEDGER,
    Transacting,
)

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

PAUSES_S: Final = (0.3, 1.0, 2.0, 3.0)
"""Pauses below the timeout of a transaction, and above."""


def _transactions(topology: Topology) -> Transacting:
    return topology.transactions or Transacting()


def _client(rng: random.Random, topology: Topology) -> str:
    transactions = _transactions(topology)
    return rng.choice((*transactions.teller_names, *transactions.copier_names))


def _decider(rng: random.Random, topology: Topology) -> str:
    return f"{DECIDER}-{rng.randrange(_transactions(topology).state_partitions)}"


def role(rng: random.Random, topology: Topology) -> str:
    """A leader that has part in transactions: more often one that decides."""
    if rng.random() < 0.5:
        return _decider(rng, topology)
    kind = rng.choice((LEDGER, LEDGER, COPIES, KEEPER))
    if kind == KEEPER:
        return f"{KEEPER}-0"
    return f"{kind}-{rng.randrange(_transactions(topology).partitions)}"


def _crash(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": _client(rng, topology), "restart_s": seconds(rng, 0.05, 3.0)}


def _pause(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": _client(rng, topology), "for_s": rng.choice(PAUSES_S)}


def _cut(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "a": _client(rng, topology),
        "b": role(rng, topology),
        "for_s": seconds(rng, 0.2, 3.0),
        "hold": rng.random() < 0.6,
        "one_way": rng.random() < 0.3,
    }


def _move(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "state_partition": rng.randrange(_transactions(topology).state_partitions),
        "to": rng.randint(1, topology.brokers),
    }


KINDS: Final[dict[str, Draw]] = {
    "teller-crash": _crash,
    "teller-pause": _pause,
    "teller-cut": _cut,
    "decider-move": _move,
}
_AT_LEADERS: Final[dict[str, Draw]] = {
    **{kind: processes.KINDS[kind] for kind in ("kill", "stop", "pause", "stall", "crash-loop")},
    "isolate": network.KINDS["isolate"],
    **{kind: disks.KINDS[kind] for kind in ("slow-disk", "stalling-disk", "disk-full")},
    **{kind: disks.KINDS[kind] for kind in ("fsync-error", "write-error")},
}
"""Kinds that can strike any node, aimed at a leader that has part in transactions."""


def draw_transaction_fault(rng: random.Random, topology: Topology) -> tuple[str, dict[str, Any]]:
    """A kind, and its arguments."""
    if rng.random() < 0.5:
        kind = rng.choice(list(KINDS))
        return kind, KINDS[kind](rng, topology)
    kind = rng.choice(list(_AT_LEADERS))
    return kind, _AT_LEADERS[kind](rng, topology) | {"node": role(rng, topology)}

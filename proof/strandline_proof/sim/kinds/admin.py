"""Commands of administrators under load.

They change a topic of their own, which nothing else reads, and the configuration of the main topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import seconds
from strandline_proof.sim.topology.topology import ADDED_MAX

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology


def _recreate(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "pause_s": rng.choice((0.0, 0.0, 0.05, 1.0)),
        "partitions": rng.choice((1, 1, 3)),
    }


def _min_insync(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "value": rng.randint(1, topology.replication_factor),
        "for_s": seconds(rng, 0.3, 3.0),
    }


def _elect(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {}


def _move(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "partition": rng.randrange(topology.partitions),
        "to": rng.randint(1, topology.brokers),
    }


def _add(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"count": rng.randint(1, ADDED_MAX)}


def _delete(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "partition": rng.randrange(topology.partitions),
        "back": rng.choice((0, 0, 1, 3, rng.randint(1, 40))),
    }


def _retain(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"bytes": rng.choice((200, 1000, 4000)), "for_s": seconds(rng, 0.5, 4.0)}


def _unclean(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"for_s": seconds(rng, 1.0, 6.0)}


def _compact(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "keys": rng.choice((1, 3, 6, 60)),
        "delete_retention_ms": rng.choice((0, 0, 400, 60_000)),
        "lag_ms": rng.choice((0, 0, 0, 700)),
        "off_s": rng.choice((0.0, 0.0, 0.0, 1.0)),
    }


KINDS: Final[dict[str, Draw]] = {
    "topic-recreate": _recreate,
    "min-insync": _min_insync,
    "elect-preferred": _elect,
    "move-leader": _move,
    "add-partitions": _add,
    "delete-records": _delete,
    "retention": _retain,
    "compaction": _compact,
    "unclean": _unclean,
}
COMMANDS: Final = frozenset({"elect-preferred", "move-leader", "coordinator-move", "decider-move"})
"""Kinds that move live leaders."""
ADDING: Final = frozenset({"add-partitions"})
"""Kinds that clients learn of only from refreshed metadata."""
RETENTION: Final = frozenset({"retention"})
"""Kinds that need brokers which check for segments to delete by retention."""
COMPACTION: Final = frozenset({"compaction"})
"""Kinds that need brokers whose cleaner is never idle for long."""

"""Reassignments of the main topic: to other brokers, to more or fewer replicas, and cancelled or
replaced ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

THEN_S: Final = (0.0, 0.005, 0.02, 0.1, 0.4)
"""Delay before the reassignment is cancelled or replaced. An undisturbed one takes a few tenths of
a second.
"""
FEW_S: Final = (0.1, 0.4, 1.0, 2.5)
"""Time for which a partition has fewer replicas than its minimum requires."""
REPLICAS: Final = (2, 3, 3, 3, 4)
BROKERS: Final = 4
"""The least number of brokers with which a reassignment really moves a replica."""


def _target(rng: random.Random, topology: Topology) -> list[int]:
    count = max(topology.min_insync_replicas, min(topology.brokers, rng.choice(REPLICAS)))
    return rng.sample(range(1, topology.brokers + 1), count)


def _reassign(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"partition": rng.randrange(topology.partitions), "target": _target(rng, topology)}


def _cancel(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_reassign(rng, topology), "then_s": rng.choice(THEN_S)}


def _override(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_cancel(rng, topology), "other": _target(rng, topology)}


def _few(rng: random.Random, topology: Topology) -> dict[str, Any]:
    count = rng.randint(1, max(1, topology.min_insync_replicas - 1))
    return {
        "partition": rng.randrange(topology.partitions),
        "target": rng.sample(range(1, topology.brokers + 1), count),
        "then_s": rng.choice(FEW_S),
        "other": _target(rng, topology),
    }


KINDS: Final[dict[str, Draw]] = {
    "reassign": _reassign,
    "reassign-cancel": _cancel,
    "reassign-override": _override,
}
FEW: Final[dict[str, Draw]] = {"reassign-few": _few}

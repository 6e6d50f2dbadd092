"""Functions that the kinds of faults share to draw their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.topology.topology import CONTROLLER

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.topology.topology import Topology

Draw = Callable[["random.Random", "Topology"], dict[str, Any]]
"""A function that returns the arguments of one fault of a kind; their names never depend
on chance.
"""


def broker(rng: random.Random, topology: Topology) -> str:
    """A broker by name, or the role of a partition's leader at that moment."""
    if rng.random() < 0.4:
        return f"leader-{rng.randrange(topology.partitions)}"
    return rng.choice(topology.broker_names)


def server(rng: random.Random, topology: Topology) -> str:
    return CONTROLLER if rng.random() < 0.2 else broker(rng, topology)


def seconds(rng: random.Random, low: float, high: float) -> float:
    return round(rng.uniform(low, high), 3)

"""Faults of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import broker, seconds, server
from strandline_proof.sim.topology.topology import CONTROLLER, READER, WRITER

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

SHAPES: Final = ("halves", "ring", "bridge", "control", "replicas", "clients")
"""The shapes of a partition of the network.

- `halves`: the brokers in two groups
- `ring`: all links but a ring, in which each broker sees another majority
- `bridge`: two halves and one broker that sees both
- `control`: every broker from the controller
- `replicas`: the brokers from each other
- `clients`: the clients from all servers
"""


def _ends(rng: random.Random, topology: Topology) -> dict[str, Any]:
    a = broker(rng, topology)
    others = [n for n in topology.nodes if n != a]
    return {"a": a, "b": rng.choice([CONTROLLER, *others])}


def _link(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_ends(rng, topology), "for_s": seconds(rng, 0.2, 3.0)}


def _partition(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_link(rng, topology), "hold": rng.random() < 0.5, "one_way": rng.random() < 0.3}


def _isolate(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "for_s": seconds(rng, 0.2, 3.0),
        "hold": rng.random() < 0.5,
    }


def _split(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "shape": rng.choice(SHAPES),
        "for_s": seconds(rng, 0.2, 3.0),
        "hold": rng.random() < 0.5,
        "one_way": rng.random() < 0.3,
    }


def _slow_link(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_link(rng, topology), "ms": rng.choice((20, 100, 500))}


def _lossy_link(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_link(rng, topology), "probability": rng.choice((0.05, 0.3))}


def _flapping_link(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        **_ends(rng, topology),
        "times": rng.randint(2, 8),
        "every_s": rng.choice((0.1, 0.4, 1.1)),
        "hold": rng.random() < 0.5,
    }


def _reset(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        **_ends(rng, topology),
        "times": rng.randint(1, 6),
        "every_s": rng.choice((0.003, 0.05, 0.4)),
    }


def _half_open(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {**_ends(rng, topology)}


def _duplicate(rng: random.Random, topology: Topology) -> dict[str, Any]:
    a = broker(rng, topology)
    others = [WRITER, READER, *(n for n in topology.broker_names if n != a)]
    return {
        "a": a,
        "b": CONTROLLER if rng.random() < 0.65 else rng.choice(others),
        "for_s": seconds(rng, 1.0, 6.0),
        "probability": rng.choice((0.3, 0.7)),
        "late_s": rng.choice((0.001, 0.02, 0.1, 0.4)),
    }


KINDS: Final[dict[str, Draw]] = {
    "partition": _partition,
    "isolate": _isolate,
    "split": _split,
    "slow-link": _slow_link,
    "lossy-link": _lossy_link,
    "flapping-link": _flapping_link,
    "reset": _reset,
    "half-open": _half_open,
    "duplicate": _duplicate,
}

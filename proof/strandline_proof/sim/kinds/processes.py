"""Faults of processes and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import broker, seconds, server
from strandline_proof.sim.kinds.places import OFTEN
from strandline_proof.sim.topology.topology import READER, WRITER

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

SURVIVAL: Final = (0.0, 0.5, 0.9)


def _kill(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": server(rng, topology), "restart_s": seconds(rng, 0.05, 3.0)}


def _kill_any(rng: random.Random, topology: Topology) -> dict[str, Any]:
    node = rng.choice((WRITER, READER)) if rng.random() < 0.15 else server(rng, topology)
    return {"node": node, "restart_s": seconds(rng, 0.05, 3.0)}


def _pause(rng: random.Random, topology: Topology) -> dict[str, Any]:
    anybody = [server(rng, topology), server(rng, topology), WRITER, READER]
    return {"node": rng.choice(anybody), "for_s": seconds(rng, 0.1, 3.0)}


STALLS_S: Final = (0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 7.0, 10.0)
"""Durations of a standstill of an event loop; the longest are rare, as they make a run longer."""


def _stall(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": server(rng, topology), "for_s": rng.choice(STALLS_S)}


def _power(rng: random.Random, topology: Topology) -> dict[str, Any]:
    nodes = [server(rng, topology)]
    if rng.random() < 0.3:
        nodes = list(topology.servers if rng.random() < 0.5 else topology.broker_names)
    return {
        "nodes": nodes,
        "restart_s": seconds(rng, 0.2, 3.0),
        "survival": rng.choice(SURVIVAL),
    }


def _crash_point(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "operation": rng.randint(1, 300),
        "nodes": list(topology.broker_names if rng.random() < 0.5 else ()),
        "restart_s": seconds(rng, 0.2, 2.0),
        "survival": rng.choice(SURVIVAL),
    }


def _crash_loop(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "times": rng.randint(2, 5),
        "lives_s": rng.choice((0.02, 0.1, 0.4)),
    }


def _crash_at(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": broker(rng, topology),
        "point": rng.choice(tuple(OFTEN)),
        "count": rng.choice((1, 1, 2, 7)),
        "power": rng.random() < 0.5,
        "restart_s": seconds(rng, 0.1, 2.0),
    }


DISKS: Final = ("copy", "empty")
"""The disk of a machine that is started with a broker's id."""


def _twin(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": broker(rng, topology),
        "disk": rng.choice((*DISKS, DISKS[0])),
        "for_s": seconds(rng, 0.3, 4.0),
        "again": rng.random() < 0.3,
    }


def _second(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": server(rng, topology)}


KINDS: Final[dict[str, Draw]] = {
    "kill": _kill_any,
    "stop": _kill,
    "pause": _pause,
    "stall": _stall,
    "power": _power,
    "crash-point": _crash_point,
    "crash-loop": _crash_loop,
    "crash-at": _crash_at,
    "twin": _twin,
    "second": _second,
}

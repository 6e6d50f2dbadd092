"""Faults of clocks. A jump or a standstill of the wall clock leaves the monotonic one alone; a rate
changes both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import seconds, server

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

FAR_S: Final = 3500.0


def _jump(rng: random.Random, topology: Topology) -> dict[str, Any]:
    # Under an hour together with every freeze: a leader refuses records from further ahead.
    offset_s = rng.choice((-FAR_S, -1.0, -0.005, 0.005, 1.0, FAR_S))
    return {"node": server(rng, topology), "offset_s": offset_s}


def _rate(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "rate": rng.choice((0.8, 0.97, 1.03, 1.2)),
        "for_s": seconds(rng, 0.5, 4.0),
    }


def _strobe(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": server(rng, topology),
        "offset_s": rng.choice((0.2, 60.0)),
        "every_s": rng.choice((0.02, 0.2)),
        "times": rng.randint(4, 20),
    }


def _freeze(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": server(rng, topology), "for_s": seconds(rng, 0.5, 4.0)}


KINDS: Final[dict[str, Draw]] = {
    "clock-jump": _jump,
    "clock-rate": _rate,
    "clock-strobe": _strobe,
    "clock-freeze": _freeze,
}

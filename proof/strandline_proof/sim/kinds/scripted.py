"""Faults that plans name and no seed draws: they mean something only in a scene made for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds.draw import broker, seconds

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology


def _held_replica(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "node": broker(rng, topology),
        "partition": rng.randrange(topology.partitions),
        "for_s": seconds(rng, 1.0, 5.0),
    }


KINDS: Final[dict[str, Draw]] = {"held-replica": _held_replica}

"""Faults of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

LIES: Final = ("noise", "count", "zipped", "delta", "largest", "future")
"""False claims of a batch about its records, under a right CRC."""


def _resend(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "partition": rng.randrange(topology.partitions),
        "back": rng.choice((0, 0, 1, 4, 12)),
        "times": rng.choice((1, 3)),
    }


def _hostile(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"partition": rng.randrange(topology.partitions), "lie": rng.choice(LIES)}


KINDS: Final[dict[str, Draw]] = {"resend": _resend, "hostile-batch": _hostile}

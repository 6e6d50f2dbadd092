"""Faults of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

    from strandline_chaos.sim.kinds.draw import Draw
    from strandline_chaos.sim.topology import Topology


def _resend(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "partition": rng.randrange(topology.partitions),
        "back": rng.choice((0, 0, 1, 4, 12)),
        "times": rng.choice((1, 3)),
    }


KINDS: Final[dict[str, Draw]] = {"resend": _resend}

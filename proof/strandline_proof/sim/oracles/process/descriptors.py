"""Descriptors that a server has open when everything is well, and owns no more: I-182.

A file that is deleted, renamed or replaced is nobody's any more. Of a file that is there a server
keeps open, by design: each active segment once, sealed segments that were read last (256 at most),
index files until a flush has made them durable, one lock for each directory, and the file to which
it appends what it remembers. Two descriptors of one file are open while somebody reads it with one
of his own, never for long. Files close when nothing refers to them, so garbage is collected first.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.disk.fs import Held

KEPT: Final = (".log", ".index", ".timeindex", ".lock", "/strandline-state")
"""What may stay open. All other files are read or written at once, and closed."""


def left_open(world: World) -> str:
    """What servers have open and nobody owns; empty if nothing."""
    gc.collect()
    servers = [node for node in (world.controller, *world.brokers) if node.running]
    return "; ".join(f"{node.name} has open: {what}" for node in servers if (what := _open(node)))


def _open(node: Node) -> str:
    found = leaked(node.held_files())
    return ", ".join(f"{path} ({why})" for path, why in sorted(found.items()))


def leaked(held: list[Held]) -> dict[str, str]:
    """Paths of what is open and should not be, and why."""
    found = {h.path: "is gone" for h in held if not h.is_there}
    there = Counter(h.path for h in held if h.is_there)
    for path, count in there.items():
        if not path.endswith(KEPT):
            found[path] = "is not kept open"
        elif count > 1:
            found[path] = f"is open {count} times"
    return found

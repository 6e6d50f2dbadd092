"""I-182: descriptors that a server has open without need, when everything is well.

A deleted, renamed or replaced file needs no descriptor. By design a server keeps open:

- each active segment once
- the sealed segments that were read last (256 at most)
- index files until a flush has made them durable
- one lock for each directory
- the file to which it appends its state

A file has two descriptors only while a reader has one of its own, never for long. Files close when
nothing refers to them, so garbage is collected first.
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
"""Files that may stay open. All other files are read or written at once, and closed."""


def left_open(world: World) -> str:
    """Descriptors that servers have open without need; empty if none."""
    gc.collect()
    servers = [node for node in (world.controller, *world.brokers) if node.running]
    return "; ".join(f"{node.name} has open: {what}" for node in servers if (what := _open(node)))


def _open(node: Node) -> str:
    found = leaked(node.held_files())
    return ", ".join(f"{path} ({why})" for path, why in sorted(found.items()))


def leaked(held: list[Held]) -> dict[str, str]:
    """Paths that are open and should not be, and the reasons."""
    found = {h.path: "is gone" for h in held if not h.is_there}
    there = Counter(h.path for h in held if h.is_there)
    for path, count in there.items():
        if not path.endswith(KEPT):
            found[path] = "is not kept open"
        elif count > 1:
            found[path] = f"is open {count} times"
    return found

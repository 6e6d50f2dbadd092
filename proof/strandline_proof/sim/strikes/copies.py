"""Sound copies of a partition.

A bit flips in a copy only if another replica, which stays, has the same bytes on its platter. And a
partition is not reassigned to a single replica whose disk has changed it: if no other replica has a
record, it cannot be repaired (I-88).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.offline.roots import expected_of
from strandline_proof.sim.oracles.process.disks import Reader
from strandline_proof.sim.topology.topology import broker_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.replica.log_view import Identity, LogView
    from strandline_proof.sim.strikes.scene import Scene


def another_is_sound(scene: Scene, struck: Node, key: Key) -> bool:
    """True if no replica of this partition has damage yet, and the other members of the ISR are
    well.
    """
    ghost = scene.oracles.replicas.ghost(key)
    decided = scene.oracles.control.partitions[key]
    others = [m for m in decided.isr if m != broker_id(struck.name)]
    return (
        not ghost.damaged
        and ghost.permitted is None
        and len(others) >= max(1, len(decided.replicas) - 1)
        and all(scene.world.members[m].running for m in others)
        and not scene.doubles
    )


def flushed_elsewhere(scene: Scene, struck: Node, key: Key) -> set[Identity]:
    """The entries that another member of the ISR has flushed, if it stays through all
    reassignments.
    """
    decided, replicas = scene.oracles.control.partitions[key], scene.oracles.replicas
    stay = {*decided.isr} & {*decided.target} & {*(decided.original or decided.replicas)}
    for index, target in scene.moves:
        if index == key[1]:
            stay &= {*target}
    found: set[Identity] = set()
    for member in stay - {broker_id(struck.name)}:
        node = scene.world.members[member]
        view = replicas.find_view(node.name, key)
        if view is not None:
            found |= {view.entries[n].identity for n in flushed(node, view)}
    return found


def flushed(node: Node, view: LogView) -> list[int]:
    """The numbers of the entries below the recovery point on the disk."""
    fs = Reader(node.disk)
    if not fs.isdir(view.path):  # the directory of a replica that has just been removed
        return []
    below = expected_of(fs, view.path).recovery_point or 0
    return [n for n, entry in enumerate(view.entries) if entry.end <= below]


def is_damaged_alone(scene: Scene, index: int, target: Collection[int]) -> bool:
    """True if no replica in `target` has a sound copy of that partition."""
    ghost = scene.oracles.ghost_of(index)
    damaged = set() if ghost is None else {broker_id(name) for name in ghost.damaged}
    return {*target} <= damaged

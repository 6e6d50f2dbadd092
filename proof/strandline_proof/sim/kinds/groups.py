"""Faults of groups: of members, of coordinators, and moves of coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds import disks, network, processes
from strandline_proof.sim.kinds.draw import seconds
from strandline_proof.sim.topology.groups import member_name
from strandline_proof.sim.topology.topology import COORDINATOR

if TYPE_CHECKING:
    import random

    from strandline_proof.sim.kinds.draw import Draw
    from strandline_proof.sim.topology.topology import Topology

PAUSES_S: Final = (0.3, 1.0, 2.0, 3.0)
"""Pauses shorter than a session, about as long, and longer."""


def _group(rng: random.Random, topology: Topology) -> int:
    return rng.randrange(len(topology.groups) or 1)


def _member(rng: random.Random, topology: Topology) -> str:
    return rng.choice(topology.member_names or (member_name(0, 0),))


def _crash(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": _member(rng, topology), "restart_s": seconds(rng, 0.05, 3.0)}


def _pause(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"node": _member(rng, topology), "for_s": rng.choice(PAUSES_S)}


def _cut(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "a": _member(rng, topology),
        "b": f"{COORDINATOR}-{_group(rng, topology)}",
        "for_s": seconds(rng, 0.2, 3.0),
        "hold": rng.random() < 0.5,
        "one_way": rng.random() < 0.3,
    }


def _empty(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {
        "group": _group(rng, topology),
        "for_s": seconds(rng, 0.3, 2.5),
        "crash": rng.random() < 0.3,
    }


def _move(rng: random.Random, topology: Topology) -> dict[str, Any]:
    return {"group": _group(rng, topology), "to": rng.randint(1, topology.brokers)}


def _reassign(rng: random.Random, topology: Topology) -> dict[str, Any]:
    count = min(topology.brokers, rng.choice((2, 3, 3)))
    return {
        "group": _group(rng, topology),
        "target": rng.sample(range(1, topology.brokers + 1), count),
    }


KINDS: Final[dict[str, Draw]] = {
    "member-crash": _crash,
    "member-leave": _crash,
    "member-pause": _pause,
    "member-busy": _pause,
    "member-cut": _cut,
    "group-empty": _empty,
    "coordinator-move": _move,
    "coordinator-reassign": _reassign,
    "offsets-flip": disks.offsets_flip,
}
_AT_COORDINATORS: Final[dict[str, Draw]] = {
    **{kind: processes.KINDS[kind] for kind in ("kill", "stop", "pause", "stall", "crash-loop")},
    "isolate": network.KINDS["isolate"],
    **{kind: disks.KINDS[kind] for kind in ("slow-disk", "stalling-disk", "disk-full")},
    **{kind: disks.KINDS[kind] for kind in ("fsync-error", "write-error")},
}
"""Kinds that can strike any node, aimed at the coordinator of a group at that moment."""


def draw_group_fault(rng: random.Random, topology: Topology) -> tuple[str, dict[str, Any]]:
    """A kind, and its arguments."""
    if rng.random() < 0.6:
        kind = rng.choice(list(KINDS))
        return kind, KINDS[kind](rng, topology)
    kind = rng.choice(list(_AT_COORDINATORS))
    arguments = _AT_COORDINATORS[kind](rng, topology)
    return kind, arguments | {"node": f"{COORDINATOR}-{_group(rng, topology)}"}

"""Windows: a place at which an operation stands still, a process ends or an answer is lost, with
the events that lead there and the faults that strike while it is open.

A step is as in `moments.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kinds import KINDS
from strandline_proof.sim.kinds.draw import seconds
from strandline_proof.sim.kinds.places import (
    CHECKPOINTS,
    CUTS,
    DELETIONS,
    OFTEN,
    ROLLS,
    STARTS,
    STORE,
)
from strandline_proof.sim.kinds.windows import WINDOW, crash_at
from strandline_proof.sim.topology.topology import CONTROLLER

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from strandline_proof.sim.plan.moments import Step
    from strandline_proof.sim.topology.topology import Topology

_DELETING: Final = {
    **DELETIONS,
    **{name: place for name, place in CHECKPOINTS.items() if name.startswith("log-starts")},
}
_CLEANING: Final = {
    **{name: OFTEN[name] for name in ("cleaned", "swap", "swap-flush")},
    **{name: place for name, place in CHECKPOINTS.items() if name.startswith("cleaned")},
}
FAMILIES: Final = (
    tuple(_DELETING),
    tuple(CUTS),
    tuple(STARTS),
    tuple(name for name in CHECKPOINTS if name not in _DELETING and name not in _CLEANING),
    (*ROLLS, *(name for name in OFTEN if name not in _CLEANING)),
    tuple(_CLEANING),
    tuple(STORE),
)
"""Places by the events that lead to them; each family is as likely as the others."""
ANSWERS: Final = 0.3
"""Share of the windows that are lost answers."""
CRASHES: Final = 0.25
"""Share of the places at which a process ends."""
ADDED_DIES: Final = 0.7
STRIKES: Final = 0.75
"""Share of the others that are struck while they are open."""


def draw_window(rng: random.Random, topology: Topology) -> list[Step]:
    """One window, from its own second 0 on."""
    if rng.random() < ANSWERS:
        what = KINDS["lost-answer"](rng, topology)
        return [_step(0.0, "lost-answer", what), *_struck(rng, topology, what["node"])]
    point = rng.choice(rng.choice(FAMILIES))
    if rng.random() < CRASHES:
        what = crash_at(rng, topology, point)
        steps = [_step(0.0, "crash-at", what)]
    else:
        what = _delayed(rng, topology, point)
        steps = [_step(0.0, "delay-at", what), *_struck(rng, topology, what["node"])]
    return [*steps, *_lead_to(rng, topology, point, what["node"])]


def draw_move(rng: random.Random, topology: Topology) -> list[Step]:
    """A reassignment to fewer brokers than the minimum, or to others. Added brokers die while they
    copy, some with all their unflushed records (ADR 8).
    """
    kind = rng.choice(("reassign-few", "reassign-few", "reassign"))
    what = KINDS[kind](rng, topology)
    steps = [_step(0.0, kind, what)]
    for broker in what["target"]:
        if rng.random() < ADDED_DIES:
            lost = {
                "nodes": [f"broker-{broker}"],
                "restart_s": seconds(rng, 0.1, 2.5),
                "survival": rng.choice((0.0, 0.5)),
            }
            at_s = rng.choice((rng.uniform(0.01, 0.1), rng.uniform(0.05, 1.5)))
            steps.append(_step(at_s, "power", lost))
    return steps


def _step(
    at_s: float, kind: str, what: dict[str, Any], after: str | None = None, delay_s: float = 0.0
) -> Step:
    return round(at_s, 3), kind, what, after, round(delay_s, 3)


def _delayed(rng: random.Random, topology: Topology, point: str) -> dict[str, Any]:
    what = KINDS["delay-at"](rng, topology)
    if (what["point"] in STORE) != (point in STORE):
        what["node"] = (
            CONTROLLER if point in STORE else f"leader-{rng.randrange(topology.partitions)}"
        )
    return {**what, "point": point}


def _struck(rng: random.Random, topology: Topology, node: str) -> list[Step]:
    """Faults while the window is open: a node ends, is cut off or comes back."""
    if rng.random() >= STRIKES:
        return []
    struck = rng.choice((node, node, f"leader-{rng.randrange(topology.partitions)}", CONTROLLER))
    delay_s = rng.choice((0.0, 0.002, rng.uniform(0.0, 0.1), rng.uniform(0.0, 1.0)))
    restart_s = seconds(rng, 0.1, 1.5)
    kinds: dict[str, dict[str, Any]] = {
        "kill": {"node": struck, "restart_s": restart_s},
        "power": {
            "nodes": [struck],
            "restart_s": restart_s,
            "survival": rng.choice((0.0, 0.5, 0.9)),
        },
        "isolate": {"node": struck, "for_s": seconds(rng, 0.5, 2.5), "hold": rng.random() < 0.5},
        "stop": {"node": struck, "restart_s": restart_s},
        "move-leader": {
            "partition": rng.randrange(topology.partitions),
            "to": rng.randint(1, topology.brokers),
        },
    }
    kind = rng.choice(("kill", "kill", "power", "power", "isolate", "stop", "move-leader"))
    return [_step(0.0, kind, kinds[kind], WINDOW, delay_s)]


def _lead_to(rng: random.Random, topology: Topology, point: str, node: str) -> list[Step]:
    """Events that bring the process to that place within a second or two."""
    for family, lead in _LEADS:
        if point in family:
            return lead(rng, topology, node)
    return []


def _deletes(rng: random.Random, topology: Topology, node: str) -> list[Step]:
    partition = rng.randrange(topology.partitions)
    if rng.random() < 0.5:
        retained = {"bytes": rng.choice((200, 1000)), "for_s": seconds(rng, 1.0, 3.0)}
        return [_step(0.0, "retention", retained)]
    back = rng.choice((0, 1, 5))
    return [
        _step(at_s, "delete-records", {"partition": partition, "back": back})
        for at_s in (0.05, rng.uniform(0.5, 1.5))
    ]


def _cuts(rng: random.Random, topology: Topology, node: str) -> list[Step]:
    """A leader that is cut off appends on, and must truncate that."""
    what = {"node": node, "for_s": seconds(rng, 1.2, 2.0), "hold": False}
    return [_step(0.02, "isolate", what)]


def _starts(rng: random.Random, topology: Topology, node: str) -> list[Step]:
    restart_s = seconds(rng, 0.1, 0.6)
    if rng.random() < 0.5:
        return [_step(0.02, "kill", {"node": node, "restart_s": restart_s})]
    lost = {"nodes": [node], "restart_s": restart_s, "survival": rng.choice((0.5, 0.9))}
    return [_step(0.02, "power", lost)]


def _cleans(rng: random.Random, topology: Topology, node: str) -> list[Step]:
    order = {
        "keys": rng.choice((3, 6, 60)),
        "delete_retention_ms": rng.choice((0, 400)),
        "lag_ms": 0,
        "off_s": 0.0,
    }
    return [_step(0.0, "compaction", order)]


_LEADS: Final[
    tuple[
        tuple[dict[str, Any], Callable[[random.Random, Topology, str], list[Step]]],
        ...,
    ]
] = (
    (_DELETING, _deletes),
    (CUTS, _cuts),
    (STARTS, _starts),
    (_CLEANING, _cleans),
)

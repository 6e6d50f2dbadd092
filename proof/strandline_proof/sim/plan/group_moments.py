"""Moments of groups: short sequences of faults, each aimed at a window of a rebalance, of a commit,
or of a change of the coordinator.

A step is as in `moments.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.plan.check import REBALANCE
from strandline_proof.sim.topology.groups import member_name
from strandline_proof.sim.topology.topology import CONTROLLER, COORDINATOR

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from strandline_proof.sim.plan.moments import Step
    from strandline_proof.sim.topology.topology import Topology


def _at(
    at_s: float, kind: str, after: str | None = None, delay_s: float = 0.0, **what: Any
) -> Step:
    return round(at_s, 3), kind, what, after, round(delay_s, 3)


def _two(rng: random.Random, topology: Topology, group: int) -> tuple[str, str]:
    """Two members of the group; the same one where it has no other."""
    numbers = [*range(len(topology.groups[group].members))]
    first = rng.choice(numbers)
    other = rng.choice([n for n in numbers if n != first] or numbers)
    return member_name(group, first), member_name(group, other)


def _coordinator_dies_in_a_rebalance(
    rng: random.Random, topology: Topology, group: int
) -> list[Step]:
    """The coordinator dies between the record of a target and its members' changes."""
    node, _ = _two(rng, topology, group)
    dies: dict[str, Any] = {
        "node": f"{COORDINATOR}-{group}",
        "restart_s": round(rng.uniform(0.1, 1.5), 3),
    }
    return [
        _at(0.0, "member-leave", node=node, restart_s=0.05),
        _at(0.0, "kill", REBALANCE, rng.choice((0.0, 0.002, 0.01, 0.05)), **dies),
    ]


def _deposed_coordinator(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """The coordinator is cut off from the other servers, and members still reach it: their commits
    there may never count (P-101).
    """
    cut: dict[str, Any] = {"for_s": round(rng.uniform(1.5, 3.0), 3), "hold": rng.random() < 0.5}
    others = (CONTROLLER, *topology.broker_names)
    return [
        _at(0.0, "partition", a=f"{COORDINATOR}-{group}", b=other, one_way=False, **cut)
        for other in others
    ]


def _zombie(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """A member sleeps for longer than its session, and has another coordinator when it wakes."""
    node, _ = _two(rng, topology, group)
    to = rng.randint(1, topology.brokers)
    return [
        _at(0.0, "member-pause", node=node, for_s=rng.choice((1.8, 2.2, 3.0))),
        _at(rng.uniform(0.2, 2.0), "coordinator-move", group=group, to=to),
    ]


def _revoker_hangs(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """A member joins, and one that must revoke partitions for it does not run."""
    comes, gives = _two(rng, topology, group)
    return [
        _at(0.0, "member-crash", node=comes, restart_s=2.0),
        _at(1.95, "member-pause", node=gives, for_s=rng.choice((0.3, 1.0, 2.2))),
    ]


def _bounce(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """A member is back before its session has ended, in the middle of a failover."""
    node, _ = _two(rng, topology, group)
    dies: dict[str, Any] = {"node": f"{COORDINATOR}-{group}", "restart_s": 1.0}
    return [
        _at(0.0, rng.choice(("member-crash", "member-leave")), node=node, restart_s=0.1),
        _at(rng.uniform(0.0, 1.5), "kill", **dies),
    ]


def _moved_to_and_fro(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """Shards are loaded and unloaded faster than they load (I-111)."""
    slow: dict[str, Any] = {"node": f"{COORDINATOR}-{group}", "for_s": 2.0, "factor": 300}
    moves = [
        _at(0.3 * n, "coordinator-move", group=group, to=1 + n % topology.brokers)
        for n in range(1, 6)
    ]
    return [_at(0.0, "slow-disk", **slow), *moves]


def _handed_over_while_empty(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """The group's log gets another leader while the group has no members."""
    away_s = round(rng.uniform(1.0, 2.5), 3)
    return [
        _at(0.0, "group-empty", group=group, for_s=away_s, crash=rng.random() < 0.5),
        _at(away_s, "coordinator-move", group=group, to=rng.randint(1, topology.brokers)),
    ]


def _commits_in_the_dark(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """The coordinator has too few replicas in sync, then dies: its commits were not acknowledged
    (I-104).
    """
    cuts = [
        _at(
            0.0,
            "slow-link",
            a=f"{COORDINATOR}-{group}",
            b=other,
            for_s=1.5,
            ms=rng.choice((100, 500)),
        )
        for other in topology.broker_names
    ]
    dies: dict[str, Any] = {"node": f"{COORDINATOR}-{group}", "restart_s": 0.5}
    return [*cuts, _at(rng.uniform(0.3, 1.2), "kill", **dies)]


def _no_controller(rng: random.Random, topology: Topology, group: int) -> list[Step]:
    """Members begin while the coordinator has had no answer from the controller for most of a
    session. It must prove that it leads before it tells them where to go on (ADR 16).
    """
    node, other = _two(rng, topology, group)
    away: dict[str, Any] = {"node": CONTROLLER, "restart_s": round(rng.uniform(2.0, 3.0), 3)}
    return [
        _at(0.0, "kill", **away),
        _at(rng.uniform(0.7, 1.0), "member-crash", node=node, restart_s=0.1),
        _at(rng.uniform(0.9, 1.5), "member-leave", node=other, restart_s=0.1),
    ]


GROUP_MOMENTS: Final[dict[str, Callable[[random.Random, Topology, int], list[Step]]]] = {
    "coordinator-dies-in-a-rebalance": _coordinator_dies_in_a_rebalance,
    "deposed-coordinator": _deposed_coordinator,
    "zombie": _zombie,
    "revoker-hangs": _revoker_hangs,
    "bounce": _bounce,
    "moved-to-and-fro": _moved_to_and_fro,
    "handed-over-while-empty": _handed_over_while_empty,
    "commits-in-the-dark": _commits_in_the_dark,
    "no-controller": _no_controller,
}


def draw_group_moment(rng: random.Random, topology: Topology) -> list[Step]:
    name = rng.choice(list(GROUP_MOMENTS))
    return GROUP_MOMENTS[name](rng, topology, rng.randrange(len(topology.groups)))

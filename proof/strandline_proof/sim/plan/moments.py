"""Moments: short sequences of faults, each aimed at a window that single faults hardly ever hit.

A step of a moment is (seconds after its begin, kind, arguments, event to wait for, delay after it).
A name means a role at the time of the step: `leader-0` leads partition 0, `heir-0` would lead it
next, `other-0` is the member after that, and `joiner-0` is the broker that its leader asks to add
to the ISR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.topology.topology import CONTROLLER, READER

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from strandline_proof.sim.topology.topology import Topology

Step = tuple[float, str, dict[str, Any], str | None, float]
ROLES: Final = ("leader", "heir", "other", "joiner")


def _at(
    at_s: float, kind: str, after: str | None = None, delay_s: float = 0.0, **what: Any
) -> Step:
    return round(at_s, 3), kind, what, after, round(delay_s, 3)


def _cut(at_s: float, a: str, b: str, for_s: float, after: str | None = None) -> Step:
    return _at(at_s, "partition", after, a=a, b=b, for_s=round(for_s, 3), hold=False, one_way=False)


def _kill(
    at_s: float, node: str, restart_s: float, after: str | None = None, delay_s: float = 0.0
) -> Step:
    return _at(at_s, "kill", after, delay_s, node=node, restart_s=round(restart_s, 3))


def _leader_dies_at_a_shrink(rng: random.Random, p: int) -> list[Step]:
    """A member that the leader does not hear is removed, and the leader dies before any broker
    learns of it. The next leader has a high watermark below its epoch's start, and a follower that
    lacks records fetches from it (P-10).
    """
    return [
        _cut(0.0, f"leader-{p}", f"other-{p}", 3.2),
        _kill(0.8, f"leader-{p}", rng.uniform(0.5, 1.5), "isr", rng.choice((0.0, 0.001))),
    ]


def _three_leaders(rng: random.Random, p: int) -> list[Step]:
    """The second leader lacks records of the third, and appends records that the third
    lacks (P-2).
    """
    heir_leads_s = rng.uniform(0.08, 0.3)
    return [
        _cut(0.0, f"heir-{p}", f"other-{p}", 2.5),
        _cut(0.0, f"leader-{p}", f"heir-{p}", 1.0),
        _kill(heir_leads_s, f"leader-{p}", 2.0),
        _kill(heir_leads_s + rng.uniform(0.3, 0.8), f"leader-{p}", rng.uniform(0.3, 1.0)),
    ]


def _quick_return(rng: random.Random, p: int) -> list[Step]:
    """A member of the ISR is back before it is missed, without its unflushed records (P-73). The
    new leader epoch meets fetches of the other member that are on their way (P-4).
    """
    gone, stays = rng.choice((("heir", "other"), ("other", "heir")))
    restart_s = round(rng.uniform(0.2, 0.7), 3)
    slow: dict[str, Any] = {
        "a": rng.choice((f"leader-{p}", CONTROLLER)),
        "b": f"{stays}-{p}",
        "for_s": 1.5,
        "ms": rng.choice((20, 100)),
    }
    lost: dict[str, Any] = {
        "nodes": [f"{gone}-{p}"],
        "restart_s": restart_s,
        "survival": rng.choice((0.0, 0.9)),
    }
    return [_at(0.0, "slow-link", **slow), _at(0.02, "power", **lost)]


def _behind_the_leaders_back(rng: random.Random, p: int) -> list[Step]:
    """A member ends and is back while its leader gets nothing from the controller (P-73)."""
    return [
        _cut(0.0, f"leader-{p}", CONTROLLER, rng.uniform(0.7, 1.0)),
        _kill(0.02, rng.choice((f"heir-{p}", f"other-{p}")), 0.05),
    ]


def _demoted_with_a_slow_disk(rng: random.Random, p: int) -> list[Step]:
    """A leader becomes a follower before it has flushed records that the next leader has from it
    (P-75).
    """
    cut = _cut(0.15, f"leader-{p}", CONTROLLER, rng.uniform(0.95, 1.3))
    return [_at(0.0, "slow-disk", node=f"leader-{p}", for_s=2.5, factor=300), cut]


def _asks_slowly(p: int, *, for_s: float = 1.5) -> Step:
    """The leader's request to add a member takes half a second to the controller."""
    return _at(0.1, "slow-link", "join", a=f"leader-{p}", b=CONTROLLER, for_s=for_s, ms=500)


def _joiner_dies(rng: random.Random, p: int) -> list[Step]:
    """The member dies while the request to add it is under way. It may be back, as another
    incarnation, before the controller reads the request (P-7).
    """
    return [
        _kill(0.0, f"other-{p}", 0.1),
        _asks_slowly(p),
        _kill(0.1, f"joiner-{p}", rng.choice((0.05, 0.05, 1.5)), "join", 0.005),
    ]


def _joiner_is_replaced(rng: random.Random, p: int) -> list[Step]:
    """The member's machine loses power while the request to add it is under way, and is back before
    it is missed. It is not fenced, and its next incarnation has registered, without the unflushed
    records of the incarnation in the request (P-7).
    """
    return [
        _kill(0.0, f"other-{p}", 0.1),
        _asks_slowly(p),
        _at(
            0.1,
            "power",
            "join",
            rng.choice((0.002, 0.005, 0.02)),
            nodes=[f"joiner-{p}"],
            restart_s=rng.choice((0.01, 0.05)),
            survival=0.0,
        ),
    ]


def _joiner_stops(rng: random.Random, p: int) -> list[Step]:
    """The member begins to stop while the request to add it is under way. It may stop only when its
    leader has learned of that, which is as far from the controller as the request is (P-7).
    """
    return [
        _kill(0.0, f"other-{p}", 0.1),
        _asks_slowly(p, for_s=2.5),
        _at(
            0.1,
            "stop",
            "join",
            rng.choice((0.0, 0.005, 0.02)),
            node=f"joiner-{p}",
            restart_s=rng.choice((0.05, 1.5)),
        ),
    ]


def _asked_too_late(rng: random.Random, p: int) -> list[Step]:
    """Another member leaves the ISR while the request to add a member is under way (P-78)."""
    return [
        _at(0.0, "pause", node=f"heir-{p}", for_s=1.06),
        _kill(0.02, f"other-{p}", rng.uniform(0.2, 0.6)),
        _asks_slowly(p),
    ]


def _gone_for_good(rng: random.Random, p: int) -> list[Step]:
    """A broker ends while no controller runs to see it, and stays away (P-61)."""
    return [
        _kill(0.0, CONTROLLER, rng.uniform(0.2, 0.6)),
        _kill(0.05, rng.choice((f"leader-{p}", f"heir-{p}")), 6.0),
    ]


def _registered_unheard(rng: random.Random, p: int) -> list[Step]:
    """A broker that starts is registered, but gets no answer (P-64)."""
    back_s = round(rng.uniform(0.2, 0.4), 3)
    cut: dict[str, Any] = {
        "a": CONTROLLER,
        "b": f"other-{p}",
        "for_s": 1.2,
        "hold": False,
        "one_way": True,
    }
    return [
        _kill(0.0, f"other-{p}", back_s),
        _at(back_s + rng.uniform(0.0, 0.004), "partition", **cut),
    ]


def _wiped_member(rng: random.Random, p: int) -> list[Step]:
    """A member of the ISR is back at once, on an empty disk (P-21)."""
    node = rng.choice((f"heir-{p}", f"other-{p}"))
    return [_at(0.0, "wipe", node=node, restart_s=round(rng.uniform(0.1, 0.5), 3))]


def _late_answers(rng: random.Random, p: int) -> list[Step]:
    """A leader's answer arrives when the reader already reads from the next leader, of which it
    learned because another leader went away (P-54).
    """
    slow = _at(0.0, "slow-link", a=f"leader-{p}", b=READER, for_s=3.0, ms=rng.choice((100, 500)))
    cut = _cut(0.2, f"leader-{p}", CONTROLLER, 1.6)
    return [slow, cut, _kill(0.5, f"leader-{p ^ 1}", 0.3, "leader", rng.choice((0.005, 0.05)))]


def _deposed_unheard(rng: random.Random, p: int) -> list[Step]:
    """Clients still reach a leader that the cluster has replaced (P-72, P-82)."""
    cuts = [_cut(0.0, f"leader-{p}", other, 3.0) for other in (CONTROLLER, f"heir-{p}")]
    third = _cut(0.0, f"leader-{p}", f"other-{p}", 3.0)
    return [*cuts, third, _kill(rng.uniform(1.5, 2.2), f"leader-{p}", 0.3)]


def _cleaning_cut_off(rng: random.Random, p: int) -> list[Step]:
    """A replica ends while a cleaned segment takes the place of others, and another replica too
    (I-73).
    """
    steps = [
        _at(0.0, "compaction", keys=rng.choice((3, 60)), delete_retention_ms=0, lag_ms=0, off_s=0.0)
    ]
    for at_s, role in ((0.9, "leader"), (1.9, "heir")):
        where: dict[str, Any] = {
            "node": f"{role}-{p}",
            "point": rng.choice(("cleaned", "swap", "swap-flush")),
            "count": rng.randint(1, 6),
            "power": rng.random() < 0.5,
            "restart_s": 0.3,
        }
        steps.append(_at(at_s, "crash-at", **where))
    return steps


def _old_store(rng: random.Random, p: int) -> list[Step]:
    """The controller's store is restored from a copy, and brokers have applied many records since
    (P-76).
    """
    age_s = round(rng.uniform(1.5, 2.5), 3)
    return [
        _at(0.0, "store-restored", age_s=age_s, meets_s=rng.choice((0.2, 0.5))),
        _kill(0.1, f"leader-{p}", 0.3),
        _kill(0.8, f"heir-{p}", 0.3),
    ]


def _unclean_election(rng: random.Random, p: int) -> list[Step]:
    """A replica that has left the ISR is elected because no other is alive. The replicas with the
    records committed since come back, with or without their last high watermark (I-53).
    """
    steps = [_at(0.0, "unclean", for_s=5.0), _cut(0.1, f"leader-{p}", f"other-{p}", 2.4)]
    for role in ("heir", "leader"):
        at_s, gone_s = 2.4 + rng.choice((0.0, 0.0, 0.2)), rng.uniform(1.8, 2.8)
        if rng.random() < 0.3:
            steps.append(_kill(at_s, f"{role}-{p}", gone_s))
        else:
            cut_off: dict[str, Any] = {
                "node": f"{role}-{p}",
                "for_s": round(gone_s, 3),
                "hold": False,
            }
            steps.append(_at(at_s, "isolate", **cut_off))
    return steps


def _controller_alone_comes_back(rng: random.Random, p: int) -> list[Step]:
    """A leader dies while the controller is down, so no stream of its breaks (P-81)."""
    away_s = rng.uniform(0.1, 0.6)
    return [
        _kill(0.0, CONTROLLER, away_s),
        _kill(rng.choice((0.0, away_s / 2)), f"leader-{p}", rng.uniform(2.0, 3.0)),
    ]


MOMENTS: Final[dict[str, Callable[[random.Random, int], list[Step]]]] = {
    "leader-dies-at-a-shrink": _leader_dies_at_a_shrink,
    "three-leaders": _three_leaders,
    "quick-return": _quick_return,
    "behind-the-leaders-back": _behind_the_leaders_back,
    "demoted-with-a-slow-disk": _demoted_with_a_slow_disk,
    "joiner-dies": _joiner_dies,
    "joiner-is-replaced": _joiner_is_replaced,
    "joiner-stops": _joiner_stops,
    "asked-too-late": _asked_too_late,
    "gone-for-good": _gone_for_good,
    "registered-unheard": _registered_unheard,
    "wiped-member": _wiped_member,
    "late-answers": _late_answers,
    "deposed-unheard": _deposed_unheard,
    "cleaning-cut-off": _cleaning_cut_off,
    "old-store": _old_store,
    "unclean-election": _unclean_election,
    "controller-alone-comes-back": _controller_alone_comes_back,
}


def steps_of(name: str, rng: random.Random, topology: Topology) -> list[Step]:
    """The steps of that moment, about one partition and, where there is one, a second."""
    p = rng.randrange(topology.partitions)
    steps = MOMENTS[name](rng, p)
    return [step for step in steps if topology.partitions > 1 or step[2].get("node") != "leader-1"]

"""The plan of a chaos run on real processes: which fault strikes which process, when, for how long.

A plan is a pure function of its options, the seed among them. Every fault ends before the run does,
so each one heals by itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTROLLER: Final = "controller"
LEADER: Final = "leader"
"""The broker that leads partition 0 of the run's topic when the fault strikes."""
EVERY_BROKER: Final = "brokers"

KILL: Final = "kill"
PAUSE: Final = "pause"
PARTITION: Final = "partition"
DELAY: Final = "delay"
DISK_FULL: Final = "disk-full"
DISK_SLOW: Final = "disk-slow"
POWER: Final = "power"
CLOCK: Final = "clock"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its meaning, its targets, and the limits of its duration."""

    meaning: str
    seconds: tuple[float, float]
    controller: bool
    """True if the fault can strike the controller too."""


KINDS: Final = {
    KILL: Kind("SIGKILL, and a start when the fault ends", (2, 10), controller=True),
    PAUSE: Kind("SIGSTOP, and SIGCONT when the fault ends", (1, 15), controller=True),
    PARTITION: Kind("packets to and from the process are lost", (3, 20), controller=True),
    DELAY: Kind("packets to and from the process arrive late", (3, 15), controller=True),
    DISK_FULL: Kind("no byte is free on the data directory's file system", (4, 15), False),
    DISK_SLOW: Kind("writes to the data directory stall again and again", (3, 15), True),
    POWER: Kind("the process dies, and what it had not flushed is gone", (2, 8), controller=False),
    CLOCK: Kind("the wall clock of the process jumps, and jumps back", (3, 20), controller=True),
}

WARM_UP_S: Final = 4.0
"""Seconds before the first fault; less in a short run."""
CALM_S: Final = 3.0
"""Seconds without a fault at the end of the plan; less in a short run."""
REST_S: Final = (1.0, 8.0)
"""Limits of the pause between the end of a fault and the next one."""
SHARE_OF_RUN: Final = 0.12
"""The longest fault's share of the run."""
OVERLAPS: Final = 0.25
"""The share of faults that strike while the previous one lasts."""
EVERY_BROKER_SHARE: Final = 0.25
"""The share of power faults that strike all brokers at once: loss is permitted then."""
CUT_OFF: Final = "cut off"
MUTE: Final = "sends are lost, receives"
SERVERS_ONLY: Final = "cut off from servers, reached by clients"
CONTROLLER_ONLY: Final = "cut off from the controller"
CUTS: Final = (CUT_OFF, MUTE, SERVERS_ONLY, CONTROLLER_ONLY)
DELAYS_MS: Final = (20, 500)
JUMPS_S: Final = (-3600, -600, -30, 30, 600, 3600)
STALLS_MS: Final = (50, 500)


class PlanMistake(ValueError):
    """The options contradict each other, or name something that does not exist."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Everything that a plan depends on."""

    seed: int
    seconds: float
    kinds: tuple[str, ...] = tuple(KINDS)
    brokers: int = 3
    victims: tuple[str, ...] = ()
    """The targets to choose from, such as `("leader",)`; empty: all."""
    fault_s: float | None = None
    """The duration of every fault; None: drawn from the seed."""
    rest_s: float | None = None
    """The pause after every fault; None: drawn from the seed, with some overlaps."""
    rounds: int | None = None
    """Limit of the number of faults; None: as many as fit."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `at_s` and `lasts_s` count from the start of the workload."""

    number: int
    kind: str
    victim: str
    """`broker-N`, CONTROLLER, LEADER or EVERY_BROKER."""
    at_s: float
    lasts_s: float
    detail: str = ""
    """What is cut off, the delay, the jump: empty for kinds without a choice."""
    spare: int = 1
    """The broker to strike if no leader is known, or if the leader is struck already."""

    @property
    def ends_s(self) -> float:
        return self.at_s + self.lasts_s

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.at_s:7.1f} s  {self.lasts_s:5.1f} s  {self.kind} {self.victim}{detail}"

    def document(self) -> dict[str, object]:
        return {
            "number": self.number,
            "kind": self.kind,
            "victim": self.victim,
            "at_s": self.at_s,
            "lasts_s": self.lasts_s,
            "detail": self.detail,
        }


def parse_kinds(text: str) -> tuple[str, ...]:
    """The kinds of a list such as `kill,pause`, each once."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in KINDS:
            known = ", ".join(KINDS)
            raise PlanMistake(f"there is no fault {name!r}: give some of {known}")
    return tuple(dict.fromkeys(names))


def parse_victims(text: str, brokers: int) -> tuple[str, ...]:
    """The targets of a list such as `leader,controller,2`."""
    known = [*(str(i) for i in range(1, brokers + 1)), CONTROLLER, LEADER]
    names = [name.strip().removeprefix("broker-") for name in text.split(",")]
    for name in names:
        if name not in known:
            raise PlanMistake(f"there is no victim {name!r}: give some of {', '.join(known)}")
    return tuple(dict.fromkeys(f"broker-{name}" if name.isdigit() else name for name in names))


def draw(options: PlanOptions) -> list[Fault]:
    """The faults in order of their start. Every kind is drawn before a kind is drawn again."""
    if not options.kinds:
        raise PlanMistake("no kind of fault is left to inject")
    rng = random.Random(_seed(options))
    last_s = options.seconds - min(CALM_S, options.seconds * 0.1)
    free_s = min(WARM_UP_S, options.seconds * 0.1)
    faults: list[Fault] = []
    for number, kind in enumerate(_deck(options.kinds, rng), 1):
        fault = Fault(
            number,
            kind,
            victim := _victim(kind, options, rng),
            at_s=_start_s(faults, free_s, options, rng),
            lasts_s=_duration_s(kind, options, rng),
            detail=_detail(kind, victim, rng),
            spare=rng.randint(1, options.brokers),
        )
        if any(_excludes(fault, other) for other in faults):
            fault = replace(fault, at_s=free_s)
        if fault.ends_s > last_s or number - 1 == options.rounds:
            return faults
        faults.append(fault)
        rest_s = rng.uniform(*REST_S) if options.rest_s is None else options.rest_s
        if options.rest_s is None:
            rest_s = min(rest_s, options.seconds * 0.05)
        free_s = round(max(each.ends_s for each in faults) + rest_s, 1)
    raise AssertionError("the deck has no end")


def _seed(options: PlanOptions) -> str:
    """The options as text, the same for 30 seconds and for 30.0."""
    numbers = (options.seconds, options.fault_s, options.rest_s)
    told = ["" if number is None else f"{number:g}" for number in numbers]
    kinds, victims = ",".join(options.kinds), ",".join(options.victims)
    return " ".join([str(options.seed), *told, str(options.brokers), kinds, victims])


def _start_s(
    faults: Sequence[Fault], free_s: float, options: PlanOptions, rng: random.Random
) -> float:
    """The end of the pause after the last fault, or a moment within that fault."""
    part, overlaps = rng.uniform(0.2, 0.8), rng.random() < OVERLAPS
    if not faults or not overlaps or options.rest_s is not None:
        return round(free_s, 1)
    return round(faults[-1].at_s + part * faults[-1].lasts_s, 1)


def _excludes(one: Fault, other: Fault) -> bool:
    """True if two faults that overlap must not: they may have one victim, or a loss of power would
    not be the only thing away, so that the checker could not say whether loss is permitted.
    """
    if one.at_s >= other.ends_s or other.at_s >= one.ends_s:
        return False
    victims = {one.victim, other.victim}
    return POWER in (one.kind, other.kind) or len(victims) == 1 or LEADER in victims


def _deck(kinds: Sequence[str], rng: random.Random) -> Iterator[str]:
    while True:
        yield from rng.sample(kinds, len(kinds))


def _duration_s(kind: str, options: PlanOptions, rng: random.Random) -> float:
    shortest, longest = KINDS[kind].seconds
    drawn = rng.uniform(shortest, longest)
    if options.fault_s is not None:
        return options.fault_s
    return round(min(drawn, max(1.0, options.seconds * SHARE_OF_RUN)), 1)


def _victim(kind: str, options: PlanOptions, rng: random.Random) -> str:
    brokers = [f"broker-{i}" for i in range(1, options.brokers + 1)]
    known = [*brokers, LEADER, *([CONTROLLER] if KINDS[kind].controller else [])]
    chosen = [victim for victim in options.victims if victim in known] or (
        brokers if options.victims else known
    )
    if kind == POWER and not options.victims and rng.random() < EVERY_BROKER_SHARE:
        return EVERY_BROKER
    return rng.choice(chosen)


def _detail(kind: str, victim: str, rng: random.Random) -> str:
    if kind == PARTITION:
        return rng.choice(CUTS[:2] if victim == CONTROLLER else CUTS)
    if kind == DELAY:
        return f"{rng.randint(*DELAYS_MS)} ms"
    if kind == CLOCK:
        return f"{rng.choice(JUMPS_S):+d} s"
    if kind == DISK_SLOW:
        return f"stalls of {rng.randint(*STALLS_MS)} ms"
    return ""

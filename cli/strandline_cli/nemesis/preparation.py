"""Preparation of a chaos run: what the machine can do, the plan, and the cluster to break."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_chaos.faults import plan
from strandline_chaos.faults.plan import Fault, PlanOptions, draw, parse_kinds, parse_victims
from strandline_cli.errors import UsageMistake
from strandline_cli.nemesis import compose, local
from strandline_cli.nemesis.network import cannot_separate, enter_own_namespaces
from strandline_cli.nemesis.run import Settings
from strandline_cli.nemesis.target import Target
from strandline_local.cluster_files import CONTROLLER

ON_DISKS: Final = frozenset({plan.DISK_FULL, plan.DISK_SLOW, plan.POWER})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The command's options."""

    seed: int
    seconds: float
    containers: bool
    faults: str | None
    victims: str | None
    brokers: int
    fault_s: float | None
    rest_s: float | None
    rounds: int | None
    rate: float


@dataclass(frozen=True, slots=True)
class Prepared:
    options: PlanOptions
    faults: Sequence[Fault]
    cannot: dict[str, str]
    """Kinds that were wanted and cannot be made here, each with its reason."""
    settings: Settings
    target: Callable[[Path], Target]
    """The cluster to break; its files stand in that directory."""


def prepare(
    wanted: Wanted, argv: Sequence[str], say: Callable[[str], None], *, for_real: bool
) -> Prepared:
    """Draws the plan and prints it, with a list of what cannot be done here. Moves this command
    into namespaces of its own first, if it is `for_real` and they are possible.
    """
    asked = tuple(plan.KINDS) if wanted.faults is None else parse_kinds(wanted.faults)
    found = compose.find() if wanted.containers else None
    brokers = wanted.brokers if found is None else found.brokers
    victims = () if wanted.victims is None else parse_victims(wanted.victims, brokers)
    separate = found is None and cannot_separate() is None
    reasons = local.cannot_do() if found is None else found.cannot_do()
    cannot = {kind: reasons[kind] for kind in asked if kind in reasons}
    kinds = tuple(kind for kind in asked if kind not in cannot)
    if not kinds:
        raise UsageMistake(
            "none of these faults can be made here: "
            + "; ".join(f"{kind}: {why}" for kind, why in cannot.items())
        )
    _check_victims(victims, kinds)
    if for_real and separate:
        enter_own_namespaces(argv)
    options = PlanOptions(
        seed=wanted.seed,
        seconds=wanted.seconds,
        kinds=kinds,
        brokers=brokers,
        victims=victims,
        fault_s=wanted.fault_s,
        rest_s=wanted.rest_s,
        rounds=wanted.rounds,
    )
    faults = draw(options)
    _show(options, faults, cannot, say)
    topic = f"chaos-{wanted.seed}-{time.strftime('%H%M%S')}" if found else "chaos"
    settings = Settings(topic=topic, seconds=wanted.seconds, brokers=brokers, rate_max=wanted.rate)

    def target(directory: Path) -> Target:
        if found is not None:
            return compose.Containers(found)
        disks = not ON_DISKS.isdisjoint(kinds)
        return local.Processes(directory, brokers, separate=separate, disks=disks)

    return Prepared(options, faults, cannot, settings, target)


def _check_victims(victims: Sequence[str], kinds: Sequence[str]) -> None:
    if list(victims) == [CONTROLLER]:
        for kind in kinds:
            if not plan.KINDS[kind].controller:
                raise UsageMistake(
                    f"{kind} strikes brokers only: add a broker to --victims, or leave"
                    f" {kind} out of --faults"
                )


def _show(
    options: PlanOptions,
    faults: Sequence[Fault],
    cannot: dict[str, str],
    say: Callable[[str], None],
) -> None:
    if cannot:
        say("THIS MACHINE CANNOT:")
        for kind, why in cannot.items():
            say(f"    {kind:10} {why}")
    say(f"plan of seed {options.seed}, {options.seconds:g} s, {', '.join(options.kinds)}:")
    for fault in faults:
        say(str(fault))
    if not faults:
        say("    no fault fits into this time")

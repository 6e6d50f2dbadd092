"""Many runs one after the other, and a failing plan made small."""

from __future__ import annotations

import dataclasses
import gc
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_chaos.sim.kinds import KINDS
from strandline_chaos.sim.run import Outcome, run_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_chaos.sim.plan import Plan

IDLE_AFTER: Final = 300
"""So many runs must have shown every one of these, or the sweep has tested too little."""
EXPECTED: Final = (
    "broker fenced",
    "leader changed",
    "ISR shrunk",
    "ISR grown",
    "log truncated",
    "records lost with the power",
    "process ended by itself",
    "disk full",
    "short write",
    "fsync error",
    "write error",
    "stall",
)


@dataclass(slots=True)
class Tally:
    """What a sweep has seen. `struck` counts faults, `sometimes` what they brought about."""

    runs: int = 0
    steps: int = 0
    simulated_s: float = 0.0
    acknowledged: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.steps += outcome.steps
        self.simulated_s += outcome.simulated_s
        self.acknowledged += outcome.acknowledged
        self.struck.update(outcome.struck)
        self.sometimes.update(outcome.sometimes)
        if not outcome.sound:
            self.failures.append(outcome)

    def idle(self) -> list[str]:
        """What a long enough sweep should have seen and has not."""
        if self.runs < IDLE_AFTER:
            return []
        return [
            *(kind for kind in KINDS if self.struck[kind] == 0),
            *(event for event in EXPECTED if self.sometimes[event] == 0),
        ]


def sweep(plans: Iterable[Plan], on_outcome: Callable[[Outcome, Tally], None]) -> Tally:
    """Run all of them. `plans` may end early, for instance when time is over."""
    tally = Tally()
    gc.collect()
    gc.freeze()
    try:
        for plan in plans:
            outcome = run_plan(plan)
            tally.add(outcome)
            on_outcome(outcome, tally)
            if outcome.sound:
                outcome.timeline = None
            gc.collect()
    finally:
        gc.unfreeze()
    return tally


def shrink(plan: Plan, on_try: Callable[[Plan, bool], None]) -> Plan:
    """A plan with as few of the faults as still break the same invariant; every one is needed."""
    wanted = run_plan(plan).invariant

    def still_fails(faults: list[int]) -> bool:
        candidate = dataclasses.replace(plan, faults=tuple(plan.faults[n] for n in faults))
        outcome = run_plan(candidate)
        gc.collect()
        fails = not outcome.sound and outcome.invariant == wanted
        on_try(candidate, fails)
        return fails

    kept = list(range(len(plan.faults)))
    size = max(1, len(kept) // 2)
    while size > 0:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + size :]
            if len(fewer) < len(kept) and still_fails(fewer):
                kept = fewer
            else:
                at += size
        size //= 2
    return dataclasses.replace(plan, faults=tuple(plan.faults[n] for n in kept))

"""Many runs and their sums, and the shrinking of a failing plan."""

from __future__ import annotations

import dataclasses
import gc
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.run.report import RunSummary, crashed, kind_of, summary_of
from strandline_proof.sim.run.run import run_plan
from strandline_proof.sim.run.share import SHARES_MAX, Share
from strandline_proof.sim.sweep.expected import missing
from strandline_proof.sim.sweep.histogram import Spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proof.sim.plan.plan import Plan

KINDS_KEPT: Final = 100
SEEDS_KEPT: Final = 20


@dataclass(slots=True)
class Finding:
    """Failures of one kind: the first one, and the seeds that show it too."""

    first: RunSummary
    count: int = 0
    seeds: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """The sums of a sweep. `struck` counts faults, `sometimes` the events that they caused. A tally
    stays small however many runs are added, and however many of them fail.
    """

    runs: int = 0
    with_groups: int = 0
    with_transactions: int = 0
    steps: int = 0
    simulated_s: float = 0.0
    acknowledged: int = 0
    failures: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    spreads: dict[str, Spread] = field(default_factory=lambda: defaultdict(Spread))
    shares: tuple[Share, ...] = field(default_factory=lambda: tuple(map(Share, SHARES_MAX)))

    def add(self, result: RunSummary) -> bool:
        """Adds a run; True if it is the first failure of its kind."""
        self.runs += 1
        self.with_groups += bool(result.plan.topology.groups)
        self.with_transactions += result.plan.topology.transactions is not None
        self.steps += result.steps
        self.simulated_s += result.simulated_s
        self.acknowledged += result.acknowledged
        self.struck.update(result.struck)
        self.sometimes.update(result.sometimes)
        for share in self.shares:
            share.add(result)
        for name, values_ms in result.spreads.items():
            self.spreads[name].add(values_ms)
        if result.broken is None:
            return False
        self.failures += 1
        kind = result.broken.kind
        if kind not in self.findings and len(self.findings) == KINDS_KEPT:
            return False
        finding = self.findings.setdefault(kind, Finding(result))
        finding.count += 1
        if len(finding.seeds) < SEEDS_KEPT:
            finding.seeds.append(result.plan.seed)
        return finding.count == 1

    def too_lenient(self) -> list[str]:
        """Shares of excused schedules that are too great, if the sweep is long enough to judge."""
        return [str(share) for share in self.shares if share.is_too_great]

    def idle(self) -> list[str]:
        """Events and kinds that a long enough sweep should have seen and lacks."""
        return missing(
            self.runs,
            self.struck,
            self.sometimes,
            groups=self.with_groups > 0,
            transactions=self.with_transactions > 0,
        )


def run_here(plan: Plan) -> RunSummary:
    """A run in this process. An error of the simulator itself is a failure of its plan too."""
    try:
        return summary_of(run_plan(plan))
    except Exception as error:  # noqa: BLE001 - the sweep goes on, and tells it in full
        return crashed(plan, error)


def shrink(plan: Plan, on_try: Callable[[Plan, bool], None]) -> Plan:
    """A plan with as few faults as still break it in the same way; every one is needed."""
    wanted = kind_of(run_plan(plan))

    def still_fails(faults: list[int]) -> bool:
        candidate = dataclasses.replace(plan, faults=tuple(plan.faults[n] for n in faults))
        fails = kind_of(run_plan(candidate)) == wanted
        gc.collect()
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

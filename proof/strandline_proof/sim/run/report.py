"""The result of a run, in words and small enough to be sent from process to process."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from strandline_proof.sim.plan.plan import Plan
    from strandline_proof.sim.run.run import RunResult

LINES_PER_NODE: Final = 12
OUTAGES: Final = "wait for an acknowledgement of more than half a second"
REALTIME_LAG: Final = "worst lag of a reader in a run"
END_LAG: Final = "worst lag of a told end offset in a run"


@dataclass(frozen=True, slots=True)
class Broken:
    """The failure of a run that is not sound. `invariant` is a number, or the kind of failure;
    `report` has the last log lines of each node, or a traceback.
    """

    invariant: str
    what: str
    report: str

    @property
    def kind(self) -> str:
        """A text that is equal for failures that differ in numbers only."""
        return re.sub(r"\d+", "#", f"{self.invariant} {self.what}")


@dataclass(frozen=True, slots=True)
class RunSummary:
    plan: Plan
    broken: Broken | None = None
    digest: str = ""
    steps: int = 0
    simulated_s: float = 0.0
    acknowledged: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    spreads: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds, by measure."""

    def document(self) -> dict[str, Any]:
        """The summary as JSON, without the plan, which its reader has."""
        broken = self.broken
        return {
            "broken": None if broken is None else [broken.invariant, broken.what, broken.report],
            "digest": self.digest,
            "steps": self.steps,
            "simulated_s": self.simulated_s,
            "acknowledged": self.acknowledged,
            "struck": self.struck,
            "sometimes": self.sometimes,
            "spreads": self.spreads,
        }


def read_summary(plan: Plan, document: dict[str, Any]) -> RunSummary:
    """The inverse of `RunSummary.document`."""
    broken, struck, sometimes = (document.pop(name) for name in ("broken", "struck", "sometimes"))
    return RunSummary(
        plan,
        None if broken is None else Broken(*broken),
        struck=Counter(struck),
        sometimes=Counter(sometimes),
        **document,
    )


def summary_of(result: RunResult) -> RunSummary:
    """The result without its large parts: its timeline and its failure's frames."""
    broken = None
    if not result.sound:
        broken = Broken(result.invariant, result.what, last_words(result))
    return RunSummary(
        result.plan,
        broken,
        result.digest,
        result.steps,
        result.simulated_s,
        result.acknowledged,
        result.struck,
        result.sometimes,
        _spreads(result),
    )


def _spreads(result: RunResult) -> dict[str, list[float]]:
    found = result.measures
    if found is None:
        return {}
    return {
        OUTAGES: list(found.outages_ms),
        REALTIME_LAG: [found.worst_realtime_lag_ms],
        END_LAG: [found.worst_end_lag_ms],
    }


def crashed(plan: Plan, error: BaseException) -> RunSummary:
    """A summary of a run that the simulator itself did not survive."""
    text = "".join(traceback.format_exception(error))
    return RunSummary(plan, Broken(type(error).__name__, str(error), text))


def kind_of(result: RunResult) -> str:
    """A text that is equal for runs that are broken in the same way; empty for a sound run."""
    if result.sound:
        return ""
    return Broken(result.invariant, str(result.failure), "").kind


def last_words(result: RunResult) -> str:
    """The last lines of each node, node by node."""
    shown = ["the last of what each node said:"]
    for name in (*result.plan.topology.nodes, "*"):
        lines = [str(line) for line in result.timeline.lines if line.node == name]
        shown += lines[-LINES_PER_NODE:]
    return "\n".join(shown)

"""The present decisions of one replica of a partition of `__consumer_offsets`."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_proof.sim.oracles.groups.fold import NOTHING, Fold, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proof.sim.oracles.groups.fold import GroupLog
    from strandline_proof.sim.oracles.replica.log_view import LogView

_END: Final = attrgetter("decision.end")


@dataclass(slots=True)
class Standing:
    """A replica's decisions. `steps` are those of its log; all below `high_watermark` is committed,
    as the replica knows.
    """

    steps: list[Step] = field(default_factory=list)
    high_watermark: int = 0
    leads: bool = True

    @property
    def written(self) -> Fold:
        return self.steps[-1].after if self.steps else NOTHING

    @property
    def committed(self) -> Fold:
        at = bisect_right(self.steps, self.high_watermark, key=_END)
        return self.steps[at - 1].after if at > 0 else NOTHING

    def folds(self, low: int, high: int) -> Iterator[Fold]:
        """The state at `low`, and after each decision from there to `high`."""
        first = bisect_right(self.steps, low, key=_END)
        yield self.steps[first - 1].after if first > 0 else NOTHING
        for step in self.steps[first:]:
            if step.decision.end > high:
                return
            yield step.after

    def since(self, low: int) -> Iterator[Step]:
        """Decisions that reach to `low` or beyond, as far as they are committed."""
        for step in self.steps[bisect_right(self.steps, low, key=_END) :]:
            if step.decision.end > self.high_watermark:
                return
            yield step

    def follow(self, log: GroupLog, view: LogView) -> bool:
        """Follows the replica's log to its present state; False if its beginning is not known."""
        entries, steps = view.entries, self.steps
        while steps and not (
            len(steps) <= len(entries)
            and entries[len(steps) - 1].identity == steps[-1].decision.identity
        ):
            steps.pop()
        for number in range(len(steps) + 1, len(entries) + 1):
            step = log.step_of(view, number)
            if step is None:
                return False
            steps.append(step)
        return True

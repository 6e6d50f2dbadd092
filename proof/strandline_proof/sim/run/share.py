"""The excused share of a sweep: a permitted loss weakens the checks of its partition, until the
surviving records are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_chaos.excused import Excuse
    from strandline_proof.sim.run.report import RunSummary

PERMITTED: Final = "loss permitted"
"""Name of the count of a run's partitions that may have lost records."""
OPEN: Final = "loss permitted to the end"
"""Name of the count of those that were not judged again before the run was over."""
RUNS_MIN: Final = 300
"""Least number of runs of a sweep whose share means something."""
DEVIATIONS: Final = 3.7
"""Standard deviations: a share is so far above its expectation by chance once in 10,000 sweeps."""
SHARES_MAX: Final = {PERMITTED: 0.25, OPEN: 0.12}
"""Greatest shares of a sweep's schedules: with more excused, the sweep sees too little."""


def counted(excuses: Collection[Excuse]) -> dict[str, int]:
    """The counts of one run."""
    return {PERMITTED: len(excuses), OPEN: sum(excuse.over is None for excuse in excuses)}


@dataclass(slots=True)
class Share:
    """The share of one of the two counts, over a sweep."""

    name: str
    schedules: int = 0
    partitions: int = 0
    of_schedules: int = 0
    of_partitions: int = 0

    def add(self, result: RunSummary) -> None:
        count = result.sometimes[self.name]
        self.schedules += count > 0
        self.partitions += count
        self.of_schedules += 1
        self.of_partitions += result.plan.topology.partitions

    @property
    def is_too_great(self) -> bool:
        """True if the share of schedules is above its bound, and not by chance."""
        runs, most = self.of_schedules, SHARES_MAX[self.name]
        if runs < RUNS_MIN:
            return False
        return self.schedules / runs > most + DEVIATIONS * math.sqrt(most * (1 - most) / runs)

    def __str__(self) -> str:
        return (
            f"{self.name}: {_percent(self.schedules, self.of_schedules)} of the schedules (at most"
            f" {100 * SHARES_MAX[self.name]:.0f} %),"
            f" {_percent(self.partitions, self.of_partitions)} of the partitions"
        )


def _percent(count: int, of: int) -> str:
    return f"{100 * count / max(1, of):.1f} %"

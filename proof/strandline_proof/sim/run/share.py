"""How much of a sweep was excused: a loss that is permitted asks less of its partition, until it is
known what has survived.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from strandline_proof.sim.run.report import RunSummary
    from strandline_proof.sim.workload.excused import Excuse

PERMITTED: Final = "loss permitted"
"""How many partitions of a run may have lost records."""
OPEN: Final = "loss permitted to the end"
"""Those of them that were not judged again before the run was over."""
RUNS_MIN: Final = 300
"""A smaller sweep says too little about a share."""
DEVIATIONS: Final = 3.7
"""So far above its expectation a share comes by chance once in 10,000 sweeps."""
SHARES_MAX: Final = {PERMITTED: 0.25, OPEN: 0.12}
"""Of the schedules of a sweep: where more are excused, it looks away too often to be believed."""


def counted(excuses: Collection[Excuse]) -> dict[str, int]:
    """Of one run."""
    return {PERMITTED: len(excuses), OPEN: sum(excuse.over is None for excuse in excuses)}


@dataclass(slots=True)
class Share:
    """Of one of the two, over a sweep."""

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
        """Whether the share of schedules is above what may be, and not by chance."""
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

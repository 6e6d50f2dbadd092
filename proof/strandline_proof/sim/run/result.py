"""The result of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from strandline_chaos.measures import Measures
    from strandline_proof.sim.plan.plan import Plan


@dataclass(slots=True)
class RunResult:
    """A run's result. `failure` is the first fault that was found, None for a sound run."""

    plan: Plan
    failure: BaseException | None = None
    digest: str = ""
    steps: int = 0
    simulated_s: float = 0.0
    struck: Counter[str] = field(default_factory=Counter)
    unprompted: int = 0
    """Faults carried out although their event had not come."""
    sometimes: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    measures: Measures | None = None
    """None if the run did not come to its end."""
    timeline: Any = None

    @property
    def sound(self) -> bool:
        return self.failure is None

    @property
    def invariant(self) -> str:
        """The number of the broken invariant, or the kind of failure."""
        if isinstance(self.failure, Violation):
            return self.failure.invariant
        return type(self.failure).__name__

    @property
    def what(self) -> str:
        """The contradiction of the invariant, without its number."""
        return self.failure.what if isinstance(self.failure, Violation) else str(self.failure)

"""Breadth-first search through the model: every state once, the shortest way to each."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_proof.model.trace import describe
from strandline_proof.model.values import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strandline_proof.model.values import State
    from strandline_proof.model.world import Action, World

PROGRESS_EVERY = 100_000


def _of_the_core(error: AssertionError) -> str:
    """A failed assertion of production code, with its place."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"the core's own assertion, {at.filename}:{at.lineno}: {at.line}: {error}"


@dataclass
class Report:
    states: int = 0
    transitions: int = 0
    depth: int = 0
    exhausted: bool = False
    """Every state within the bounds was visited."""
    violation: str | None = None
    trace: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    """How often each kind of step was possible."""


class Search:
    """One search. `progress` is called now and then."""

    def __init__(self, world: World, progress: Callable[[Report], None] | None = None) -> None:
        self.report = Report()
        self._world = world
        self._progress = progress
        self._came_from: dict[State, tuple[State, Action] | None] = {}
        self._began: list[str] = []

    def run(
        self,
        *,
        prefix: Sequence[Action] = (),
        states_max: int,
        depth_max: int | None = None,
    ) -> Report:
        """Searches from the state that `prefix` leads to. Stops at the first violation, at a bound,
        or when no step leads to a new state.
        """
        frontier = [self._begin(prefix)]
        report = self.report
        while frontier and report.depth != depth_max and report.violation is None:
            frontier = self._expand(frontier, states_max)
            report.states = len(self._came_from)
            if report.states >= states_max:
                return report
            report.depth += 1
        report.exhausted = not frontier and report.violation is None
        return report

    def _begin(self, prefix: Sequence[Action]) -> State:
        state = self._world.initial()
        for action in prefix:
            after = self._world.take(state, action)
            self._began.append(describe(self._world, action, state, after))
            state = after
        self._came_from[state] = None
        return state

    def _expand(self, frontier: list[State], states_max: int) -> list[State]:
        world, report, came_from = self._world, self.report, self._came_from
        counts = report.steps
        following: list[State] = []
        for state in frontier:
            reached = None
            try:
                for action, after in world.steps(state):
                    report.transitions += 1
                    counts[action[0]] = counts.get(action[0], 0) + 1
                    if after in came_from:
                        continue
                    came_from[after] = (state, action)
                    reached = after
                    world.check(after)
                    reached = None
                    following.append(after)
            except AssertionError as error:
                # An assertion of the model, or of the core.
                self._found(error, state, reached)
                return []
            if len(came_from) >= states_max:
                return following
            if self._progress is not None and len(came_from) - report.states > PROGRESS_EVERY:
                report.states = len(came_from)
                self._progress(report)
        return following

    def _found(self, error: AssertionError, state: State, reached: State | None) -> None:
        report = self.report
        report.violation = str(error) if isinstance(error, Violation) else _of_the_core(error)
        if reached is None:
            report.trace = [*self._way_to(state), f"then {self._world.last_words()}"]
        else:
            report.trace = self._way_to(reached)

    def _way_to(self, state: State) -> list[str]:
        lines = []
        while (came := self._came_from[state]) is not None:
            before, action = came
            lines.append(describe(self._world, action, before, state))
            state = before
        return [*self._began, *reversed(lines)]

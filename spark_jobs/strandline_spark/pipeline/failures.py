"""The steps of a running pipeline that have failed: each is named, and the others go on."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import StrandlineSparkError, first_line, remedy_line
from strandline_spark.spark.session import jvm_has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RETRY_SECONDS: Final = 60.0
"""How long a step that failed is left alone while the others go on."""


class StepsFailed(StrandlineSparkError):
    """A run has ended with steps that stand still."""


@dataclass(slots=True)
class _Failure:
    said: str
    at: float


class Failures:
    """Which steps (`silver`, `gold NAME`) have failed last, and why."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._note = note
        self._clock = clock
        self._failed: dict[str, _Failure] = {}

    @contextlib.contextmanager
    def guard(self, step: str) -> Iterator[None]:
        """What the block raises becomes the step's failure; without one, the step is sound again.
        The end of the JVM is no step's failure.
        """
        try:
            yield
        except Exception as why:
            if jvm_has_ended(why):
                raise
            self._add(step, why)
        else:
            if self._failed.pop(step, None) is not None:
                self._note(f"{step} goes on again")

    def _add(self, step: str, why: Exception) -> None:
        ours = isinstance(why, StrandlineSparkError)
        said = (
            str(why)
            if ours
            else remedy_line(str(why)) or f"{type(why).__name__}: {first_line(why)}"
        )
        before = self._failed.get(step)
        self._failed[step] = _Failure(said, self._clock())
        if before is None or before.said != said:
            self._note(f"{step} stands still, the other steps go on: {said}")

    def has(self, step: str) -> bool:
        return step in self._failed

    def may_try(self, step: str) -> bool:
        """Whether the step did not fail just now."""
        failed = self._failed.get(step)
        return failed is None or self._clock() - failed.at >= RETRY_SECONDS

    def said(self) -> dict[str, str]:
        """By step, in the order in which they failed."""
        return {step: failed.said for step, failed in self._failed.items()}

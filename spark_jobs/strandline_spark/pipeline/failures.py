"""The failed steps of a running pipeline: each is named, and the others continue."""

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
"""Pause before a failed step is retried, while the others continue."""


class StepsFailed(StrandlineSparkError):
    """A run has ended with failed steps."""


@dataclass(slots=True)
class _Failure:
    said: str
    at: float


class Failures:
    """The steps (`silver`, `gold NAME`) that failed last, with the reasons."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._note = note
        self._clock = clock
        self._failed: dict[str, _Failure] = {}

    @contextlib.contextmanager
    def guard(self, step: str) -> Iterator[None]:
        """Makes an error of the block the step's failure; without one, clears the failure.

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
        """True if the step did not fail within the pause."""
        failed = self._failed.get(step)
        return failed is None or self._clock() - failed.at >= RETRY_SECONDS

    def said(self) -> dict[str, str]:
        """Returns the reason of each failed step, in the order of the failures."""
        return {step: failed.said for step, failed in self._failed.items()}

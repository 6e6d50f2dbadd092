"""The failed tasks of a running query: each failure is reported while Spark retries, and the query
ends at once if a retry cannot cure it.

Spark retries a failed task three times, whatever the cause. The query sees only the last failure.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.errors import StrandlineSparkError, is_lasting, remedy_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext

LOOK_SECONDS: Final = 1.0
_TASKS_MAX: Final = 10_000
_STATUS: Final = "FAILED"
_SHOWN_MAX: Final = 300


class TaskFailures:
    def __init__(self, context: SparkContext, note: Callable[[str], None]) -> None:
        self._context = context
        self._note = note
        self._look_at = 0.0
        self._known: set[int] = set()
        """Ids of the failed tasks seen so far; Spark gives no id twice."""

    def look(self) -> None:
        """Raises StrandlineSparkError with the message of a task that would fail again. Call it
        repeatedly.
        """
        if time.monotonic() < self._look_at:
            return
        for task, text in self._failed():
            self._known.add(task)
            ours = remedy_line(text)
            if ours is not None and is_lasting(text):
                raise StrandlineSparkError(ours)
            why = ours or _last_words(text)
            self._note(f"a task failed, and Spark tries it again: {why[:_SHOWN_MAX]}")
        self._look_at = time.monotonic() + LOOK_SECONDS

    def _failed(self) -> Iterator[tuple[int, str]]:
        """Yields id and error of each task of running stages that failed since the last call."""
        tracker = self._context.statusTracker()
        store: Any = self._context._jsc.sc().statusStore()
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is None or info.numFailedTasks == 0:
                continue
            tasks = store.taskList(stage, info.currentAttemptId, _TASKS_MAX)
            for task in (tasks.apply(place) for place in range(tasks.size())):
                if task.status() == _STATUS and task.taskId() not in self._known:
                    error = task.errorMessage()
                    yield task.taskId(), error.get() if error.isDefined() else ""


def _last_words(text: str) -> str:
    """Returns the last line of an error of Java, or of Python with its traceback, as Spark reports
    it.
    """
    said = text.partition("\n\tat ")[0].splitlines()
    return next((line for line in reversed(said) if line[:1].strip()), "it does not say why")

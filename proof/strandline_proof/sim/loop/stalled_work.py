"""Blocking work that may stand still in its middle while all other tasks go on.

The work runs on a real thread, and only while the loop waits for it: the two never run at once, so
a run still follows from its seed. All that a real process's thread leaves half done during a slow
disk operation is thereby visible to the tasks that go on.
"""

from __future__ import annotations

import _thread
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Aside:
    """One piece of work. The loop calls `go_on`, and the work itself calls `stand_still`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.goes_on = False
        self.outcome: Any = None
        self._work = work
        self._error: BaseException | None = None
        self._pause_s: float | None = None
        self._has_begun = False
        self._to_work = _thread.allocate_lock()
        self._to_loop = _thread.allocate_lock()
        self._to_work.acquire()
        self._to_loop.acquire()

    def go_on(self) -> float | None:
        """Lets the work run until it stands still, and returns for how long; None once it has
        ended, with an `outcome`. Raises the work's error.
        """
        self.goes_on, self._pause_s = True, None
        if self._has_begun:
            self._to_work.release()
        else:
            self._has_begun = True
            # Not a Thread, which a run must not start: none of these outlives its turn.
            _thread.start_new_thread(copy_context().run, (self._run,))
        self._to_loop.acquire()
        self.goes_on = False
        if self._error is not None:
            raise self._error
        return self._pause_s

    def stand_still(self, seconds: float) -> None:
        self._pause_s = seconds
        self._to_loop.release()
        self._to_work.acquire()

    def _run(self) -> None:
        try:
            self.outcome = self._work()
        except BaseException as error:  # noqa: BLE001 - the loop gets it
            self._error = error
        self._to_loop.release()

"""Blocking work that may stand still in its middle while everybody else goes on.

It runs on a real thread, and only while the loop waits for it: of the two never both go on, so a
run follows from its seed as ever. What a thread of a real process leaves half done for as long as a
disk takes is thereby seen by all that go on meanwhile.
"""

from __future__ import annotations

import _thread
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Aside:
    """`go_on` is called by the loop, `stand_still` by the work itself."""

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
        """Let it run until it stands still: for how long that is; None once it has ended, with an
        `outcome`. Raises what it has raised.
        """
        self.goes_on, self._pause_s = True, None
        if self._has_begun:
            self._to_work.release()
        else:
            self._has_begun = True
            # Not a Thread, which a run is not allowed to start: none of these outlives its turn.
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

"""Which push stream counts: that of the controller that connected last.

A stream that is given up makes the controller open another, which begins with a snapshot: so a
broker asks for everything again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline_broker.hosts.log_dirs import FULL_DISK_RETRY_S

if TYPE_CHECKING:
    from strandline_runtime.runtime import Runtime


class IncomingPushStream:
    """One connection of a controller. `replaced` is set when a newer one is to take its place."""

    def __init__(self) -> None:
        self.replaced = asyncio.Event()


class PushStreams:
    def __init__(self, runtime: Runtime) -> None:
        self._log = runtime.log
        self._clock = runtime.clock
        self._current: IncomingPushStream | None = None
        self._again_at_s: float | None = None
        """When to ask for everything again, as something could not be applied."""

    def open(self) -> IncomingPushStream:
        """A controller has connected; an earlier stream gets nothing applied from here on."""
        if self._current is not None:
            self._current.replaced.set()
        self._current = IncomingPushStream()
        return self._current

    def is_current(self, stream: IncomingPushStream) -> bool:
        return stream is self._current

    def ask_for_all(self) -> None:
        self._again_at_s = None
        if self._current is not None:
            self._log.info("asking the controller for everything again")
            self._current.replaced.set()
            self._current = None

    def ask_later(self) -> None:
        self._again_at_s = self._clock.monotonic() + FULL_DISK_RETRY_S

    def asks_in_s(self) -> float | None:
        """Until it is time to ask for everything again; None: nothing is to be asked for."""
        return None if self._again_at_s is None else self._again_at_s - self._clock.monotonic()

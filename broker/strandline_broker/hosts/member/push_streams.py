"""The choice of the push stream that counts: that of the controller that connected last.

To request everything again, the broker closes its stream. The controller then opens another, which
begins with a snapshot. The broker first answers the envelope that it has begun to apply. That
answer names the partitions that could not be applied, and only the answer makes the controller
elect other leaders for them (P-79, I-94).
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from strandline_broker.hosts.disks.log_dirs import FULL_DISK_RETRY_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_runtime.runtime import Runtime


class IncomingPushStream:
    """One connection of a controller. `replaced` is set when a newer one is about to replace it."""

    def __init__(self) -> None:
        self.replaced = asyncio.Event()
        self.is_answering = False
        self.asks_again = False
        """Everything is to be asked for, once what is under way is answered."""


class PushStreams:
    def __init__(self, runtime: Runtime) -> None:
        self._log = runtime.log
        self._clock = runtime.clock
        self._current: IncomingPushStream | None = None
        self._again_at_s: float | None = None
        """Time at which to request everything again, after a part could not be applied."""

    def open(self) -> IncomingPushStream:
        """Register the connection of a controller; envelopes of an earlier stream are no longer
        applied.
        """
        if self._current is not None:
            self._current.replaced.set()
        self._current = IncomingPushStream()
        return self._current

    def is_current(self, stream: IncomingPushStream) -> bool:
        return stream is self._current

    def ask_for_all(self) -> None:
        self._again_at_s = None
        if self._current is None:
            return
        if self._current.is_answering:
            self._current.asks_again = True
            return
        self._log.info("asking the controller for everything again")
        self._current.replaced.set()
        self._current = None

    @contextmanager
    def answering(self, stream: IncomingPushStream) -> Iterator[None]:
        """A context from the application of an envelope of the stream until its answer is sent."""
        stream.is_answering = True
        try:
            yield
        finally:
            stream.is_answering = False
            if stream.asks_again and self.is_current(stream):
                self.ask_for_all()

    def ask_later(self) -> None:
        self._again_at_s = self._clock.monotonic() + FULL_DISK_RETRY_S

    def asks_in_s(self) -> float | None:
        """Time until everything is requested again; None: no request is due."""
        return None if self._again_at_s is None else self._again_at_s - self._clock.monotonic()

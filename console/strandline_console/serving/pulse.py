"""The pulse of the recording: makes frames, at most 20 a second, and wakes the streams.

A stream has no queue. It reads the frames that it lacks from a short row that all streams share; a
stream that is behind the row begins with a keyframe again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from strandline_console.messages import Delta
from strandline_console.recording.recorder import Recorder

FRAME_S: Final = 0.05
MEASURE_S: Final = 0.5
ROW: Final = 40
"""Frames that streams may lag behind: two seconds."""


class Pulse:
    """Makes the frames of `recorder`; `changed` has to be called at each change of it."""

    def __init__(self, recorder: Recorder, monotonic: Callable[[], float]) -> None:
        self.recorder = recorder
        self.is_over = False
        """True once the streams have to end."""
        self._monotonic = monotonic
        self._changed = asyncio.Event()
        self._row: deque[Delta] = deque(maxlen=ROW)
        self._next = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Make frames until the task is cancelled."""
        framed_s = measured_s = self._monotonic() - MEASURE_S
        while True:
            now_s = self._monotonic()
            if now_s - measured_s >= MEASURE_S:
                measured_s = now_s
                for _ in self.recorder.measuring():
                    await asyncio.sleep(0)
            if self._changed.is_set() and now_s - framed_s >= FRAME_S:
                framed_s = now_s
                self.beat()
            due_s = measured_s + MEASURE_S
            if self._changed.is_set():
                due_s = min(due_s, framed_s + FRAME_S)
            await self._until(due_s)

    async def _until(self, due_s: float) -> None:
        """Until the time, or until a change while none waits for its frame."""
        wait_s = max(0.001, due_s - self._monotonic())
        if self._changed.is_set():
            await asyncio.sleep(wait_s)
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    def beat(self) -> None:
        """Make one frame, and wake the streams."""
        self._changed.clear()
        self._row.append(self.recorder.tick())
        self._wake()

    def _wake(self) -> None:
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    def end(self) -> None:
        """End the streams."""
        self.is_over = True
        self._wake()

    def after(self, frame: int) -> list[Delta] | None:
        """The frames after `frame`; None if the row does not have them all."""
        newest = self.recorder.frame
        if frame == newest:
            return []
        if not self._row or frame > newest or frame < self._row[0].frame - 1:
            return None
        return [delta for delta in self._row if delta.frame > frame]

    async def beyond(self, frame: int, wait_s: float) -> bool:
        """Wait for a frame after `frame`. False if none came in time."""
        while self.recorder.frame <= frame and not self.is_over:
            waited = self._next
            try:
                async with asyncio.timeout(wait_s):
                    await waited.wait()
            except TimeoutError:
                return False
        return True

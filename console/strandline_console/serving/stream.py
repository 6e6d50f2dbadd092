"""The stream of a page, as server-sent events: a keyframe, then what changed within its scope."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from strandline_console.messages import Delta, Keyframe
from strandline_console.recording.recorder import is_empty, within_scope
from strandline_console.recording.scope import Scope
from strandline_console.serving.pulse import Pulse

QUIET_S: Final = 5.0
"""A comment is sent after so much silence, so that a dead connection is found."""
RESUME_FRAMES_MAX: Final = 600
"""A resumed stream that lacks more frames gets a keyframe, which is smaller."""

_encode: Final = msgspec.json.Encoder().encode


def event(kind: str, run: str, frame: int, data: object) -> bytes:
    """One server-sent event. JSON has no line ends, so the data is one line."""
    return b"event: %s\nid: %s-%d\ndata: %s\n\n" % (
        kind.encode(),
        run.encode(),
        frame,
        _encode(data),
    )


def frame_of(last_event_id: str | None, run: str) -> int | None:
    """The frame that a browser saw last; None if it is not one of this run."""
    if last_event_id is None:
        return None
    named, _, frame = last_event_id.rpartition("-")
    return int(frame) if named == run and frame.isdecimal() and len(frame) < 16 else None


class Stream:
    """The stream of one page. Nothing waits for it, and it keeps nothing."""

    def __init__(self, pulse: Pulse, scope: Scope, last_event_id: str | None) -> None:
        self._pulse = pulse
        self._recorder = pulse.recorder
        self._scope = scope
        self._frame = frame_of(last_event_id, self._recorder.run)
        self._ordered: list[str] | None = None
        self._names: frozenset[str] = frozenset()

    async def parts(self) -> AsyncIterator[bytes]:
        """The bytes of the stream, until the console ends."""
        yield b"retry: 1000\n\n"
        yield await self._begin()
        while not self._pulse.is_over:
            assert self._frame is not None
            if not await self._pulse.beyond(self._frame, QUIET_S):
                yield b": quiet\n\n"
            elif data := self._go_on(self._frame):
                yield data

    async def _begin(self) -> bytes:
        frame, recorder = self._frame, self._recorder
        if frame is None or not recorder.has_all_after(frame):
            return self._keyframe()
        if recorder.frame - frame > RESUME_FRAMES_MAX:
            return self._keyframe()
        self._choose()
        kept = recorder.deltas_after(frame, self._scope)
        return self._deltas(await asyncio.get_running_loop().run_in_executor(None, list, kept))

    def _go_on(self, frame: int) -> bytes:
        deltas = self._pulse.after(frame)
        before = self._names
        self._choose()
        if deltas is None or self._names != before:
            return self._keyframe()
        return self._deltas(deltas)

    def _choose(self) -> None:
        """The partitions of the scope, as they are now."""
        ordered = self._recorder.ordered
        if ordered is not self._ordered:
            self._ordered = ordered
            self._names = self._scope.choose(ordered)[0]

    def _keyframe(self) -> bytes:
        self._choose()
        keyframe: Keyframe = self._recorder.now(self._scope)
        self._frame = keyframe.instant.frame
        return event("keyframe", self._recorder.run, self._frame, keyframe)

    def _deltas(self, deltas: list[Delta]) -> bytes:
        sent = []
        for delta in deltas:
            self._frame = delta.frame
            scoped = delta if self._scope.is_all else within_scope(delta, self._names)
            if not is_empty(scoped):
                sent.append(event("delta", self._recorder.run, delta.frame, scoped))
        return b"".join(sent) if sent else b": nothing of the scope\n\n"

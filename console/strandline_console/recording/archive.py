"""The frames of the last 15 minutes, compressed, bounded in time and in bytes.

The archive is a row of segments. Each begins with a keyframe, and has the deltas that follow it.
The state at an instant is the keyframe of its segment with the deltas up to the instant. A segment
leaves as a whole, the oldest first.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import cramjam
import msgspec

from strandline_console.messages import Delta, Summary
from strandline_console.recording.entities import Maps, apply, new_maps

KEPT_MS: Final = 15 * 60_000
BYTES_MAX: Final = 256 << 20
KEYFRAME_EVERY_MS: Final = 10_000
SEGMENTS_MIN: Final = 16
"""A segment takes at most this part of the bytes, so that the archive always holds several."""
_OVERHEAD: Final = 200
"""Bytes that an entry takes beside its data."""

_encode: Final = msgspec.json.Encoder().encode


class _Whole(msgspec.Struct):
    maps: dict[str, dict[str, dict[str, Any]]]
    summary: Summary


_decode_whole: Final = msgspec.json.Decoder(_Whole).decode
_decode_delta: Final = msgspec.json.Decoder(Delta).decode


@dataclass(slots=True)
class _Entry:
    frame: int
    at_ms: int
    data: bytes


@dataclass(slots=True)
class _Segment:
    frame: int
    at_ms: int
    keyframe: bytes
    """The state after the frame `frame`."""
    deltas: list[_Entry] = field(default_factory=list)
    size: int = 0


class Archive:
    """Keeps frames. `whole` gives the present state, for keyframes."""

    def __init__(
        self,
        whole: Callable[[], tuple[Maps, Summary]],
        *,
        bytes_max: int = BYTES_MAX,
        kept_ms: int = KEPT_MS,
    ) -> None:
        self._whole = whole
        self._bytes_max = bytes_max
        self._kept_ms = kept_ms
        self._segments: deque[_Segment] = deque()
        self.size = 0
        """Bytes that the archive takes."""

    def begin(self, frame: int, at_ms: int) -> None:
        """Start a segment with the present state."""
        maps, summary = self._whole()
        data = _pack(_encode(_Whole(maps, summary)))
        size = len(data) + _OVERHEAD
        self._segments.append(_Segment(frame, at_ms, data, size=size))
        self.size += size

    def add(self, delta: Delta) -> None:
        """Keep one frame, whose changes the present state already has."""
        self._forget(delta.at_ms)
        last = self._segments[-1]
        # A keyframe for each so many bytes of deltas, so that large states cost no more for it.
        is_due = delta.at_ms - last.at_ms >= KEYFRAME_EVERY_MS
        is_long = last.size >= 2 * len(last.keyframe) or (
            delta.at_ms - last.at_ms >= 6 * KEYFRAME_EVERY_MS
        )
        is_large = last.size >= self._bytes_max // SEGMENTS_MIN
        data = _pack(_encode(delta))
        size = len(data) + _OVERHEAD
        last.deltas.append(_Entry(delta.frame, delta.at_ms, data))
        last.size += size
        self.size += size
        if (is_due and is_long) or (is_large and last.size > 2 * len(last.keyframe)):
            self.begin(delta.frame, delta.at_ms)

    def _forget(self, now_ms: int) -> None:
        """Drop the oldest segments. The next one's keyframe is then the oldest instant."""
        while len(self._segments) > 1 and (
            self.size > self._bytes_max or self._segments[1].at_ms < now_ms - self._kept_ms
        ):
            self.size -= self._segments.popleft().size

    @property
    def oldest_ms(self) -> int:
        return self._segments[0].at_ms

    @property
    def oldest_frame(self) -> int:
        return self._segments[0].frame

    def state_at(
        self, *, instant_ms: int | None = None, frame: int | None = None
    ) -> tuple[int, int, Maps, Summary]:
        """(frame, instant, maps, summary) of the last frame at or before the instant, or of the
        frame. An instant before the oldest one gives the oldest.
        """
        name, limit = ("frame", frame) if instant_ms is None else ("at_ms", instant_ms)
        assert limit is not None
        segments = list(self._segments)
        at = max(0, bisect_right(segments, limit, key=attrgetter(name)) - 1)
        segment = segments[at]
        whole = _decode_whole(_unpack(segment.keyframe))
        maps, summary = {**new_maps(), **whole.maps}, whole.summary
        number, at_ms = segment.frame, segment.at_ms
        for entry in segment.deltas[: bisect_right(segment.deltas, limit, key=attrgetter(name))]:
            delta = _decode_delta(_unpack(entry.data))
            apply(maps, delta.changed, delta.removed)
            summary = delta.summary or summary
            number, at_ms = entry.frame, entry.at_ms
        return number, at_ms, maps, summary

    def deltas_after(self, frame: int, *, until_ms: int | None = None) -> Iterator[Delta]:
        """The kept frames after `frame`, in order. `frame` must not be older than the archive."""
        for segment in list(self._segments):
            if segment.deltas and segment.deltas[-1].frame > frame:
                first = bisect_right(segment.deltas, frame, key=attrgetter("frame"))
                for entry in segment.deltas[first:]:
                    if until_ms is not None and entry.at_ms > until_ms:
                        return
                    yield _decode_delta(_unpack(entry.data))


def _pack(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=1))


def _unpack(data: bytes) -> bytes:
    return bytes(cramjam.zstd.decompress(data))

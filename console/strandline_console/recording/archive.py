"""The frames of the last 15 minutes, compressed, bounded in time and in bytes.

The archive is a row of segments. Each begins with a keyframe, and has the deltas that follow it.
The state at an instant is the keyframe of its segment with the deltas up to the instant. A segment
leaves as a whole, the oldest first.

A keyframe is made a chunk at a time, one with each frame, so that no frame waits for a large state.
Its chunks are of different frames. The deltas from its first frame on are applied to all of it: a
patch sets values, so a chunk that has it already stays the same.
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
CHUNK: Final = 500
"""Entities of a keyframe's chunk."""
_OVERHEAD: Final = 200
"""Bytes that an entry takes beside its data."""

_encode: Final = msgspec.json.Encoder().encode


_decode_chunk: Final = msgspec.json.Decoder(dict[str, dict[str, dict[str, Any]]]).decode
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
    chunks: list[bytes]
    """The keyframe: with `lead` applied, the state after the frame `frame`."""
    lead: list[_Entry]
    """The deltas of the frames in which the keyframe was made."""
    summary: Summary
    """As it was after the frame `frame`."""
    keyframe_size: int
    deltas: list[_Entry] = field(default_factory=list)
    size: int = 0


class _Making:
    """A keyframe that is being made of the present state."""

    def __init__(self, maps: Maps, chunk: int) -> None:
        self._maps = maps
        self._chunk = chunk
        self._keys = [(name, key) for name, of_map in maps.items() for key in of_map]
        self._at = 0
        self.chunks: list[bytes] = []
        self.lead: list[_Entry] = []

    def step(self) -> bool:
        """Make one chunk. True once the keyframe is complete."""
        found: Maps = {}
        for name, key in self._keys[self._at : self._at + self._chunk]:
            entity = self._maps[name].get(key)
            if entity is not None:
                found.setdefault(name, {})[key] = entity
        self._at += self._chunk
        self.chunks.append(_pack(_encode(found)))
        return self._at >= len(self._keys)


class Archive:
    """Keeps frames. `whole` gives the present state, for keyframes."""

    def __init__(
        self,
        whole: Callable[[], tuple[Maps, Summary]],
        *,
        bytes_max: int = BYTES_MAX,
        kept_ms: int = KEPT_MS,
        chunk: int = CHUNK,
    ) -> None:
        self._whole = whole
        self._bytes_max = bytes_max
        self._kept_ms = kept_ms
        self._chunk = chunk
        self._segments: deque[_Segment] = deque()
        self._making: _Making | None = None
        self.size = 0
        """Bytes that the archive takes."""

    def begin(self, frame: int, at_ms: int) -> None:
        """Start the first segment with the present state."""
        self._making = _Making(self._whole()[0], self._chunk)
        while not self._making.step():
            pass
        self._complete(self._making, frame, at_ms)

    def _complete(self, made: _Making, frame: int, at_ms: int) -> None:
        """Start a segment with a keyframe."""
        self._making = None
        size = sum(map(len, made.chunks)) + _OVERHEAD * len(made.chunks)
        size += sum(len(entry.data) + _OVERHEAD for entry in made.lead)
        summary = self._whole()[1]
        self._segments.append(
            _Segment(frame, at_ms, made.chunks, made.lead, summary, size, size=size)
        )
        self.size += size

    def add(self, delta: Delta) -> None:
        """Keep one frame, whose changes the present state already has. Its work is that of the
        frame and of one chunk.
        """
        self._forget(delta.at_ms)
        last = self._segments[-1]
        data = _pack(_encode(delta))
        entry = _Entry(delta.frame, delta.at_ms, data)
        size = len(data) + _OVERHEAD
        is_due = self._is_due(last, delta.at_ms)
        last.deltas.append(entry)
        last.size += size
        self.size += size
        if self._making is not None:
            self._making.lead.append(entry)
        elif is_due:
            self._making = _Making(self._whole()[0], self._chunk)
        if self._making is not None and self._making.step():
            self._complete(self._making, delta.frame, delta.at_ms)

    def _is_due(self, last: _Segment, now_ms: int) -> bool:
        """True if a keyframe has to be made: one for each so many bytes of deltas, so that large
        states cost no more for it.
        """
        age_ms, keyframe = now_ms - last.at_ms, last.keyframe_size
        is_long = last.size >= 2 * keyframe or age_ms >= 6 * KEYFRAME_EVERY_MS
        is_large = last.size >= self._bytes_max // SEGMENTS_MIN and last.size > 2 * keyframe
        return is_large or (is_long and age_ms >= KEYFRAME_EVERY_MS)

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
        maps, summary = new_maps(), segment.summary
        for chunk in segment.chunks:
            for map_name, entities in _decode_chunk(_unpack(chunk)).items():
                maps[map_name].update(entities)
        for entry in segment.lead:
            delta = _decode_delta(_unpack(entry.data))
            apply(maps, delta.changed, delta.removed)
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

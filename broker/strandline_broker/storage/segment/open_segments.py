"""Which sealed segments keep their file and indexes open: those that were read last, over all logs
of a broker.

So descriptors and memory stay bounded however many segments there are. What is closed here is only
let go: a reader in the middle holds a `View`. Active segments, and sealed ones that are not yet
flushed, are open besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.storage.segment.segment import Segment

OPEN_MAX: Final = 256
INDEX_BYTES_MAX: Final = 64 << 20
"""Bytes of their indexes in memory; one segment may stay open whatever it takes."""

OTHERS: Final = 1024
"""Descriptors for what is no active segment: sealed ones, checkpoints, connections."""


def replicas_max(descriptors: int) -> int:
    """How many replicas a process with so many descriptors can hold, each with a segment open."""
    return descriptors - min(OTHERS, descriptors // 2)


class OpenSegments:
    """Used from the event loop and the disk pool at once: each step is one operation of a dict."""

    __slots__ = ("_index_bytes_max", "_open", "_open_max")

    def __init__(self, open_max: int = OPEN_MAX, *, index_bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._open_max = open_max
        self._index_bytes_max = index_bytes_max
        self._open: dict[Segment, int] = {}
        """Bytes of indexes by segment, the one that was read longest ago first."""

    def touch(self, segment: Segment) -> None:
        """A sealed segment is about to be read: keep it open, let the oldest go."""
        if not segment.flushed:
            return
        known = self._open.pop(segment, None)
        self._open[segment] = segment.view().index_bytes if known is None else known
        if known is None:
            self._shrink()

    def _shrink(self) -> None:
        held = list(self._open.items())
        index_bytes = sum(size for _, size in held)
        for i, (segment, size) in enumerate(held[:-1]):
            if len(held) - i <= self._open_max and index_bytes <= self._index_bytes_max:
                return
            self.forget([segment])
            index_bytes -= size

    def forget(self, segments: Iterable[Segment]) -> None:
        """These are not read any more, or no longer part of a log."""
        for segment in segments:
            self._open.pop(segment, None)
            segment.release()

    def give_up(self, segments: Sequence[Segment]) -> None:
        """These have left their log, so nobody flushes them any more; some may refer to them for
        long (I-182).
        """
        for segment in segments:
            segment.unsynced = ()
        self.forget(segments)

    def __len__(self) -> int:
        return len(self._open)

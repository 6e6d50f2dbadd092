"""The sealed segments whose file and indexes stay open: those read last, over all logs of a broker.

Descriptors and memory therefore stay bounded, however many segments there are. Closing here only
releases a segment: an active reader holds a `View`. Active segments, and sealed ones that are not
yet flushed, are open in addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.storage.segment.segment import Segment

OPEN_MAX: Final = 256
"""Fewer where the process may have few files open."""
INDEX_BYTES_MAX: Final = 64 << 20
"""Limit on the bytes of indexes in memory; one segment may always stay open."""

OTHER_FILES: Final = 512
"""Descriptors for what is neither an active segment nor a client's connection: sealed segments,
checkpoints, connections to other servers.
"""


def connections_max(descriptors: int) -> int:
    """The limit on the connections that a process with so many descriptors accepts."""
    return descriptors // 4


def replicas_max(descriptors: int) -> int:
    """The limit on its replicas, each of which has a segment open: connections take nothing of
    this share.
    """
    return descriptors - connections_max(descriptors) - _other_files(descriptors)


def sealed_max(descriptors: int) -> int:
    """The limit on the sealed segments that it keeps open."""
    return min(OPEN_MAX, _other_files(descriptors) // 2)


def _other_files(descriptors: int) -> int:
    return min(OTHER_FILES, descriptors // 4)


class OpenSegments:
    """The open sealed segments, used from the event loop and the disk pool at once: each step is
    one operation of a dict.
    """

    __slots__ = ("_index_bytes_max", "_open", "_open_max")

    def __init__(self, open_max: int = OPEN_MAX, *, index_bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._open_max = open_max
        self._index_bytes_max = index_bytes_max
        self._open: dict[Segment, int] = {}
        """Bytes of indexes by segment, the least recently read first."""

    def touch(self, segment: Segment) -> None:
        """Keep `segment` open, because it is about to be read; release the least recently read."""
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
        """Release segments that are not read any more or have left their log."""
        for segment in segments:
            self._open.pop(segment, None)
            segment.release()

    def give_up(self, segments: Sequence[Segment]) -> None:
        """Release segments that have left their log, together with their unsynced files: no flush
        will sync these, and some objects may refer to the segments for long (I-182).
        """
        for segment in segments:
            segment.unsynced = ()
        self.forget(segments)

    def __len__(self) -> int:
        return len(self._open)

"""A segment that a cleaning writes: `.cleaned` while it grows, `.swap` once it is whole and
durable.

The last batch of its group stays, as a bare header if it has no records left. The file itself
therefore shows up to which offset it stands for, and the log's end is not lost with its last
records (I-79). After a crash, recovery reads from a `.swap` which segments it replaces (I-73).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.log.interrupted_swap import CLEANED, SWAP
from strandline_broker.storage.segment.segment import Segment
from strandline_broker.storage.segment.txn_index import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.storage.segment.txn_index import AbortedTransaction
    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

FILES: Final = ("index", "timeindex", "log")
"""Suffixes in the order of renaming: if the log has its new name, the indexes have theirs."""


def files_of(segment: Segment) -> tuple[str, ...]:
    """The suffixes of a cleaned segment, in the order of renaming."""
    return (SUFFIX, *FILES) if segment.has_aborted else FILES


class CleanedSegment:
    """One segment, written from a group of neighbours; blocking."""

    def __init__(
        self,
        fs: FileSystem,
        group: Sequence[Segment],
        *,
        index_interval: int,
        buffer_bytes: int,
    ) -> None:
        self._fs = fs
        self._group = tuple(group)
        self._buffer_bytes = buffer_bytes
        self._buffered: list[bytes] = []
        self._buffered_bytes = 0
        self._position = 0
        self.aborted: tuple[AbortedTransaction, ...] = ()
        """Aborted transactions of which batches stay, by the markers in this segment."""
        self.segment = Segment.create(
            fs,
            group[0].directory,
            group[0].base_offset,
            index_interval=index_interval,
            ending=CLEANED,
        )
        self._file = self.segment.view().file

    def append(self, header: BatchHeader, data: bytes) -> None:
        segment = self.segment
        segment.note_batch(segment.size, header, header.last_offset)
        self._buffered.append(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes >= self._buffer_bytes:
            self._write()

    def _write(self) -> None:
        data = b"".join(self._buffered)
        self._buffered, self._buffered_bytes = [], 0
        if data:
            self._file.write((data,), len(data), self._position)
            self._position += len(data)

    def finish(self) -> Segment:
        """Write the rest and make everything durable under the name `.swap`."""
        self._write()
        segment = self.segment
        assert segment.size == self._position, (segment.size, self._position)
        segment.end_offset = self._group[-1].end_offset
        for file in (self._file, *segment.write_indexes()):
            file.sync()
        if self.aborted:
            segment.add_aborted(self.aborted)
            segment.sync_aborted()
        self._rename(SWAP)
        self._fs.fsync_dir(segment.directory)
        return segment

    def _rename(self, ending: str) -> None:
        files = files_of(self.segment)
        before = [self.segment.path(suffix) for suffix in files]
        for path, suffix in zip(before, files, strict=True):
            self.segment.ending = ending
            self._fs.replace(path, self.segment.path(suffix))

    def discard(self) -> None:
        """Remove the files, under either name; no segment is replaced.

        The log goes first, so a `.swap` that a crash leaves is whole.
        """
        for ending in (SWAP, CLEANED):
            self.segment.ending = ending
            for suffix in (*reversed(FILES), SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(self.segment.path(suffix))

"""Segments that have left their log: renamed to `.deleted` at once, removed after a delay.

The delay (`file.delete.delay.ms`) is for those who use the files by name, such as an operator's
copy. Our own readers hold descriptors, which a removal does not affect. If a process ends before it
has removed the files, recovery removes them at the next start.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.storage.segment.segment import Segment
    from strandline_runtime.runtime import FileSystem

SUFFIX: Final = ".deleted"
DELETED_NAME: Final = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)\.deleted")
_OF_A_SEGMENT: Final = ("log", "index", "timeindex", "txnindex")
_SNAPSHOT: Final = "snapshot"


class DeletedSegments:
    """The deleted segments of one log. Every method blocks; the disk pool calls one at a time."""

    __slots__ = ("_fs", "_going", "_waiting", "directory")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.directory = directory
        self._waiting: list[tuple[int, str]] = []
        """(time, path) of each renamed file, in the order of renaming."""
        self._going: list[tuple[int, str]] = []
        """(time, path) of files that still have their own names because of an error."""

    @property
    def next_ms(self) -> int | None:
        """The time at which `purge` has work next; None: never. Callable from any thread."""
        return min((due_ms for due_ms, _ in self._waiting), default=None)

    @property
    def is_behind(self) -> bool:
        """True if another `add`, even without segments, has files to rename."""
        return bool(self._going)

    def add(
        self, segments: Iterable[Segment], *, now_ms: int, delay_ms: int, snapshots: bool = True
    ) -> None:
        """Rename the files of `segments`, which have left the log, oldest first; durable on return.

        With `snapshots`, the producer snapshots at their base offsets are renamed too. After an
        OSError only some are renamed. The next call renames the others first: a later segment must
        not go before them, or a start would find a hole.
        """
        suffixes = (*_OF_A_SEGMENT, _SNAPSHOT) if snapshots else _OF_A_SEGMENT
        due_ms = now_ms + delay_ms
        self._going += [(due_ms, each.path(suffix)) for each in segments for suffix in suffixes]
        # The names of the replacing segments are durable before these names are removed.
        self._fs.fsync_dir(self.directory)
        while self._going:
            due_ms, path = self._going[0]
            with contextlib.suppress(FileNotFoundError):
                self._fs.replace(path, path + SUFFIX)
                self._waiting.append((due_ms, path + SUFFIX))
            del self._going[0]
        self._fs.fsync_dir(self.directory)

    def remove_behind(self) -> None:
        """Remove the files that were left, newest first. The log is restarting, perhaps at an
        offset that names one of these files. Raises OSError like any removal.
        """
        while self._going:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self._going[-1][1])
            del self._going[-1]

    def await_removal(self, paths: Iterable[str], *, now_ms: int, delay_ms: int) -> None:
        """Schedule the removal of files that other code has renamed durably."""
        self._waiting.extend((now_ms + delay_ms, path) for path in paths)

    def purge(self, now_ms: int) -> None:
        """Remove the files whose delay is over. After an OSError the remaining files stay until the
        next start.
        """
        due = [path for due_ms, path in self._waiting if due_ms <= now_ms]
        self._waiting = [item for item in self._waiting if item[0] > now_ms]
        for path in due:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(path)

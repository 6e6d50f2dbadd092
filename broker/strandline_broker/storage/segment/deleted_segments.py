"""Segments that have left their log: renamed to `.deleted` at once, removed after a while.

The delay (`file.delete.delay.ms`) is for whoever has the files in use by their names, such as an
operator's copy; our own readers hold descriptors, which a removal leaves alone. What a process did
not come to remove, recovery removes at the next start.
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
    """Those of one log. Every method blocks, and belongs to the disk pool, one call at a time."""

    __slots__ = ("_fs", "_going", "_waiting", "directory")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.directory = directory
        self._waiting: list[tuple[int, str]] = []
        """(when, path) of each renamed file, in the order of renaming."""
        self._going: list[tuple[int, str]] = []
        """The same of files that still have their own names: an error left them behind."""

    @property
    def next_ms(self) -> int | None:
        """When `purge` has something to do next; None: never. From anywhere."""
        return min((due_ms for due_ms, _ in self._waiting), default=None)

    @property
    def is_behind(self) -> bool:
        """Whether files are left for another `add`, even of nothing."""
        return bool(self._going)

    def add(
        self, segments: Iterable[Segment], *, now_ms: int, delay_ms: int, snapshots: bool = True
    ) -> None:
        """Rename the files of `segments`, which the log holds no more, oldest first; durable on
        return.

        `snapshots`: the producer snapshots at their base offsets go too. OSError: some are renamed.
        The others go first the next time, as those behind them must not: a start would find a hole.
        """
        suffixes = (*_OF_A_SEGMENT, _SNAPSHOT) if snapshots else _OF_A_SEGMENT
        due_ms = now_ms + delay_ms
        self._going += [(due_ms, each.path(suffix)) for each in segments for suffix in suffixes]
        # What takes the place of the segments has a name that lasts before theirs goes.
        self._fs.fsync_dir(self.directory)
        while self._going:
            due_ms, path = self._going[0]
            with contextlib.suppress(FileNotFoundError):
                self._fs.replace(path, path + SUFFIX)
                self._waiting.append((due_ms, path + SUFFIX))
            del self._going[0]
        self._fs.fsync_dir(self.directory)

    def remove_behind(self) -> None:
        """Remove what was left behind, newest first: the log is begun anew, perhaps at an offset
        that one of these files is named after. OSError as of any removal.
        """
        while self._going:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self._going[-1][1])
            del self._going[-1]

    def await_removal(self, paths: Iterable[str], *, now_ms: int, delay_ms: int) -> None:
        """These files were renamed elsewhere, durably."""
        self._waiting.extend((now_ms + delay_ms, path) for path in paths)

    def purge(self, now_ms: int) -> None:
        """Remove the files whose delay is over. OSError: what could not be removed stays until the
        next start.
        """
        due = [path for due_ms, path in self._waiting if due_ms <= now_ms]
        self._waiting = [item for item in self._waiting if item[0] > now_ms]
        for path in due:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(path)

"""A cleaned segment replaces old ones, in a log that is in use (I-73).

Four steps follow in this order, and the caller holds the partition's gate throughout:

1. `show`, on the event loop: readers get the new segment, whose files end in `.swap`.
2. `set_old_aside`, in the disk pool: the old files are renamed to `.deleted`, durably.
3. `name`, on the event loop: the new files get their final names.
4. `settle`, in the disk pool: these names become durable.

A crash before the second step leaves the old segments whole, and the `.swap` that covers them. A
crash after it leaves the `.swap` alone. In both cases `interrupted_swap` finishes the work at the
next start, so old and new segments never mix, and no gap appears. An error, such as a full disk,
stops the swap in the same way. The log is then out of use until the next start, because a cut would
reach the new segment only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strandline_broker.storage.cleaner.cleaned_segment import FILES, files_of
from strandline_broker.storage.segment.txn_index import SUFFIX

if TYPE_CHECKING:
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.segment import Segment
    from strandline_runtime.runtime import FileSystem


class Swap:
    def __init__(self, fs: FileSystem, log: Log, old: tuple[Segment, ...], new: Segment) -> None:
        self._fs = fs
        self._log = log
        self._old = old
        self._new = new
        self._set_aside: list[str] = []

    def show(self) -> bool:
        """Show the new segment; False, with nothing done, if the log no longer holds the old
        segments as they were.
        """
        return self._log.replace_segments(self._old, (self._new,))

    def set_old_aside(self) -> None:
        try:
            for segment in self._old:
                for suffix in (*reversed(FILES), SUFFIX):
                    path = segment.path(suffix)
                    with contextlib.suppress(FileNotFoundError):
                        self._fs.replace(path, f"{path}.deleted")
                        self._set_aside.append(f"{path}.deleted")
            self._fs.fsync_dir(self._log.path)
        except OSError as error:
            self._log.state.fail(f"{self._log.path}: a compaction stopped half-way ({error})")
            raise

    def name(self) -> None:
        """Give the files their final names. Readers that open them meanwhile start over: this is a
        replacement too.
        """
        replaced = self._log.replace_segments((self._new,), (self._new,), move_files=self._rename)
        assert replaced, (self._log.path, self._new.base_offset)

    def _rename(self) -> None:
        files = files_of(self._new)
        before = [self._new.path(suffix) for suffix in files]
        self._new.ending = ""
        for path, suffix in zip(before, files, strict=True):
            self._fs.replace(path, self._new.path(suffix))

    def settle(self, *, now_ms: int) -> None:
        """Make the names durable; `now_ms` begins the delay after which the old files are
        removed.
        """
        self._fs.fsync_dir(self._log.path)
        self._log.deleted_segments.await_removal(
            self._set_aside, now_ms=now_ms, delay_ms=self._log.config.file_delete_delay_ms
        )

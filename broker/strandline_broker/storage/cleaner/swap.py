"""A cleaned segment takes the place of old ones, in a log that is in use (I-73).

Four steps in this order, the caller holding the partition's gate from the first to the last:

1. `show`, on the event loop: readers get the new segment, whose files end in `.swap`;
2. `set_old_aside`, in the disk pool: the old files are renamed to `.deleted`, durably;
3. `name`, on the event loop: the new files get their final names;
4. `settle`, in the disk pool: these names are durable.

A crash before the second step leaves the old segments whole, and the `.swap` that covers them; one
after it leaves the `.swap` alone. In both cases `interrupted_swap` finishes the work at the next
start, so there is never a mixture of old and new, nor a gap. So does one that an error stops, as a
full disk may: a cut would come to the new segment alone. The log is out of use until then.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strandline_broker.storage.cleaner.cleaned_segment import FILES

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
        """False, and nothing done, if the log no longer holds the old segments as they were."""
        return self._log.replace_segments(self._old, (self._new,))

    def set_old_aside(self) -> None:
        try:
            for segment in self._old:
                for suffix in (*reversed(FILES), "txnindex"):
                    path = segment.path(suffix)
                    with contextlib.suppress(FileNotFoundError):
                        self._fs.replace(path, f"{path}.deleted")
                        self._set_aside.append(f"{path}.deleted")
            self._fs.fsync_dir(self._log.path)
        except OSError as error:
            self._log.state.fail(f"{self._log.path}: a compaction stopped half-way ({error})")
            raise

    def name(self) -> None:
        """Readers that open the files meanwhile start over: this too is a replacement."""
        replaced = self._log.replace_segments((self._new,), (self._new,), move_files=self._rename)
        assert replaced, (self._log.path, self._new.base_offset)

    def _rename(self) -> None:
        before = [self._new.path(suffix) for suffix in FILES]
        self._new.ending = ""
        for path, suffix in zip(before, FILES, strict=True):
            self._fs.replace(path, self._new.path(suffix))

    def settle(self, *, now_ms: int) -> None:
        """`now_ms` counts the delay after which the old files are removed."""
        self._fs.fsync_dir(self._log.path)
        self._log.deleted_segments.await_removal(
            self._set_aside, now_ms=now_ms, delay_ms=self._log.config.file_delete_delay_ms
        )

"""Limits on one partition's checkpoints: `checkpoint-limit-<n>` holds the offset above which they
must not be trusted.

Shared files store the recovery point, high watermark, log start and compaction offset of all
partitions. The disk pool writes them from time to time. A log may be cut below its recovery point,
or created in place of an older topic of the same name. Those files then still hold higher offsets
than the log. After a later crash they would make a torn tail look like flushed data, or a cut log
look damaged.

The cut therefore first writes, durably, a small file into the partition's directory. The file is
removed when each shared file has been written again. A log start that was written since, and
reported to followers and clients, counts at once: the file is replaced by one that lists the
remaining checkpoints. Names are never reused while the data directory is open. The pool can
therefore remove one file while the next is written, even for another log at that place.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    natural,
    read_checkpoint,
    write_checkpoint,
)

if TYPE_CHECKING:
    from strandline_broker.storage.files.damage import Report
    from strandline_runtime.runtime import FileSystem

NAME: Final = re.compile(r"checkpoint-limit-(\d+)")
SHARED: Final = frozenset({RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED})


@dataclass(slots=True)
class Limit:
    name: str
    offset: int
    awaits: frozenset[str] = SHARED
    """Shared checkpoint files that have not been written since the limit."""
    named: frozenset[str] = SHARED
    """Shared checkpoint files to which the limit applies on disk."""


class CheckpointLimits:
    __slots__ = ("_fs", "_limits", "_prepared", "directory", "is_lost", "next_number")

    def __init__(self, fs: FileSystem, directory: str, first_number: int = 0) -> None:
        self._fs = fs
        self.directory = directory
        self.is_lost = False
        """True if a limit did not parse: it is then unknown what was durable below it (I-7)."""
        self._limits: tuple[Limit, ...] = ()
        self._prepared: tuple[Limit, ...] = ()
        """Limits whose cut is not visible yet; permanently so if the cut failed before that."""
        self.next_number = first_number

    @classmethod
    def load(
        cls, fs: FileSystem, directory: str, report: Report, first_number: int = 0
    ) -> CheckpointLimits:
        """The limits of a log, or of an interrupted creation; new ones are numbered from
        `first_number` on.
        """
        limits = cls(fs, directory, first_number)
        found = []
        for name in fs.listdir(directory):
            match = NAME.fullmatch(name)
            if match is None:
                continue
            limits.next_number = max(limits.next_number, int(match[1]) + 1)
            entries = read_checkpoint(fs, f"{directory}/{name}", report) or []
            try:
                ((offset, *awaits),) = entries
                left = SHARED.intersection(awaits) or SHARED
                found.append(Limit(name, natural(offset), left, left))
            except ValueError:
                found.append(Limit(name, 0))  # trust nothing: the whole log is scanned
                limits.is_lost = True
        limits._limits = tuple(found)
        return limits

    def lowest(self, shared: str) -> int | None:
        """The offset up to which the shared file is trusted; None without a limit."""
        return min((limit.offset for limit in self._limits if shared in limit.awaits), default=None)

    def add(self, offset: int) -> None:
        """Trust no checkpoint of this partition above `offset` from now on; durable on return."""
        self.prepare(offset)
        self.count()

    def prepare(self, offset: int) -> None:
        """Write a limit for a cut that is not visible yet. Until `count` is called, a checkpoint
        may still hold the log's values from before the cut.
        """
        limit = Limit(f"checkpoint-limit-{self.next_number}", offset)
        self.next_number += 1
        try:
            self._write(limit)
        except OSError:
            # The file may exist all the same, for a cut that does not happen.
            with contextlib.suppress(OSError):
                self._fs.unlink(f"{self.directory}/{limit.name}")
            raise
        self._prepared = (*self._prepared, limit)

    def count(self) -> None:
        """Make the prepared limits count: the cut is visible, and later values of the log respect
        it.

        This also drops what `written` has removed; doing it here keeps the two in order.
        """
        left = [limit for limit in self._limits if limit.awaits]
        self._limits, self._prepared = (*left, *self._prepared), ()

    def _write(self, limit: Limit) -> None:
        words = (limit.offset, *sorted(limit.awaits if limit.awaits != SHARED else ()))
        line = " ".join(map(str, words))
        write_checkpoint(self._fs, f"{self.directory}/{limit.name}", [line])

    def current(self) -> tuple[Limit, ...]:
        return self._limits

    def written(self, limits: tuple[Limit, ...], shared: str, offset: int) -> None:
        """Record that the shared file `shared` was durably written, with values taken after
        `limits` had been read; `offset` is this partition's. Raises OSError if the record cannot be
        written.
        """
        for limit in limits:
            left = limit.awaits - {shared}
            if not left:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(f"{self.directory}/{limit.name}")
            elif shared == LOG_STARTS and shared in limit.named and offset > limit.offset:
                # Not at the first write, which may still contain a log start below the limit.
                self._write(Limit(limit.name, limit.offset, left))
                limit.named = left
            limit.awaits = left

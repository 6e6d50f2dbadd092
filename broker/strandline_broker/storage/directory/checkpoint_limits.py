"""`checkpoint-limit-<n>`: above which offset the checkpoints of one partition must not be believed.

The recovery point, high watermark and log start of all partitions, and up to where each was
compacted, stand in shared files that the disk pool writes now and then. When a log is cut below its
recovery point, or created where an older topic of the same name stood, those files still say more
than the log can keep; taken at their word, a later crash would pass a torn tail for flushed data,
or call a cut log damaged. So the cut first writes, durably, a small file of its own into the
partition's directory. It is removed when each shared file has been written again since. A log start
that was written since, and that followers and clients are told of, counts at once: the file is
replaced by one that names what it still is for. Names are never reused while the data directory is
open, so the pool can remove one while the next is written, be it of another log in that place.
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
    from strandline_broker.storage.segment.damage import Report
    from strandline_runtime.runtime import FileSystem

NAME: Final = re.compile(r"checkpoint-limit-(\d+)")
SHARED: Final = frozenset({RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED})


@dataclass(slots=True)
class Limit:
    name: str
    offset: int
    awaits: frozenset[str] = SHARED
    """Shared checkpoint files that have not been written since."""
    named: frozenset[str] = SHARED
    """Those for which the limit's own file counts."""


class CheckpointLimits:
    __slots__ = ("_fs", "_limits", "_prepared", "directory", "is_lost", "next_number")

    def __init__(self, fs: FileSystem, directory: str, first_number: int = 0) -> None:
        self._fs = fs
        self.directory = directory
        self.is_lost = False
        """Whether one did not read: what was durable below it nobody knows (I-7)."""
        self._limits: tuple[Limit, ...] = ()
        self._prepared: tuple[Limit, ...] = ()
        """Those whose cut does not show yet; for good if it has failed before that."""
        self.next_number = first_number

    @classmethod
    def load(
        cls, fs: FileSystem, directory: str, report: Report, first_number: int = 0
    ) -> CheckpointLimits:
        """Those of a log, or what a crash left of its creation; new ones from `first_number` on."""
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
                found.append(Limit(name, 0))  # nothing is believed: the whole log is scanned
                limits.is_lost = True
        limits._limits = tuple(found)
        return limits

    def lowest(self, shared: str) -> int | None:
        """Up to where the shared file is believed; None if nothing limits it."""
        return min((limit.offset for limit in self._limits if shared in limit.awaits), default=None)

    def add(self, offset: int) -> None:
        """From now on no checkpoint of this partition counts above `offset`; durable on return."""
        self.prepare(offset)
        self.count()

    def prepare(self, offset: int) -> None:
        """As `add`, for a cut that does not show yet: until `count`, what is written may be of the
        log as it was.
        """
        limit = Limit(f"checkpoint-limit-{self.next_number}", offset)
        self.next_number += 1
        try:
            self._write(limit)
        except OSError:
            # It may be there all the same, of a cut that does not come.
            with contextlib.suppress(OSError):
                self._fs.unlink(f"{self.directory}/{limit.name}")
            raise
        self._prepared = (*self._prepared, limit)

    def count(self) -> None:
        """The cut shows: what is taken from the log from here on counts for what was prepared.

        Also drops what `written` has removed; here, so that neither overtakes the other.
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
        """The shared file `shared` was durably written with values taken after `limits` had been
        read; `offset` is this partition's. OSError if that cannot be made to count.
        """
        for limit in limits:
            left = limit.awaits - {shared}
            if not left:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(f"{self.directory}/{limit.name}")
            elif shared == LOG_STARTS and shared in limit.named and offset > limit.offset:
                # Not at the first write: that may still have been of a log start below the limit.
                self._write(Limit(limit.name, limit.offset, left))
                limit.named = left
            limit.awaits = left

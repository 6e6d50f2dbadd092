"""Damaged ranges of one log: offsets that were durable once and that the files no longer hold as
they were written (I-7).

A damaged range is never served and never cut. Reads stop before it. A read that begins in it is
refused; the error names the offsets and the remedy. A range is removed in three cases:

- The log is cut before it. This is how a replica heals: it then copies the offsets from its leader.
- The log start passes it.
- A new check finds the bytes sound.

The file `damaged-ranges` in the partition's directory keeps the ranges across restarts, one line
each. A line has the first offset, the end offset, the base offset of the segment, and the byte
where the bad bytes begin. Then follow the byte where sound bytes continue (-1: not in this segment)
and the reason.

Readers, the scrub and recovery find ranges, in any thread. The tuple is replaced whole. If two
threads mark at once, one mark may be lost; the next check finds it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.atomic_file import remove_file
from strandline_broker.storage.files.checkpoints import natural, read_checkpoint, write_checkpoint
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.storage.files.damage import Report
    from strandline_runtime.runtime import FileSystem

FILE_NAME: Final = "damaged-ranges"
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class DamagedRange:
    start: int
    end: int
    """Exclusive; above `start`."""
    segment: int
    """Base offset of the segment that holds the bad bytes, or ends before the missing ones."""
    position: int
    """Byte of that segment where the bad bytes begin; the batch that ends there ends at `start`."""
    resume: int
    """Byte at which a sound batch begins, at `end` or later; -1: the segment holds none."""
    why: str

    def __str__(self) -> str:
        offsets = f"offset {self.start}" if self.end == self.start + 1 else "offsets "
        if self.end > self.start + 1:
            offsets += f"{self.start} to {self.end - 1}"
        return f"{offsets} ({self.segment:020d}.log at byte {self.position}: {self.why})"


class DamagedRanges:
    __slots__ = ("_fs", "_on_found", "_saved", "directory", "entries", "unsure")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.directory = directory
        self.entries: tuple[DamagedRange, ...] = ()
        """The ranges, in the order of offsets."""
        self._saved: tuple[DamagedRange, ...] = ()
        self._on_found: Callable[[], None] | None = None
        self.unsure: frozenset[int] = frozenset()
        """Base offsets of segments for which only the beginning of the damage is known, from a
        reader.
        """

    @classmethod
    def load(cls, fs: FileSystem, directory: str, report: Report) -> DamagedRanges:
        """Load the ranges. A file that does not parse is ignored: the scrub finds its
        ranges again.
        """
        ranges = cls(fs, directory)
        found = []
        try:
            for words in read_checkpoint(fs, f"{directory}/{FILE_NAME}", report) or []:
                start, end, segment, position, resume, *why = words
                at = NOWHERE if resume == str(NOWHERE) else natural(resume)
                found.append(
                    DamagedRange(
                        natural(start),
                        natural(end),
                        natural(segment),
                        natural(position),
                        at,
                        " ".join(why),
                    )
                )
        except ValueError as error:
            report(f"{directory}/{FILE_NAME} does not read ({error}) and is treated as absent.")
        ranges.entries = ranges._saved = tuple(sorted(found, key=lambda r: r.start))
        return ranges

    def tell(self, on_found: Callable[[], None]) -> None:
        """Register `on_found`; it is called, from any thread, when ranges may have been added."""
        self._on_found = on_found

    def above(self, log_start: int) -> tuple[DamagedRange, ...]:
        """The ranges that end above `log_start`."""
        return tuple(r for r in self.entries if r.end > log_start)

    def next_to(self, offset: int) -> DamagedRange | None:
        """The first range that ends after `offset`."""
        return next((r for r in self.entries if r.end > offset), None)

    def covers(self, offset: int) -> bool:
        return any(r.start <= offset < r.end for r in self.entries)

    def resume_before(self, segment: int, offset: int) -> tuple[int, int]:
        """(byte, offset) at which the segment continues after its last damage below `offset`; the
        segment's beginning if there is none.
        """
        before = [r for r in self.entries if r.segment == segment and r.end <= offset]
        if not before or before[-1].resume == NOWHERE:
            return 0, segment
        return before[-1].resume, before[-1].end

    def check(self, offset: int, *, partition: str) -> None:
        """Refuse to read at an offset that is damaged."""
        found = self.next_to(offset)
        if found is not None and found.start <= offset:
            raise KafkaStorageError(refusal(partition, found))

    def replace(self, segment: int, found: Iterable[DamagedRange]) -> None:
        """Replace what was known of `segment` with the result of a check of the whole segment."""
        self.unsure -= {segment}
        # A check of one segment cannot judge offsets that are missing before its first one.
        kept = [r for r in self.entries if r.segment != segment or r.end <= segment]
        self._keep([*kept, *found])

    def add(self, found: DamagedRange) -> None:
        """Add a range that a reader met, unless it overlaps a known one: that one suffices."""
        if not any(r.start <= found.start < r.end for r in self.entries):
            later = [r.start for r in self.entries if r.start > found.start]
            end = min([found.end, *later])
            if end > found.start:
                if end < found.end:  # its resume byte belongs to the longer range
                    found = replace(found, end=end, resume=NOWHERE)
                self.unsure |= {found.segment}
                self._keep([*self.entries, found])

    def set(self, entries: Iterable[DamagedRange]) -> None:
        self._keep(entries)

    def drop_from(self, offset: int) -> None:
        """Drop the ranges from `offset` on: the log was cut there, and new batches are not
        damaged.
        """
        kept = [r for r in self.entries if r.start < offset]
        self.unsure |= {r.segment for r in kept if r.end > offset}
        self._keep(r if r.end <= offset else replace(r, end=offset, resume=NOWHERE) for r in kept)

    def _keep(self, entries: Iterable[DamagedRange]) -> None:
        self.entries = tuple(sorted(entries, key=lambda r: r.start))
        if self.entries and self._on_found is not None:
            self._on_found()

    def save(self) -> None:
        """Write the ranges to the file; blocking.

        Only the thread that cuts the log may call it. Otherwise the later of two writes could
        restore ranges from before a cut (I-7).
        """
        entries = self.entries
        if entries == self._saved:
            return
        path = f"{self.directory}/{FILE_NAME}"
        if entries:
            write_checkpoint(
                self._fs,
                path,
                (f"{r.start} {r.end} {r.segment} {r.position} {r.resume} {r.why}" for r in entries),
            )
        else:
            remove_file(self._fs, path)
        self._saved = entries


def refusal(partition: str, found: DamagedRange) -> str:
    """The error text for a read at a damaged offset."""
    return (
        f"{partition}: {found} are damaged on this broker's disk and not served. They are copied "
        f"from another replica that is in sync; if there is none they are lost: read on from "
        f"offset {found.end}, or give them up with a deletion of the records below it"
    )

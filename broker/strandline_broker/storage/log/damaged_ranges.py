"""Offsets of one log that its files do not hold as they were written, although they were durable
once (I-7).

A damaged range is never served and never cut: reads stop before it, and one that begins in it is
refused with the offsets and the remedy. It goes when the log is cut before it (healing: the replica
then copies the offsets from its leader), when the log start passes it, or when a new look finds the
bytes sound. `damaged-ranges` in the partition's directory remembers it over restarts, one line for
each range: first offset, end offset, base offset of the segment, the byte where the bad bytes
begin, the byte where sound ones go on (-1: not in this segment), and why.

Ranges are found by readers, by the scrub and by recovery, in any thread: the tuple is replaced
whole, and a mark that two threads lose to each other is found again by the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.atomic_file import remove_file
from strandline_broker.storage.files.checkpoints import natural, read_checkpoint, write_checkpoint
from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.storage.segment.damage import Report
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
    """Byte of that segment where the bad bytes begin: what ends there, ends at `start`."""
    resume: int
    """Byte where a sound batch begins at `end` or behind; -1: the segment holds none."""
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
        """In the order of offsets."""
        self._saved: tuple[DamagedRange, ...] = ()
        self._on_found: Callable[[], None] | None = None
        self.unsure: frozenset[int] = frozenset()
        """Base offsets of segments of which a reader knows only where the damage begins."""

    @classmethod
    def load(cls, fs: FileSystem, directory: str, report: Report) -> DamagedRanges:
        """A file that does not read says nothing: the scrub finds what it said."""
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
        """Call it whenever there are ranges that may be news, in whichever thread."""
        self._on_found = on_found

    def above(self, log_start: int) -> tuple[DamagedRange, ...]:
        """Those that matter to a log that begins at `log_start`."""
        return tuple(r for r in self.entries if r.end > log_start)

    def next_to(self, offset: int) -> DamagedRange | None:
        """The first range that ends behind `offset`."""
        return next((r for r in self.entries if r.end > offset), None)

    def covers(self, offset: int) -> bool:
        return any(r.start <= offset < r.end for r in self.entries)

    def resume_before(self, segment: int, offset: int) -> tuple[int, int]:
        """(byte, offset) at which the segment goes on behind its last damage below `offset`; its
        beginning without any.
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
        """What a look at the whole segment has found takes the place of what was known of it."""
        self.unsure -= {segment}
        # What is missing before the segment's first offset is not for the segment to tell.
        kept = [r for r in self.entries if r.segment != segment or r.end <= segment]
        self._keep([*kept, *found])

    def add(self, found: DamagedRange) -> None:
        """A range that a reader met; one that is known already, in part, is known well enough."""
        if not any(r.start <= found.start < r.end for r in self.entries):
            later = [r.start for r in self.entries if r.start > found.start]
            end = min([found.end, *later])
            if end > found.start:
                if end < found.end:  # where that leads is not where this shorter one ends
                    found = replace(found, end=end, resume=NOWHERE)
                self.unsure |= {found.segment}
                self._keep([*self.entries, found])

    def set(self, entries: Iterable[DamagedRange]) -> None:
        self._keep(entries)

    def drop_from(self, offset: int) -> None:
        """The log was cut at `offset`: what is appended there is not damaged."""
        kept = [r for r in self.entries if r.start < offset]
        self.unsure |= {r.segment for r in kept if r.end > offset}
        self._keep(r if r.end <= offset else replace(r, end=offset, resume=NOWHERE) for r in kept)

    def _keep(self, entries: Iterable[DamagedRange]) -> None:
        self.entries = tuple(sorted(entries, key=lambda r: r.start))
        if self.entries and self._on_found is not None:
            self._on_found()

    def save(self) -> None:
        """Make the file say what memory says; blocking. Only in the thread that cuts the log: else
        the last of two writes may be of the ranges that were there before a cut (I-7).
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
    """What a reader is told."""
    return (
        f"{partition}: {found} are damaged on this broker's disk and not served. They are copied "
        f"from another replica that is in sync; if there is none they are lost: read on from "
        f"offset {found.end}, or give them up with a deletion of the records below it"
    )

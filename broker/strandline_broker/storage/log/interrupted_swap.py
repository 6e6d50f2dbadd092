"""Repair after a crash during a cleaning, before the partition's log is read (I-73).

- `.cleaned` is an unfinished segment. It is removed; the old segments are all there.
- `.swap` is a whole and durable segment. It replaces the segments whose base offsets it covers,
  from its own to its last batch. The rest of them is removed, and it gets its final name.

After a second crash the `.swap` is still there, so the repair can run again.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.file import File
from strandline_broker.storage.segment.batch_walk import walk

if TYPE_CHECKING:
    from strandline_broker.storage.files.damage import Report
    from strandline_runtime.runtime import FileSystem

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_NAME: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)(\.cleaned|\.swap)?")


def finish_swaps(fs: FileSystem, directory: str, report: Report) -> set[int]:
    """Remove or finish all files of a cleaning; durable on return. Returns the base offsets of the
    finished segments: their indexes of aborted transactions may be lost.
    """
    found = [match for match in map(_NAME.fullmatch, fs.listdir(directory)) if match]
    if not any(match[3] for match in found):
        return set()
    swaps = sorted(int(match[1]) for match in found if (match[2], match[3]) == ("log", SWAP))
    for match in found:
        if match[3] == CLEANED or (match[3] == SWAP and int(match[1]) not in swaps):
            fs.unlink(f"{directory}/{match[0]}")
    for base in swaps:
        _finish(fs, directory, base, report)
    fs.fsync_dir(directory)
    return set(swaps)


def _finish(fs: FileSystem, directory: str, base: int, report: Report) -> None:
    path = f"{directory}/{base:020d}.log{SWAP}"
    try:
        end_offset = _end_of(fs, path, base)
    except BadBatch as bad:
        if fs.exists(f"{directory}/{base:020d}.log"):
            report(f"{bad}. The segments that it was to take the place of are all there; it goes.")
            _unlink(fs, directory, base, base + 1, SWAP)
            return
        # The old segments are gone. The file gets its own name, and the next read finds the damage.
        end_offset = bad.offset
    _unlink(fs, directory, base, end_offset, "")
    for suffix in ("index", "timeindex", "txnindex", "log"):
        name = f"{directory}/{base:020d}.{suffix}"
        with contextlib.suppress(FileNotFoundError):
            fs.replace(f"{name}{SWAP}", name)
    report(f"{directory}: a compaction of offsets {base} to {end_offset} was finished.")


def _end_of(fs: FileSystem, path: str, base: int) -> int:
    """The offset after the last batch, at least `base` + 1: the swap covers its own name."""
    end_offset = base + 1
    file = File(fs, path)
    for _, header in walk(file, 0, file.size(), offset=base, crc=True):
        end_offset = header.next_offset
    return end_offset


def _unlink(fs: FileSystem, directory: str, first: int, end: int, ending: str) -> None:
    """Remove the segment files with base offsets in [first, end), the logs before their indexes."""
    names = [match for match in map(_NAME.fullmatch, fs.listdir(directory)) if match]
    of_range = [m for m in names if first <= int(m[1]) < end and (m[3] or "") == ending]
    for match in sorted(of_range, key=lambda m: m[2] != "log"):
        fs.unlink(f"{directory}/{match[0]}")

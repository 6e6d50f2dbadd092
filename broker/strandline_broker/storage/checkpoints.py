"""Kafka's checkpoint files: a version line, a line with the number of entries, and one line for
each entry.

The offset checkpoints at the root of a data directory have entries `topic partition offset`. The
format has no checksum of its own; the number of entries and the shape of each line are what tells a
damaged file. A file that does not read is treated as absent, with a report, and never as empty and
valid (I-8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.atomic_file import replace_file
from strandline_broker.storage.file import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.storage.damage import Report
    from strandline_runtime.runtime import FileSystem

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
VERSION: Final = 0
OFFSET_MAX: Final = 2**63 - 1

Offsets = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""


def read_checkpoint(fs: FileSystem, path: str, report: Report) -> list[tuple[str, ...]] | None:
    """The entries, each split into words; None if the file is absent or does not read."""
    try:
        data = read_whole(fs, path)
    except FileNotFoundError:
        return None
    try:
        return _parse(data.decode("utf-8"))
    except ValueError as error:
        report(f"{path} does not read as a checkpoint ({error}) and is treated as absent.")
        return None


def _parse(text: str) -> list[tuple[str, ...]]:
    lines = text.splitlines()
    if len(lines) < 2:
        raise ValueError(f"{len(lines)} lines are too few")
    if natural(lines[0]) != VERSION:
        raise ValueError(f"version {lines[0]} is not known")
    entries = lines[2:]
    if natural(lines[1]) != len(entries):
        raise ValueError(f"{lines[1]} entries are announced, {len(entries)} are there")
    return [tuple(line.split(" ")) for line in entries]


def natural(text: str) -> int:
    """A plain decimal number; ValueError for signs, spaces, underscores, which `int` would take."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def write_checkpoint(fs: FileSystem, path: str, entries: Iterable[str]) -> None:
    lines = list(entries)
    replace_file(fs, path, "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode("utf-8"))


def read_offsets(fs: FileSystem, path: str, report: Report) -> Offsets | None:
    entries = read_checkpoint(fs, path, report)
    if entries is None:
        return None
    offsets: Offsets = {}
    try:
        for topic, partition, offset in entries:
            offsets[topic, natural(partition)] = natural(offset)
            if natural(offset) > OFFSET_MAX:
                raise ValueError(f"offset {offset} is too large")
    except ValueError as error:
        report(f"{path} does not read as a checkpoint ({error}) and is treated as absent.")
        return None
    return offsets


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    write_checkpoint(
        fs,
        path,
        (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()),
    )

"""Kafka's checkpoint files: a version line, a line with the number of entries, and one line for
each entry.

The offset checkpoints at the root of a data directory have entries `topic partition offset`. The
format has no checksum, so a seal stands beside each file (`sealed_file`). Our own files have the
same lines with version 1, and a CRC-32C of everything after it. A file that does not parse is
treated as absent, with a report, and never as empty and valid (I-8).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from strandline_broker.storage.files.atomic_file import replace_file
from strandline_broker.storage.files.file import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.files.sealed_file import SealedFile
    from strandline_runtime.runtime import FileSystem

METADATA_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
"""Name of a snapshot of the controller's state, which lies beside its log."""
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
VERSION: Final = 0
OWN_VERSION: Final = 1
OFFSET_MAX: Final = 2**63 - 1

Offsets = dict[tuple[str, int], int]
"""(topic, partition) -> offset."""


def read_checkpoint(fs: FileSystem, path: str, report: Report) -> list[tuple[str, ...]] | None:
    """The entries of one of our files, each split into words; None if it is absent or does not
    parse.

    Earlier versions wrote Kafka's form.
    """
    try:
        data = read_whole(fs, path)
    except FileNotFoundError:
        return None
    try:
        head, _, rest = data.partition(b"\n")
        if head == _own_head(rest):
            data = b"%d\n%b" % (VERSION, rest)
        return parse(data)
    except ValueError as error:
        report(f"{path} does not read as a checkpoint ({error}) and is treated as absent.")
        return None


def parse(data: bytes) -> list[tuple[str, ...]]:
    """The entries of a file in Kafka's form, each split into words. Raises ValueError if it does
    not parse.
    """
    lines = data.decode("utf-8").splitlines()
    if len(lines) < 2:
        raise ValueError(f"{len(lines)} lines are too few")
    if natural(lines[0]) != VERSION:
        raise ValueError(f"version {lines[0]} is not known")
    entries = lines[2:]
    if natural(lines[1]) != len(entries):
        raise ValueError(f"{lines[1]} entries are announced, {len(entries)} are there")
    return [tuple(line.split(" ")) for line in entries]


def natural(text: str) -> int:
    """A plain decimal number; ValueError for signs, spaces and underscores, which `int` would
    accept.
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def in_kafkas_form(entries: Iterable[str]) -> bytes:
    return b"%d\n%b" % (VERSION, _counted(entries))


def write_checkpoint(fs: FileSystem, path: str, entries: Iterable[str]) -> None:
    """Write one of our own files."""
    rest = _counted(entries)
    replace_file(fs, path, _own_head(rest) + b"\n" + rest)


def _counted(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "\n".join([str(len(lines)), *lines, ""]).encode("utf-8")


def _own_head(rest: bytes) -> bytes:
    return b"%d %08x" % (OWN_VERSION, crc32c(rest))


def read_offsets(file: SealedFile, report: Report) -> Offsets | None:
    """The offsets in the file; None if it is absent or cannot be trusted."""
    data = file.read(report)
    if data is None:
        return None
    offsets: Offsets = {}
    try:
        for topic, partition, offset in parse(data):
            offsets[topic, natural(partition)] = natural(offset)
            if natural(offset) > OFFSET_MAX:
                raise ValueError(f"offset {offset} is too large")
    except ValueError as error:
        report(f"{file.path} does not read as a checkpoint ({error}) and is treated as absent.")
        return None
    return offsets


def write_offsets(file: SealedFile, offsets: Mapping[tuple[str, int], int]) -> None:
    file.replace(
        in_kafkas_form(
            f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
        )
    )

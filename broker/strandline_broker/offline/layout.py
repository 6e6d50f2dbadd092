"""The files of a directory, classified by their names alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.offline.checkpoints import (
    LEADER_EPOCHS,
    MARKER,
    META,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    SEAL,
    STATE,
)
from strandline_broker.offline.state_snapshots import STATE_SNAPSHOT

if TYPE_CHECKING:
    from strandline_broker.offline.disk import Disk

SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot|txnindex)")
CHANGING: Final = re.compile(
    r"(\d{20})\.(?:log|index|timeindex|snapshot|txnindex)\.(swap|cleaned|deleted)"
)
LIMIT: Final = re.compile(r"checkpoint-limit-\d+")
PARTITION: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
GIVEN_UP: Final = re.compile(r".+\.[0-9a-f]{32}-(?:delete|stray|future)")
TEMPORARY: Final = ".tmp"
GAPS_MARKER: Final = "compacted"
"""Name of the marker file: offsets may be missing in this log."""
DAMAGED_RANGES: Final = "damaged-ranges"
ROOT_FILES: Final = frozenset(
    {
        *OFFSET_CHECKPOINTS,
        *(name + SEAL for name in OFFSET_CHECKPOINTS),
        MARKER,
        META,
        META + SEAL,
        STATE,
        ".lock",
    }
)


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """One segment: the paths of its existing files, None for the others."""

    base_offset: int
    log: str
    index: str | None
    timeindex: str | None
    txnindex: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    path: str
    segments: tuple[SegmentFiles, ...]
    orphans: tuple[str, ...]
    """Indexes without a segment."""
    snapshots: tuple[str, ...]
    epochs: str | None
    metadata: str | None
    limits: tuple[str, ...]
    has_gaps_marker: bool
    damaged: str | None
    """Path of the broker's file of known damage."""
    swaps: tuple[str, ...]
    """Segments that a cleaning was about to swap in."""
    states: tuple[str, ...]
    """Snapshots of a controller's state, oldest first."""
    foreign: tuple[str, ...]


def partition_files(disk: Disk, path: str) -> PartitionFiles:
    """The files in a partition's directory. Raises OSError if it cannot be listed."""
    names = sorted(disk.listdir(path))
    present = set(names)
    segments, orphans, snapshots, foreign = [], [], [], []
    for name in names:
        match = SEGMENT_FILE.fullmatch(name)
        if match is None:
            if not _belongs(name):
                foreign.append(f"{path}/{name}")
            continue
        base, kind = match[1], match[2]
        if kind == "log":
            segments.append(
                SegmentFiles(
                    int(base),
                    f"{path}/{name}",
                    f"{path}/{base}.index" if f"{base}.index" in present else None,
                    f"{path}/{base}.timeindex" if f"{base}.timeindex" in present else None,
                    f"{path}/{base}.txnindex" if f"{base}.txnindex" in present else None,
                )
            )
        elif kind == "snapshot":
            snapshots.append(f"{path}/{name}")
        elif f"{base}.log" not in present:
            orphans.append(f"{path}/{name}")
    return PartitionFiles(
        path,
        tuple(segments),
        tuple(orphans),
        tuple(snapshots),
        f"{path}/{LEADER_EPOCHS}" if LEADER_EPOCHS in present else None,
        f"{path}/{PARTITION_METADATA}" if PARTITION_METADATA in present else None,
        tuple(f"{path}/{name}" for name in names if LIMIT.fullmatch(name)),
        GAPS_MARKER in present,
        f"{path}/{DAMAGED_RANGES}" if DAMAGED_RANGES in present else None,
        tuple(f"{path}/{name}" for name in names if name.endswith(".log.swap")),
        tuple(f"{path}/{name}" for name in names if STATE_SNAPSHOT.fullmatch(name)),
        tuple(foreign),
    )


def _belongs(name: str) -> bool:
    return (
        name
        in (
            LEADER_EPOCHS,
            LEADER_EPOCHS + SEAL,
            PARTITION_METADATA,
            PARTITION_METADATA + SEAL,
            GAPS_MARKER,
            DAMAGED_RANGES,
        )
        or name.endswith(TEMPORARY)
        or LIMIT.fullmatch(name) is not None
        or CHANGING.fullmatch(name) is not None
        or STATE_SNAPSHOT.fullmatch(name) is not None
    )


def is_partition(disk: Disk, path: str) -> bool:
    """True if the directory is a partition's: it has a segment or its metadata."""
    return any(
        name == PARTITION_METADATA or SEGMENT_FILE.fullmatch(name) for name in disk.listdir(path)
    )


def partitions_in(disk: Disk, root: str) -> tuple[list[tuple[str, int, str]], list[str]]:
    """(topic, partition, path) of each partition's directory below a data directory, by name; and
    the paths of what belongs to none.
    """
    found, foreign = [], []
    for name in sorted(disk.listdir(root)):
        path = f"{root}/{name}"
        match = PARTITION.fullmatch(name)
        if name in ROOT_FILES or name.endswith(TEMPORARY) or GIVEN_UP.fullmatch(name):
            continue
        if match is not None and disk.isdir(path):
            found.append((match[1], int(match[2]), path))
        else:
            foreign.append(path)
    return found, foreign

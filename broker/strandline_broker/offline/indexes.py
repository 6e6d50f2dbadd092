"""The index files and producer snapshots of a segment, entry by entry.

Zeros after the last entry are the rest of a preallocated file after Kafka was killed; they are no
entries.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from strandline_broker.offline.disk import read_small

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.disk import Disk

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
SNAPSHOT_BEGIN: Final = struct.Struct(">qi")
SNAPSHOT_CHECKED_FROM: Final = 6


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """An entry of an offset index: the position at which a batch begins, and its last offset. In
    Kafka's files it is the last offset of the whole append.
    """

    at: int
    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """An entry of a time index: no record before `offset` is later than `timestamp`, and one of its
    batch has it.
    """

    at: int
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_offset_of_transaction: int
    begins_at: int
    """Sequence where the producer's batches begin here; -1 if they begin at the first one."""


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _whole(data: bytes, size: int) -> bytes:
    """The entries without the zeros after them. Raises ValueError if the bytes are no entries."""
    if len(data) % size != 0:
        raise ValueError(f"{len(data)} bytes are no whole number of {size}-byte entries")
    used = len(data.rstrip(b"\0"))
    return data[: used + -used % size]


def offset_entries(disk: Disk, path: str, base_offset: int) -> Iterator[OffsetEntry]:
    data = _whole(read_small(disk, path), OFFSET_ENTRY.size)
    return (
        OffsetEntry(i * OFFSET_ENTRY.size, base_offset + relative, position)
        for i, (relative, position) in enumerate(OFFSET_ENTRY.iter_unpack(data))
    )


def time_entries(disk: Disk, path: str, base_offset: int) -> Iterator[TimeEntry]:
    data = _whole(read_small(disk, path), TIME_ENTRY.size)
    return (
        TimeEntry(i * TIME_ENTRY.size, timestamp, base_offset + relative)
        for i, (timestamp, relative) in enumerate(TIME_ENTRY.iter_unpack(data))
    )


def producer_entries(disk: Disk, path: str) -> list[ProducerEntry]:
    """The entries of a `.snapshot`. Raises ValueError if it does not parse or its CRC does not
    match.
    """
    data = read_small(disk, path)
    if len(data) < SNAPSHOT_HEAD.size:
        raise ValueError(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
    if version != 1:
        raise ValueError(f"version {version} is not known")
    if crc32c(data[SNAPSHOT_CHECKED_FROM:]) != crc:
        raise ValueError("it does not match its CRC-32C")
    end = SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size
    if count < 0 or len(data) < end or (len(data) - end) % SNAPSHOT_BEGIN.size:
        raise ValueError(f"{count} producers do not fill {len(data)} bytes")
    begins = dict(SNAPSHOT_BEGIN.iter_unpack(data[end:]))
    return [
        ProducerEntry(*(*each, begins.get(each[0], -1)))
        for each in SNAPSHOT_ENTRY.iter_unpack(data[SNAPSHOT_HEAD.size : end])
    ]


def aborted_transactions(disk: Disk, path: str) -> list[AbortedTransaction]:
    """The entries of a `.txnindex`. Raises ValueError if it does not parse."""
    data = read_small(disk, path)
    if len(data) % TRANSACTION_ENTRY.size != 0:
        raise ValueError(
            f"{len(data)} bytes are no whole number of {TRANSACTION_ENTRY.size}-byte entries"
        )
    found = []
    for version, producer, first, last, stable in TRANSACTION_ENTRY.iter_unpack(data):
        if version != 0:
            raise ValueError(f"version {version} of an entry is not known")
        found.append(AbortedTransaction(producer, first, last, stable))
    return found

"""The batches of a `.log` file, by an independent reader of the format. It shares no line with the
broker, so a mistake there is not repeated here.

A walk does not stop at bytes that are no batch. It continues at the next sound one, so that data
after the damage is read too. Memory is bounded, whatever sizes the bytes contain.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.disk import OpenFile

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LEAST_LENGTH: Final = 49
"""The smallest batchLength, of a batch without records: it counts from byte 12 on."""
MAGIC: Final = 2
MAGIC_AT: Final = 16
CHECKED_FROM: Final = 21
PIECE: Final = 1 << 16
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as its header describes it; `valid` is True if its bytes match their CRC-32C."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    valid: bool

    @property
    def compression(self) -> str:
        codec = self.attributes & 0x07
        return CODECS[codec] if codec < len(CODECS) else f"unknown ({codec})"

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & 0x08 != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & 0x10 != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & 0x20 != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & 0x40 != 0

    @property
    def was_compacted(self) -> bool:
        """True if only a cleaning can have left the batch so: records were removed, or it has a
        delete horizon.
        """
        return self.has_delete_horizon or self.count < self.last_offset - self.base_offset + 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that cannot be parsed as a batch."""

    position: int
    size: int
    why: str


def scan(file: OpenFile) -> Iterator[Batch | Stretch]:
    """All batches and bad stretches of the file, in order of position."""
    position = 0
    while position < file.size:
        found = _at(file, position)
        if isinstance(found, str):
            resumed = _next_sound(file, position + 1)
            yield Stretch(position, resumed - position, found)
            position = resumed
            continue
        yield found
        following = position + found.size
        if not found.valid and not _begins_plausibly(file, following, found):
            resumed = _next_sound(file, position + 1)
            if resumed > following:
                yield Stretch(following, resumed - following, _why_none(file, following))
            following = resumed
        position = following


def _why_none(file: OpenFile, position: int) -> str:
    found = _header(file, position)
    return found if isinstance(found, str) else "no batch that follows the one before"


def headers(file: OpenFile) -> Iterator[Batch]:
    """The batches up to the first that does not parse. No CRC is computed: `valid` is unknown and
    False.
    """
    position = 0
    while position < file.size:
        found = _header(file, position)
        if isinstance(found, str):
            return
        yield found
        position += found.size


def _at(file: OpenFile, position: int) -> Batch | str:
    """The batch at `position` with its CRC checked, or the reason why there is none."""
    found = _header(file, position)
    if isinstance(found, Batch) and checksum(file, found) == found.crc:
        return replace(found, valid=True)
    return found


def checksum(file: OpenFile, batch: Batch) -> int:
    crc = 0
    for piece in file.pieces(batch.position + CHECKED_FROM, batch.size - CHECKED_FROM):
        crc = crc32c(piece, crc)
    return crc


def _header(file: OpenFile, position: int) -> Batch | str:
    room = file.size - position
    data = file.read(position, HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        return f"the file ends after {room} bytes of a {HEADER_SIZE}-byte batch header"
    base, length, epoch, magic, crc, attributes, delta, *times_and_producer, count = HEADER.unpack(
        data
    )
    if magic != MAGIC:
        return f"message format {magic}, where {MAGIC} is the only one known"
    if length < LEAST_LENGTH:
        return f"a batchLength of {length} is impossible"
    size = length + 12
    if size > room:
        return f"a batch of {size} bytes, of which the file holds {room}"
    if base < 0 or delta < 0 or epoch < 0 or count < 0:
        return "a negative base offset, last offset delta, leader epoch or record count"
    first, latest, producer, producer_epoch, sequence = times_and_producer
    last = base + delta
    return Batch(
        position,
        size,
        base,
        last,
        epoch,
        crc,
        attributes,
        first,
        latest,
        producer,
        producer_epoch,
        sequence,
        count,
        valid=False,
    )


def _begins_plausibly(file: OpenFile, position: int, after: Batch) -> bool:
    if position == file.size:
        return True
    found = _header(file, position)
    return isinstance(found, Batch) and found.base_offset > after.base_offset


def _next_sound(file: OpenFile, position: int) -> int:
    """Position of the next batch with a right CRC; the end of the file if there is none."""
    marker = bytes([MAGIC])
    while position + HEADER_SIZE <= file.size:
        piece = file.read(position + MAGIC_AT, PIECE)
        at = piece.find(marker)
        while at >= 0:
            found = _at(file, position + at)
            if isinstance(found, Batch) and found.valid:
                return position + at
            at = piece.find(marker, at + 1)
        position += max(len(piece), 1)
    return file.size

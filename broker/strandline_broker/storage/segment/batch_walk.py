"""Walks over the batches of a file; each header is checked for format, size and offsets.

The CRC does not cover base offset and leader epoch. Continuity of offsets is therefore checked
here, and recovery checks the epoch against the epoch checkpoint (I-5, I-7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.damage import BadBatch
from strandline_proto.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_matches,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.storage.files.file import File

HEADERS_WINDOW: Final = 16 << 10
BODIES_WINDOW: Final = 1 << 20


class _Window:
    """The part of the file that was read last, so that small batches do not need a read each."""

    __slots__ = ("_at", "_end", "_file", "_size", "data")

    def __init__(self, file: File, end: int, size: int) -> None:
        self._file = file
        self._end = end
        self._size = size
        self._at = 0
        self.data = b""

    def find(self, position: int, length: int) -> int:
        """Index in `data` of the `length` bytes at `position`; -1 if the file ends before."""
        if not self._at <= position <= position + length <= self._at + len(self.data):
            self._at = position
            self.data = self._file.read(
                min(max(length, self._size), self._end - position), position
            )
        return position - self._at if length <= len(self.data) else -1


def walk(
    file: File,
    position: int,
    end: int,
    *,
    offset: int,
    crc: bool = False,
    gaps_below: int = OFFSET_MAX,
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch from `position` to `end`, the first at or after `offset`.

    With `crc` whole batches are read and their CRC is checked. Offsets may be missing before a
    batch that begins at or below `gaps_below`. Raises BadBatch at the first bytes that are no such
    batch; its offset is the one that must follow the walked batches.
    """
    window = _Window(file, end, BODIES_WINDOW if crc else HEADERS_WINDOW)
    for at, header, _ in _walk(file, window, position, end, offset=offset, whole=crc):
        if header.base_offset > max(offset, gaps_below):
            why = f"base offset {header.base_offset} where {offset} must follow"
            raise BadBatch(file.path, at, offset, why)
        yield at, header
        offset = header.next_offset


def walk_whole(
    file: File, end: int, *, offset: int, window_bytes: int
) -> Iterator[tuple[BatchHeader, bytes]]:
    """(header, bytes) of each batch from the file's start to `end`, checked as `walk` does with
    `crc`.
    """
    window = _Window(file, end, window_bytes)
    for _, header, at in _walk(file, window, 0, end, offset=offset, whole=True):
        yield header, window.data[at : at + header.size]


def _walk(
    file: File, window: _Window, position: int, end: int, *, offset: int, whole: bool
) -> Iterator[tuple[int, BatchHeader, int]]:
    """(position, header, place in the window) of each batch; `whole` ones have a checked CRC."""
    while position < end:
        at = window.find(position, HEADER_SIZE) if position + HEADER_SIZE <= end else -1
        if at < 0:
            raise BadBatch(file.path, position, offset, "the file ends within a batch header")
        header = read_header(window.data, at)
        # The first batch of a restarted log may begin before the log's start (P-52).
        least = offset
        if position == 0 and header.base_offset < offset <= header.last_offset:
            least = header.base_offset
        why = _implausible(header, least, end - position)
        if why is None and whole:
            at = window.find(position, header.size)
            if at < 0:
                why = f"the file ends within a batch of {header.size} bytes"
            elif not crc_matches(window.data, at, header):
                why = "the batch does not match its CRC-32C"
        if why is not None:
            raise BadBatch(file.path, position, offset, why)
        yield position, header, at
        offset = header.next_offset
        position += header.size


def _implausible(header: BatchHeader, offset: int, room: int) -> str | None:
    """The reason why this cannot be the header of the next batch; None if it can."""
    if header.magic != MAGIC:
        return f"message format {header.magic} where {MAGIC} is expected"
    if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        return f"a batchLength of {header.batch_length} is impossible"
    if header.size > room:
        return f"a batch of {header.size} bytes is cut off after {room}"
    if header.base_offset < offset:
        return f"base offset {header.base_offset} does not follow"
    if header.last_offset_delta < 0 or header.leader_epoch < 0:
        return "its last offset delta or leader epoch is negative"
    return None


def is_plausible(header: BatchHeader, offset: int, room: int) -> bool:
    """True if this can be the header of a batch at or after `offset`, with `room` bytes to the end
    of the file.
    """
    return _implausible(header, offset, room) is None


def sound_batch_follows(file: File, position: int, end: int, *, offset: int) -> bool:
    """True if a whole, sound batch with an offset above `offset` begins anywhere after `position`.

    If every batch is durable before the next is written, only the last can be torn. A sound batch
    after a bad one then proves damage.
    """
    data = file.read(end - position, position)
    magic = bytes([MAGIC])
    at = data.find(magic, 17)
    while at >= 0:
        start = at - 16
        if start + HEADER_SIZE <= len(data):
            header = read_header(data, start)
            if _implausible(header, offset + 1, len(data) - start) is None and crc_matches(
                data, start, header
            ):
                return True
        at = data.find(magic, at + 1)
    return False

"""Walks that continue after damage and report the bad range between two sound batches.

A check of every batch finds a wrong CRC, size or format. It finds an offset that does not follow,
and an epoch that differs from the epoch checkpoint. Where compaction may have left gaps, a base
offset that was raised into a gap looks like a real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.segment.batch_walk import is_plausible, walk
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange
from strandline_broker.storage.segment.offset_index import RELATIVE_MAX
from strandline_proto.batch import HEADER_SIZE, MAGIC, crc_matches, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_broker.storage.files.file import File
    from strandline_proto.batch import BatchHeader

WINDOW: Final = 1 << 20


def sound_batch_behind(
    file: File, position: int, end: int, *, offset: int, below: int
) -> tuple[int, int] | None:
    """(position, base offset) of the first whole, sound batch after the bad one at `position`, with
    an offset above `offset` and below `below`.

    The end that the bad batch's length gives is tried first, because records may contain bytes that
    look like a batch.
    """
    head = file.read(min(HEADER_SIZE, end - position), position)
    if len(head) == HEADER_SIZE:
        header = read_header(head)
        if HEADER_SIZE <= header.size < end - position:
            found = _sound_at(file, position + header.size, end, offset=offset, below=below)
            if found is not None:
                return position + header.size, found
    at = position + 1
    while at + HEADER_SIZE <= end:
        data = file.read(min(WINDOW, end - at), at)
        if len(data) < HEADER_SIZE:
            return None  # the file was cut meanwhile
        place = data.find(MAGIC, 16)
        while place >= 0:
            found = _sound_at(file, at + place - 16, end, offset=offset, below=below)
            if found is not None:
                return at + place - 16, found
            place = data.find(MAGIC, place + 1)
        at += len(data) - 16
    return None


def _sound_at(file: File, position: int, end: int, *, offset: int, below: int) -> int | None:
    head = file.read(HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    if not is_plausible(header, offset + 1, end - position) or header.next_offset > below:
        return None
    data = file.read(header.size, position)
    return header.base_offset if len(data) == header.size and crc_matches(data, 0, header) else None


def jumps(
    file: File, at: int, header: BatchHeader, expected: int, *, base: int, end: int, below: int
) -> str | None:
    """The reason why a base offset was changed rather than follows a gap: the next batch has a
    lower one.

    Trusting the offset would put all later batches beyond the promised offsets. The segment's
    offsets begin at `base` and end at `below`; `end` is its last byte.
    """
    if header.base_offset <= expected:
        return None
    offsets = f"offsets {header.base_offset} to {header.last_offset}"
    if header.next_offset > below or header.last_offset - base > RELATIVE_MAX:
        return f"{offsets} are not of this segment"
    behind = at + header.size
    if behind + HEADER_SIZE > end:
        return None
    data = file.read(HEADER_SIZE, behind)
    if len(data) < HEADER_SIZE:
        return None
    after = read_header(data)
    if after.magic == MAGIC and expected < after.base_offset < header.next_offset:
        return f"{offsets}, and offset {after.base_offset} behind them"
    return None


def walk_over_damage(
    file: File,
    position: int,
    end: int,
    *,
    segment: int,
    offset: int,
    below: int,
    crc: bool,
    found: Callable[[DamagedRange], None],
    judge: Callable[[File, int, BatchHeader, int], str | None] | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of `walk`; each bad range is passed to `found`, and the walk continues after it.

    The segment's offsets end at `below`. `judge` is called with (file, byte, header, offset that
    must follow). It returns the reason why the batch is wrong, or None.
    """
    while True:
        try:
            for at, header in walk(file, position, end, offset=offset, crc=crc):
                why = None if judge is None else judge(file, at, header, offset)
                if why is not None:
                    raise BadBatch(file.path, at, offset, why)
                yield at, header
                offset, position = header.next_offset, at + header.size
            return
        except BadBatch as bad:
            behind = sound_batch_behind(file, bad.position, end, offset=bad.offset, below=below)
            to = below if behind is None else behind[1]
            if to > bad.offset:
                resume = NOWHERE if behind is None else behind[0]
                found(DamagedRange(bad.offset, to, segment, bad.position, resume, bad.why))
            if behind is None:
                return
            position, offset = behind

"""Rewriting of bytes that a recovery has read, before they count as durable (P-24, I-93).

After a failed fsync the page cache may hold pages that the system treats as clean, although the
disk never got them. The process that saw the error ends. The next process reads those pages without
an error, and its own fsync has nothing to write. Rewriting the same bytes makes the pages dirty
again. The next fsync then writes them to the disk, or fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.segment.reader import first_batch_to

if TYPE_CHECKING:
    from strandline_broker.storage.segment.segment import Segment

CHUNK: Final = 1 << 20


def rewrite_from(segment: Segment, recovery_point: int) -> None:
    """Rewrite the content of `segment`, open for writing, from the batch with `recovery_point` on.
    The caller syncs it. Raises OSError like any write.
    """
    file = segment.view().file
    end = file.size()
    for position in range(_start(segment, recovery_point), end, CHUNK):
        data = file.read(min(CHUNK, end - position), position)
        file.write((data,), len(data), position)


def _start(segment: Segment, recovery_point: int) -> int:
    if recovery_point <= segment.base_offset:
        return 0
    try:
        found = first_batch_to(segment, segment.view(), recovery_point, segment.size)
    except BadBatch:
        return 0
    return segment.size if found is None else found[0]

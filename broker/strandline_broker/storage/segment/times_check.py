"""Whether a time index contradicts a batch that it names (I-78).

No CRC covers an index. With a time that a disk has changed a lookup passes over records, and
retention takes a segment too early; so an entry is held against the header of its batch before it
is believed. That batch is the judge unless it is damaged itself.

An entry that names a later batch of the same largest timestamp is believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.storage.segment.damage import BadBatch
from strandline_broker.storage.segment.reader import first_batch_to
from strandline_proto.batch import crc_matches

if TYPE_CHECKING:
    from strandline_broker.storage.segment.segment import Segment, View


def is_contradicted(segment: Segment, view: View, timestamp: int, offset: int) -> bool:
    """Whether `timestamp` is not the largest of the batch with `offset`."""
    if not segment.base_offset <= offset < segment.end_offset:
        return True
    try:
        found = first_batch_to(segment, view, offset, segment.size)
    except BadBatch:
        return False
    if found is None:
        return True
    position, header = found
    if header.base_offset <= offset and header.max_timestamp == timestamp:
        return False
    data = view.file.read(header.size, position)
    return len(data) == header.size and crc_matches(data, 0, header)

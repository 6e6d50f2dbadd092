"""The records of a batch that a walk found: decompressed and parsed by the client's codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proto.batch import read_header, read_records

if TYPE_CHECKING:
    from strandline_broker.offline.batches import Batch
    from strandline_broker.offline.disk import OpenFile
    from strandline_proto.batch import Record
    from strandline_proto.decompression import Bound


def records_of(file: OpenFile, batch: Batch, bound: Bound) -> list[Record]:
    """The records in order of offset.

    Raises CorruptMessage or UnsupportedVersion if they do not parse, RecordTooLarge if they unpack
    to more than the bound.
    """
    if batch.count == 0:
        return []
    data = b"".join(file.pieces(batch.position, batch.size))
    return list(read_records(data, 0, read_header(data), bound))

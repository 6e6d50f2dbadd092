"""The aborted transactions of a log by a scan of all its batches: an oracle of the index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from strandline_proto.batch import iter_headers, read_records

if TYPE_CHECKING:
    from strandline_broker.storage.log.log import Log

Entry = tuple[int, int, int, int]


def scan(log: Log) -> list[Entry]:
    """(producer id, first offset, marker's offset, last stable offset then) of each."""
    begun: dict[int, int] = {}
    found: list[Entry] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        run = log.read(at, max_bytes=1 << 20, limit=log.log_end_offset)
        if not run.records:
            break
        for place, header in iter_headers(run.records):
            if not header.is_transactional:
                continue
            if not header.is_control:
                begun.setdefault(header.producer_id, header.base_offset)
                continue
            if header.record_count == 0:
                continue  # a cleaning has emptied it: no batch of its transaction was left
            (record,) = read_records(run.records, place, header)
            first = begun.pop(header.producer_id, None)
            assert record.key is not None
            if first is not None and record.key[3] == 0:
                others = sorted(begun.values())
                stable = others[0] if others else record.offset + 1
                found.append((header.producer_id, first, record.offset, stable))
        at = run.next_offset
    return found


def indexed(log: Log) -> list[Entry]:
    return [(*each,) for segment in log.segments for each in segment.aborted().entries()]


def on_disk(log: Log) -> bytes:
    """The files, one after the other."""
    return b"".join(path.read_bytes() for path in sorted(Path(log.path).glob("*.txnindex")))

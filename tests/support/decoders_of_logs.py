"""Readers of a log's own files: what a start and a reader make of a sealed segment."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.log.reader import LogReader
from strandline_broker.storage.log.sealed_end import end_by_index
from strandline_broker.storage.segment.reader import first_batch_to
from strandline_proto.batch import iter_headers, read_records
from strandline_proto.errors import KafkaStorageError, WireError
from support.decoders import SMALL, Decoder, sealed_batch
from support.memory_disk import MemoryDisk
from support.storage import Store

if TYPE_CHECKING:
    from strandline_broker.storage.log.log import Log

BATCHES: Final = 40
SEGMENT: Final = f"/d/t-0/{0:020}"


def _stopped() -> MemoryDisk:
    """Several segments, after a clean stop: a start reads little of the sealed ones."""
    disk = MemoryDisk([("/d/x", b"")])
    store = Store(Path("/d"), fs=disk)
    for i in range(BATCHES):
        store.append(b"%d" % i, b"x" * 40, epoch=i // 20, timestamp_ms=1000 + i)
    assert len(store.log.segments) > 2
    store.stop()
    disk.kill()
    return disk


STOPPED: Final = _stopped()


def _value_at(offset: int) -> bytes:
    return b"x" * 40 if offset % 2 else b"%d" % (offset // 2)


def _served(log: Log) -> dict[int, bytes]:
    """What a reader gets that goes around what is refused."""
    found: dict[int, bytes] = {}
    position, end = log.log_start_offset, log.log_end_offset
    while position < end:
        before = position
        try:
            read = LogReader(log).read(position, max_bytes=1 << 20, limit=end, checked=True)
        except KafkaStorageError:
            ranges = log.damaged_ranges.entries
            position = next((r.end for r in ranges if r.start <= position < r.end), position + 1)
            continue
        position = read.next_offset
        assert position > before
        for at, header in iter_headers(read.records):
            for record in read_records(read.records, at, header, SMALL):
                found[record.offset] = record.value or b""
    return found


def _read(suffix: str, data: bytes) -> Any:
    disk = STOPPED.copy()
    disk.files[SEGMENT + suffix] = bytearray(data)
    store = Store(Path("/d"), fs=disk, found=True)
    log = store.log
    served = _served(log)
    if suffix != ".log":  # an index that lies costs time and never an answer
        assert served == {offset: _value_at(offset) for offset in range(2 * BATCHES)}
    times = log.offset_for_timestamp(1010), log.max_timestamp()
    replayed, first = list(log.replay(0)), log.segments[0]
    end = end_by_index(disk, first)
    return served, times, replayed, end, first_batch_to(first, first.view(), 5, first.size)


DECODERS: Final = tuple(
    Decoder(
        f"log{suffix}",
        (bytes(STOPPED.files[SEGMENT + suffix]),),
        partial(_read, suffix),
        (WireError, BadBatch),
        sealed_batch if suffix == ".log" else None,
        positions=30,
    )
    for suffix in (".log", ".index", ".timeindex")
)

"""The last look at every replica, by the records that it would serve.

All of it is readable. Every batch is whole and at its place, and has the records that it counts. No
producer's batch is there twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.batch import SEQUENCE_MAX, crc_matches, iter_headers, read_records
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.batch import BatchHeader, Record

AT_ONCE: Final = 3000
"""Bytes of one read, few enough that a log takes several."""


def audit(
    partition: Partition,
    where: str,
    begins: int,
    *,
    compacted: bool = False,
    epochs: dict[int, set[int]] | None = None,
) -> list[tuple[object, ...]]:
    """Returns (base offset, CRC) of each batch from the log start to the high watermark, as it is
    read, if it ends behind `begins`. Replicas of a `compacted` log are cleaned each at its own
    time, so batches may be missing. For those it is (offset, key, value) of the last record of each
    key with a value (I-77). `epochs` collects the epochs of each producer.
    """
    log, end = partition.log, partition.high_watermark
    offset, found = log.log_start_offset, list[tuple[object, ...]]()
    latest: dict[bytes | None, Record] = {}
    sequences: dict[tuple[int, int], int] = {}
    while offset < end:
        read = log.read(offset, max_bytes=AT_ONCE, limit=end, checked=True)
        if read.next_offset <= offset:
            raise Violation("I-78", f"{where}: nothing is read at offset {offset} of {end}")
        for at, header in iter_headers(read.records):
            if not crc_matches(read.records, at, header):
                raise Violation("I-7", f"{where}: offset {header.base_offset} is not sound")
            records = _check_records(read.records, at, header, where, compacted=compacted)
            _check_sequence(sequences, header, where, log.topic, compacted=compacted)
            if header.next_offset > begins:
                found.append((header.base_offset, header.crc))
            if not header.is_control:
                latest.update((record.key, record) for record in records)
        offset = read.next_offset
    if epochs is not None:
        for producer_id, epoch in sequences:
            epochs.setdefault(producer_id, set()).add(epoch)
    if not compacted:
        return found
    kept = (record for record in latest.values() if record.value is not None)
    return sorted((r.offset, r.key, r.value) for r in kept if r.offset >= begins)


def _check_records(
    data: bytes, at: int, header: BatchHeader, where: str, *, compacted: bool
) -> list[Record]:
    """I-98, by the codec that readers use."""
    if compacted and header.record_count == 0:
        return []
    place = f"{where}: the batch at offset {header.base_offset}"
    try:
        records = list(read_records(data, at, header))
    except WireError as error:
        raise Violation("I-98", f"{place} has records that do not read: {error}") from error
    offsets = [record.offset for record in records]
    if not compacted and offsets != list(range(header.base_offset, header.next_offset)):
        raise Violation("I-98", f"{place} to {header.last_offset} has records at {offsets}")
    latest = max(record.timestamp for record in records)
    if not compacted and latest != header.max_timestamp:
        raise Violation("I-98", f"{place} says {header.max_timestamp} of a latest time {latest}")
    return records


def _check_sequence(
    sequences: dict[tuple[int, int], int],
    header: BatchHeader,
    where: str,
    topic: str,
    *,
    compacted: bool,
) -> None:
    """I-59: a producer's sequences rise, and each is there once. Offsets in transactions have
    sequence 0 each time (P-129).
    """
    if header.producer_id < 0 or header.is_control or topic in INTERNAL_TOPICS:
        return
    key = (header.producer_id, header.producer_epoch)
    expected = sequences.get(key, header.base_sequence)
    if header.base_sequence != expected and not (
        compacted and sequence_before(expected, header.base_sequence)
    ):
        raise Violation(
            "I-59",
            f"{where}: offset {header.base_offset} is sequence {header.base_sequence} of producer"
            f" {key}, {expected} must follow",
        )
    sequences[key] = (header.last_sequence + 1) & SEQUENCE_MAX


def sequence_before(a: int, b: int) -> bool:
    """True if `a` comes before `b`: sequences restart at 0 after 2^31 - 1."""
    return 0 < (b - a) & SEQUENCE_MAX < SEQUENCE_MAX // 2

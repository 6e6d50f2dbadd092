"""Compacted logs in tests: written batch by batch, cleaned, and read back record by record."""

from dataclasses import replace

from strandline_broker.storage.cleaner.cleaner import Cleaner, CleaningResult, Task
from strandline_broker.storage.log.log import Log
from strandline_proto.batch import (
    BatchHeader,
    Compression,
    Record,
    build_batch,
    iter_headers,
    read_header,
    read_records,
)
from support.storage import SMALL, Store

COMPACTED = replace(SMALL, cleanup_policy=("compact",), segment_bytes=400, delete_retention_ms=1000)


def put(
    store: Store,
    *records: tuple[bytes | None, bytes | None],
    timestamp_ms: int = 1000,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int] = (-1, -1),
) -> int:
    """Append one batch of (key, value) records, of `producer` (id, base sequence); base offset."""
    producer_id, sequence = producer
    batch = build_batch(
        records,
        timestamp_ms=timestamp_ms,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
    )
    return store.log.append_as_leader(batch, read_header(batch), leader_epoch=0).base_offset


def task_of(
    log: Log,
    *,
    now_ms: int = 5000,
    bound: int | None = None,
    live_producers: dict[int, int] | None = None,
    live_markers: dict[int, tuple[int, int]] | None = None,
) -> Task:
    """To clean every sealed segment that ends at or before `bound`."""
    end = log.log_end_offset if bound is None else bound
    return Task(
        segments=tuple(s for s in log.segments[:-1] if s.end_offset <= end),
        first_dirty=log.cleaned_to,
        config=log.config,
        live_producers=live_producers or {},
        live_markers=live_markers or {},
        later=tuple(s for s in log.segments if s.end_offset > end or s is log.segments[-1]),
        now_ms=now_ms,
    )


def clean(
    store: Store,
    *,
    now_ms: int = 5000,
    bound: int | None = None,
    live_producers: dict[int, int] | None = None,
    live_markers: dict[int, tuple[int, int]] | None = None,
    dedupe_bytes: int = 1 << 20,
) -> CleaningResult:
    store.flush()
    task = task_of(
        store.log,
        now_ms=now_ms,
        bound=bound,
        live_producers=live_producers,
        live_markers=live_markers,
    )
    cleaner = Cleaner(store.fs, dedupe_bytes=dedupe_bytes, buffer_bytes=300)
    return cleaner.clean(store.log, task)


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch from the log's start to its end, read as a consumer would."""
    found = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        run = log.read(position, max_bytes=300, limit=log.log_end_offset)
        if not run.records:
            break
        for at, header in iter_headers(run.records):
            found.append((header, list(read_records(run.records, at, header))))
        assert run.next_offset > position
        position = run.next_offset
    return found


def records_of(log: Log) -> list[Record]:
    return [record for _, records in batches_of(log) for record in records]


def state_of(records: list[Record]) -> dict[bytes | None, bytes]:
    """The last value of each key that was not deleted: what a reader has at the log's end."""
    state: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state

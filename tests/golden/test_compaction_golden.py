"""A log that Kafka compacted, with its tombstones' horizons, cleaned further by us."""

from pathlib import Path

import pytest

from strandline_broker.storage.cleaner.cleaner import Cleaner, Task
from strandline_broker.storage.cleaner.transactions import CleanedTransactions
from strandline_broker.storage.log.log import Log
from strandline_broker.storage.segment.txn_index import AbortedTransaction
from strandline_proto.batch import Record
from strandline_runtime.real import RealFileSystem
from support import kafka_golden
from support.aborted_scan import indexed, scan
from support.compaction import state_of
from support.kafka_golden import read_all

HORIZON_MS = 1795346554342
"""As Kafka wrote it into every batch with tombstones that it has cleaned."""
RETENTION_MS = kafka_golden.CONFIG.delete_retention_ms


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, Log]:
    copy = kafka_golden.copy_to(tmp_path / "golden")
    return kafka_golden.opened(copy / "clean")[1]


def clean(log: Log, now_ms: int) -> None:
    task = Task(
        segments=log.segments[:-1],
        first_dirty=log.cleaned_to,
        config=log.config,
        live_producers={},
        now_ms=now_ms,
    )
    Cleaner(RealFileSystem()).clean(log, task)


def records_of(log: Log) -> list[Record]:
    return [record for _, records in read_all(log) for record in records]


def test_its_checkpoint_says_where_kafka_stopped(logs: dict[str, Log]) -> None:
    assert logs["compact-0"].cleaned_to == 1500
    assert logs["plain-0"].cleaned_to == 0


def test_records_in_batches_with_a_horizon_have_the_timestamps_they_were_sent_with(
    logs: dict[str, Log],
) -> None:
    marked = [(h, r) for h, r in read_all(logs["compact-0"]) if h.has_delete_horizon]
    assert {h.base_timestamp for h, _ in marked} == {HORIZON_MS}
    for header, records in marked:
        timestamps = [record.timestamp for record in records]
        assert max(timestamps) == header.max_timestamp
        assert all(1_700_000_000_000 < t < 1_700_000_010_000 for t in timestamps)


@pytest.mark.parametrize("late", [False, True])
def test_it_is_cleaned_up_to_its_active_segment(logs: dict[str, Log], late: bool) -> None:
    """The last sealed segment is made dirty: appended to and rolled."""
    log = logs["compact-0"]
    before = records_of(log)
    log.roll()
    end = log.segments[-1].base_offset
    assert end == 1800
    now_ms = HORIZON_MS if late else HORIZON_MS - 1
    clean(log, now_ms)
    after = records_of(log)
    assert log.cleaned_to == 1800
    known = {record.offset: record for record in before}
    assert all(known[record.offset] == record for record in after)
    assert state_of(after) == state_of(before)
    last = {record.key: record.offset for record in before}
    expected = {
        offset
        for offset in last.values()
        # Kafka has seen to the tombstones below 1500, ours come to be covered now.
        if known[offset].value is not None or offset >= 1500 or not late
    }
    assert {record.offset for record in after} == expected
    for header, records in read_all(log):
        if header.base_offset >= 1500 and any(r.value is None for r in records):
            assert header.base_timestamp == now_ms + RETENTION_MS
    assert log.log_start_offset == 0
    assert log.log_end_offset == 1800


def test_every_log_of_kafka_is_cleaned_without_losing_a_last_value(logs: dict[str, Log]) -> None:
    """All but transactions' aborted records, which a reader of committed records never sees."""
    for name, log in logs.items():
        if log.log_end_offset == log.log_start_offset or name.startswith("txn"):
            continue
        log.roll()
        before = {r.key: r for r in records_of(log) if r.key is not None}
        clean(log, HORIZON_MS)
        after = {r.key: r for r in records_of(log)}
        assert after == {k: r for k, r in before.items() if k in after}, name
        gone = {k for k in before if k not in after}
        assert all(before[key].value is None for key in gone), name


def test_aborted_records_go_before_their_markers(logs: dict[str, Log]) -> None:
    """The last record of each key stays that a reader of committed records had before (I-161)."""
    log = logs["txn-0"]
    before = committed(log)
    log.roll()
    clean(log, HORIZON_MS)
    after = read_all(log)
    expected: dict[bytes | None, Record] = {r.key: r for r in before if r.key is not None}
    kept = [r for h, records in after for r in records if not h.is_control]
    assert kept == sorted(expected.values(), key=lambda r: r.offset)
    assert indexed(log) == scan(log) == []
    markers = [h for h, _ in after if h.is_control]
    assert markers
    assert all(h.base_timestamp == HORIZON_MS + RETENTION_MS for h in markers), "no data is left"


def committed(log: Log) -> list[Record]:
    aborted = CleanedTransactions(AbortedTransaction(*e) for e in scan(log))
    return [
        r
        for header, records in read_all(log)
        for r in records
        if not header.is_control and not aborted.is_aborted(header)
    ]

"""Lookups by timestamp against a scan of everything, whatever order the timestamps have."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import build_batch, iter_headers, read_header, read_records
from support.examples import examples
from support.storage import Store

Found = tuple[int, int, int]


def scan(store: Store) -> list[Found]:
    """(timestamp, offset, epoch) of every record of the log, by reading it all."""
    log, found = store.log, list[Found]()
    position = log.log_start_offset
    while position < log.log_end_offset:
        run = log.read(position, max_bytes=1 << 20, limit=log.log_end_offset)
        for at, header in iter_headers(run.records):
            for record in read_records(run.records, at, header):
                if record.offset >= log.log_start_offset:
                    found.append((record.timestamp, record.offset, header.leader_epoch))
        position = run.next_offset
    return found


@settings(max_examples=examples(60))
@given(
    timestamps=st.lists(st.integers(-1, 40), min_size=1, max_size=30),
    size=st.integers(1, 3),
    start=st.integers(0, 90),
    dropped=st.integers(0, 3),
    restarted=st.booleans(),
    segment=st.sampled_from([150, 400, 1 << 20]),
)
def test_a_lookup_finds_what_a_scan_finds(
    timestamps: list[int], size: int, start: int, dropped: int, restarted: bool, segment: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        store = Store(Path(root) / "data", LogConfig(segment, 50, 1 << 20))
        for epoch, timestamp in enumerate(timestamps):
            batch = build_batch([(None, b"v")] * size, timestamp_ms=timestamp)
            store.log.append_as_leader(batch, read_header(batch), leader_epoch=epoch)
        log = store.log
        log.max_timestamp()
        log.raise_log_start(min(start, log.log_end_offset))
        behind = [s for s in log.segments[:-1] if s.end_offset <= log.log_start_offset][:dropped]
        if behind:
            assert log.drop_segments(behind)
            log.deleted_segments.add(behind, now_ms=0, delay_ms=0)
        if restarted:
            store.stop()
            log = store.start()
        records = scan(store)
        largest = max((t for t, _, _ in records), default=-1)
        first = next((r for r in records if r[0] == largest), None)
        assert log.max_timestamp() == (first if largest >= 0 else None)
        for timestamp in range(-1, 42):
            expected = next((r for r in records if r[0] >= max(timestamp, 0)), None)
            if timestamp >= 0:
                assert log.offset_for_timestamp(timestamp) == expected, timestamp
        store.directory.close()

"""Readers in the disk pool while the log is appended to, rolled and cut."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strandline_broker.storage.log.log import Log
from strandline_broker.storage.segment.segment import Segment, View
from strandline_proto.batch import crc_matches, iter_headers, read_header
from strandline_proto.errors import KafkaStorageError, OffsetOutOfRange
from support.disk import Hurried
from support.storage import LARGE, SMALL, Store, batch_of, damaged

ROUNDS = 20


def read_all(log: Log, done: list[bool]) -> int:
    """Reads until told to stop; every run must be whole, in order and in one piece."""
    runs = 0
    while not done:
        position = log.log_start_offset
        while not done:
            try:
                run = log.read(position, max_bytes=700, limit=log.log_end_offset)
            except OffsetOutOfRange:
                break
            if not run.records:
                break
            offset = run.base_offset
            assert offset <= position
            for at, header in iter_headers(run.records):
                assert header.base_offset == offset
                assert crc_matches(run.records, at, header)
                offset = header.next_offset
            assert offset == run.next_offset
            position = run.next_offset
            runs += 1
    return runs


def test_reads_are_whole_whatever_appends_rolls_and_cuts_do_meanwhile(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", SMALL)
    done: list[bool] = []
    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read_all, store.log, done) for _ in range(2)]
        try:
            for i in range(ROUNDS):
                for j in range(30):
                    store.append(b"%d-%d" % (i, j) * (j % 9 + 1), b"second", epoch=i)
                ticket = store.log.flush_snapshot()
                if i % 3 == 0:
                    store.log.truncate_to(store.log.log_end_offset - 2 * (i % 25))
                if i % 10 == 9:
                    store.log.truncate_fully_and_start_at(i)
                ticket.run()
                store.log.flushed(ticket)
                assert store.log.durable_offset <= store.log.log_end_offset
        finally:
            done.append(True)
        assert sum(reader.result(timeout=30) for reader in readers) > 0


def test_a_reader_that_meets_a_log_start_without_its_segments_is_out_of_range(
    tmp_path: Path,
) -> None:
    """A log that is begun again further down lowers its start just before its segments go."""
    store = Store(tmp_path / "data", SMALL)
    store.log.truncate_fully_and_start_at(50)
    store.append(b"a", b"b")
    store.log.state.raise_start(9)
    with pytest.raises(OffsetOutOfRange):
        store.log.read(9, max_bytes=100, limit=52)
    assert store.log.damaged_ranges.entries == ()


def test_a_reader_of_a_log_that_is_deleted_is_told_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", SMALL)
    batch = batch_of(b"x" * 100)
    for _ in range(200):
        store.log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    log, done = store.log, list[bool]()
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read_all, log, done)
        store.directory.delete_log(log)
        store.directory.purge_deleted()
        assert isinstance(reader.exception(timeout=30), KafkaStorageError)


def test_a_segment_that_is_cut_before_a_reader_opens_it_has_no_indexes(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", SMALL)
    for i in range(60):
        store.append(b"%d" % i * 20)
    segment = store.log.segments[0]
    assert len(segment.view().offsets) > 0
    segment.release()
    Path(segment.path()).write_bytes(b"")
    assert len(segment.view().offsets) == 0


@pytest.mark.parametrize("again", [False, True])
def test_a_walk_that_a_cut_overtakes_makes_no_damage_of_it(tmp_path: Path, again: bool) -> None:
    """Its bytes are gone or others, and what is appended in their place is sound (P-34)."""
    store = Store(tmp_path / "data", LARGE, fs=Hurried())
    for _ in range(10):
        store.append(*[b"x" * 4000] * 10)
    store.flush()
    headers = store.log.batch_headers(0)
    assert next(headers).last_offset == 9
    store.log.truncate_to(50)
    if again:
        store.append(b"y" * 300_000, epoch=1)
    assert [header.base_offset for header in headers][:4] == [10, 20, 30, 40]
    assert damaged(store.log) == []


@pytest.mark.parametrize("how", ["dropped", "deleted"])
def test_a_reader_leaves_no_segment_open_that_has_left_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """I-182: it took the segments just before, and opens one again that was let go of."""
    store = Store(tmp_path / "data", SMALL)
    for i in range(60):
        store.append(b"%d" % i * 20)
    store.flush()
    log, opened = store.log, list[Segment]()
    segments, open_it = log.segments, Segment._open
    for segment in segments[:-1]:
        segment.release()

    def overtaken(segment: Segment) -> View:
        if not opened:
            opened.append(segment)
            if how == "dropped":
                log.raise_log_start(segments[2].end_offset)
                assert log.drop_segments(segments[:3])
            else:
                log.retire()
        return open_it(segment)

    monkeypatch.setattr(Segment, "_open", overtaken)
    with contextlib.suppress(OffsetOutOfRange):
        log.read(0, max_bytes=700, limit=log.log_end_offset)
    assert opened == [segments[0]]
    assert segments[0]._view is None
    assert len(log.open_segments) == 0

"""Transactions in a compacted log: aborted records, markers, and the index (I-79, I-153, I-161)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_broker.storage.cleaner.cleaner import Cleaner, Replace
from strandline_broker.storage.cleaner.swap import Swap
from strandline_proto.batch import Record, build_batch, iter_headers, read_records
from support.aborted_scan import indexed, on_disk, scan
from support.compaction import COMPACTED, batches_of, clean, state_of, task_of
from support.examples import examples
from support.producer_log import (
    TRANSACTIONAL,
    ProducerLog,
    end_marker,
    with_attributes,
)
from support.storage import Store

A, B = 2, 3
RETENTION_MS = COMPACTED.delete_retention_ms


def log_of(path: Path) -> ProducerLog:
    return ProducerLog(Store(path, COMPACTED))


def put(p: ProducerLog, producer_id: int, key: bytes, value: bytes | None, sequence: int) -> int:
    batch = build_batch(
        [(key, value)],
        timestamp_ms=1000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    return p.append(with_attributes(batch, TRANSACTIONAL))


def end(p: ProducerLog, producer_id: int, *, commit: bool) -> int:
    return p.append(end_marker(producer_id, commit=commit))


def committed(p: ProducerLog) -> list[Record]:
    """What a reader of committed records gets, by the list that each read names."""
    found: list[Record] = []
    at = p.log.log_start_offset
    while at < p.log.log_end_offset:
        read = p.log.read(at, max_bytes=200, limit=p.log.log_end_offset, committed=True)
        if not read.records:
            break
        begun = sorted(read.aborted, key=lambda each: each.first_offset)
        skipped: set[int] = set()
        for place, header in iter_headers(read.records):
            while begun and begun[0].first_offset <= header.last_offset:
                skipped.add(begun.pop(0).producer_id)
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in skipped:
                found += read_records(read.records, place, header)
        at = read.next_offset
    return found


def markers(p: ProducerLog) -> list[tuple[int, bool]]:
    """(offset, True if it has a delete horizon) of each marker."""
    return [(h.base_offset, h.has_delete_horizon) for h, found in batches_of(p.log) if h.is_control]


def agree(p: ProducerLog, *, cleaned_to: int = 0) -> None:
    """The index names the transactions that a scan finds: no first offset is later. It may also
    name one whose batches were all cleaned, while its marker stands behind the cleaned part.
    """
    ours, theirs = {e[2]: e for e in indexed(p.log)}, {e[2]: e for e in scan(p.log)}
    assert ours.keys() >= theirs.keys()
    for marker, entry in ours.items():
        first = theirs[marker][1] if marker in theirs else cleaned_to - 1
        assert entry[1] <= first
    assert len(on_disk(p.log)) == 34 * len(ours)


def test_aborted_records_go_at_once_and_their_marker_after_its_horizon(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    put(p, A, b"k", b"committed", 0)
    end(p, A, commit=True)
    put(p, A, b"k", b"aborted", 1)
    end(p, A, commit=False)
    p.log.roll()
    assert [r.value for r in committed(p)] == [b"committed"]
    clean(p.store, now_ms=5000)
    assert [r.value for r in committed(p)] == [b"committed"]
    assert markers(p) == [(1, False), (3, True)], "one has data, the other none"
    assert indexed(p.log) == []
    agree(p)
    put(p, B, b"b", b"", 0)
    end(p, B, commit=True)
    p.log.roll()
    clean(p.store, now_ms=5000 + RETENTION_MS - 1)
    assert (3, True) in markers(p), "its horizon has not come"
    put(p, B, b"b", b"", 1)
    end(p, B, commit=True)
    p.log.roll()
    clean(p.store, now_ms=5000 + RETENTION_MS)
    assert 3 not in dict(markers(p))
    agree(p)


def test_a_marker_stays_while_a_bare_header_of_its_transaction_stays(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    put(p, A, b"k", b"aborted", 0)
    end(p, A, commit=False)
    p.log.roll()
    clean(p.store, live_producers={A: 0})
    assert [(h.base_offset, h.record_count) for h, _ in batches_of(p.log)] == [(0, 0), (1, 1)]
    assert markers(p) == [(1, False)]
    assert indexed(p.log) == [(A, 0, 1, 2)]
    agree(p)


def test_a_marker_stays_while_the_bare_header_at_the_end_of_a_segment_is_of_its_transaction(
    tmp_path: Path,
) -> None:
    p = log_of(tmp_path)
    put(p, B, b"b", b"x" * 300, 0)
    put(p, A, b"k", b"x" * 300, 0)
    p.log.roll()
    end(p, A, commit=False)
    end(p, B, commit=True)
    put(p, B, b"c", b"", 1)
    end(p, B, commit=True)
    p.log.roll()
    clean(p.store)
    assert [h.base_offset for h, found in batches_of(p.log) if not found] == [1]
    assert dict(markers(p))[2] is False
    assert indexed(p.log) == [(A, 1, 2, 0)]
    agree(p)


def test_the_last_marker_of_a_living_producer_stays(tmp_path: Path) -> None:
    """It has the epochs of the producer and of the coordinator (I-155)."""
    for known in ((3, 0), (-1, 0)):
        path = tmp_path / str(known[0])
        p = log_of(path)
        for _ in range(2):
            put(p, A, b"k", b"aborted", 0)
            end(p, A, commit=False)
        p.log.roll()
        clean(p.store, now_ms=0, live_markers={A: known})
        put(p, B, b"b", b"", 0)
        p.log.roll()
        clean(p.store, now_ms=10**9, live_markers={A: known})
        kept = [offset for offset, _ in markers(p)]
        assert kept == ([3] if known[0] == 3 else [1, 3])


def test_a_transaction_that_ends_behind_the_cleaned_part_is_known(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    put(p, A, b"k", b"kept", 0)
    end(p, A, commit=True)
    put(p, A, b"k", b"aborted", 1)
    p.log.roll()
    end(p, A, commit=False)
    clean(p.store)
    assert [r.value for r in committed(p)] == [b"kept"]
    agree(p, cleaned_to=3)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.integers(1, 3), st.sampled_from(b"abc"), st.sampled_from(b"xyz0")
        ),
        st.tuples(st.just("end"), st.integers(1, 3), st.booleans(), st.just(0)),
        st.tuples(st.just("clean"), st.integers(0, 1500), st.booleans(), st.booleans()),
        st.tuples(st.just("restart"), st.just(0), st.booleans(), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=examples(150))
@given(STEPS)
def test_readers_see_the_same_state_before_and_after(
    steps: list[tuple[str, int, int, int]],
) -> None:
    """I-161: also if recovery finishes the swap of a segment."""
    with tempfile.TemporaryDirectory() as folder:
        p = log_of(Path(folder))
        sequences: dict[int, int] = {}
        now_ms = cleaned_to = 0
        for what, number, first, second in steps:
            if what == "put":
                value = None if second == ord("0") else bytes([second])
                put(p, number, bytes([first]), value, sequences.get(number, 0))
                sequences[number] = sequences.get(number, 0) + 1
            elif what == "end":
                end(p, number, commit=bool(first))
            elif what == "restart":
                p.stop() if first else p.kill()
            elif p.log.segments[-1].size > 0:
                now_ms += number
                stable = min(p.producers.transactions.first_unstable, p.log.log_end_offset)
                p.producers.transactions.on_committed(p.log.log_end_offset)
                p.log.roll()
                before = state_of(committed(p))
                living = {e[0]: e[3] for e in p.entries} if first else {}
                last = p.producers.last_markers() if first else {}
                clean(
                    p.store,
                    now_ms=now_ms,
                    bound=min(stable, p.producers.transactions.first_unstable),
                    live_producers=living,
                    live_markers=last,
                )
                assert state_of(committed(p)) == before
                cleaned_to = max(cleaned_to, p.log.cleaned_to)
        agree(p, cleaned_to=cleaned_to)


def test_recovery_rebuilds_the_index_of_a_segment_that_it_puts_in_place(tmp_path: Path) -> None:
    """A crash at each step of the swap."""
    for step in range(5):
        path = tmp_path / str(step)
        p = log_of(path / "ours")
        put(p, A, b"k", b"aborted", 0)
        put(p, B, b"b", b"b", 0)
        end(p, A, commit=False)
        end(p, B, commit=True)
        p.log.roll()
        p.store.flush()
        p.store.checkpoint(p.log.log_end_offset)
        task = task_of(p.log, live_producers={A: 0})
        steps = Cleaner(p.store.fs).steps(task)
        while not isinstance(replacing := next(steps), Replace):
            pass
        _crash_at(step, p, replacing)
        copy = path / "crashed"
        shutil.copytree(path / "ours", copy)
        again = ProducerLog(Store(copy, COMPACTED, found=True))
        assert indexed(again.log) == [(A, 0, 2, 1)], step
        agree(again)


def _crash_at(step: int, p: ProducerLog, replacing: Replace) -> None:
    swap = Swap(p.store.fs, p.log, replacing.old, replacing.new)
    if step > 0:
        swap.show()
    if step > 1:
        swap.set_old_aside()
    if step == 3:
        base = p.log.segments[0]
        Path(base.path("txnindex")).rename(base.path("txnindex").removesuffix(".swap"))
    if step > 3:
        swap.name()

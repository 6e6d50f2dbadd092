"""Cuts of a log of which something does not read: what stays must, and only that (I-15, I-47)."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.offline.findings import PartitionReport
from strandline_broker.offline.roots import verify
from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.segment_check import check_segment
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange, DamagedRanges
from strandline_proto.batch import iter_headers
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from support.compaction import COMPACTED, clean, put
from support.disk import Hurried
from support.storage import Store, damaged, values_of

ONE_SEGMENT = LogConfig(
    segment_bytes=1 << 20, index_interval_bytes=4096, segment_index_bytes=10 << 20
)
MAGIC, PAYLOAD = 16, 80
"""Bytes of a batch that are flipped: one that every header walk sees, and one under the CRC."""


def filled(path: Path) -> Store:
    """Ten batches of ten records."""
    store = Store(path, ONE_SEGMENT, fs=Hurried())
    for i in range(0, 100, 10):
        store.append(*[b"%03d" % number for number in range(i, i + 10)])
    store.flush()
    store.checkpoint()
    return store


def flip(store: Store, number: int, byte: int) -> None:
    """A byte of the batch with that number."""
    path = store.log_dir / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[[at for at, _ in iter_headers(data)][number] + byte] ^= 0x41
    path.write_bytes(data)


def values(start: int, end: int) -> list[bytes]:
    return [b"%03d" % number for number in range(start, end)]


@pytest.mark.parametrize("byte", [MAGIC, PAYLOAD])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("log_start", [10, 15, 20, 35])
def test_a_replica_whose_log_starts_within_the_damage_heals(
    tmp_path: Path, log_start: int, restarted: bool, byte: int
) -> None:
    store = filled(tmp_path / "data")
    for number in (3, 2, 1):
        flip(store, number, byte)
    check_segment(store.log, 0)
    assert (damaged(store.log)[0][0], damaged(store.log)[-1][1]) == (10, 40)
    store.shorten(log_start)
    if restarted:
        store.restart()
    store.log.truncate_to(log_start)  # as the damage watch does
    assert (store.log.log_start_offset, store.log.log_end_offset) == (log_start, log_start)
    assert store.log.damaged_ranges.above(log_start) == ()
    store.append(b"again")
    for _ in range(2):
        assert values_of(store.log) == [b"again"]
        store.restart()


def test_a_range_is_cut_with_the_log(tmp_path: Path) -> None:
    ranges = DamagedRanges(RealFileSystem(), str(tmp_path))
    known = [DamagedRange(5, 9, 0, 50, 90, "a"), DamagedRange(20, 30, 10, 200, 300, "b")]
    for cut_at, left in ((31, known), (30, known), (20, known[:1]), (9, known[:1]), (5, [])):
        ranges.set(known)
        ranges.drop_from(cut_at)
        assert (list(ranges.entries), ranges.unsure) == (left, frozenset())
    ranges.set(known)
    ranges.drop_from(25)
    assert list(ranges.entries) == [known[0], DamagedRange(20, 25, 10, 200, NOWHERE, "b")]
    assert ranges.unsure == {10}, "it is looked at closely"


@pytest.mark.parametrize("byte", [MAGIC, PAYLOAD])
@pytest.mark.parametrize("log_start", [30, 45, 50])
def test_damage_below_the_log_start_does_not_keep_a_log_from_being_cut(
    tmp_path: Path, log_start: int, byte: int
) -> None:
    """No healing goes there, as nothing of it is the log's."""
    store = filled(tmp_path / "data")
    store.shorten(log_start)
    flip(store, 2, byte)
    if byte == MAGIC:
        check_segment(store.log, 0)  # as after a first try, which does not find the place
    store.log.truncate_to(80)
    assert (store.log.log_start_offset, store.log.log_end_offset) == (log_start, 80)
    store.append(b"again")
    for _ in range(2):
        assert values_of(store.log) == [*values(log_start, 80), b"again"]
        store.restart()


@pytest.mark.parametrize("number", [4, 5, 7])
def test_what_stays_must_read_from_the_batch_with_the_log_start_on(
    tmp_path: Path, number: int
) -> None:
    store = filled(tmp_path / "data")
    store.shorten(45)
    flip(store, number, PAYLOAD)
    with pytest.raises(KafkaStorageError, match="does not match its CRC"):
        store.log.truncate_to(80)
    assert store.log.log_end_offset == 100


def cut_in_a_gap(path: Path) -> Store:
    """A compacted log of which batch 0 to 1 is left below the gap where it ends, at offset 4."""
    store = Store(path, replace(COMPACTED, segment_bytes=4000), fs=Hurried())
    put(store, (b"a", b"1"), (b"b", b"1"))
    for _ in range(3):
        put(store, (b"c", b"1"))
    store.log.roll()
    put(store, (b"c", b"2"))
    store.log.roll()
    put(store, (b"d", b"2"))
    store.flush()
    clean(store)
    assert [h.base_offset for h in store.log.batch_headers(0)] == [0, 5, 6]
    store.log.truncate_to(4)
    return store


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("how", [Store.stop, Store.kill])
def test_a_log_that_was_cut_in_a_gap_goes_on_where_it_was_cut(
    tmp_path: Path, how: Callable[[Store], None], checkpointed: bool
) -> None:
    """Nothing is missing there, and no offset comes twice (I-1, I-7)."""
    store = cut_in_a_gap(tmp_path / "data")
    if checkpointed:
        store.flush()
        store.checkpoint()
    for _ in range(2):
        store.restart(how)
        if checkpointed or how is Store.stop:
            assert store.log.log_end_offset == 4
            (found,) = (
                r for r in verify(store.fs, str(store.path)) if isinstance(r, PartitionReport)
            )
            assert (found.log_end, found.findings) == (4, [])
        assert (damaged(store.log), store.reports) == ([], [])
        assert [h.base_offset for h in store.log.batch_headers(0)] == [0]
    end = store.log.log_end_offset
    assert put(store, (b"e", b"3")) == end
    for _ in range(2):
        assert values_of(store.log) == [b"1", b"1", b"3"]
        store.restart(how)


def test_what_was_appended_behind_such_a_cut_and_is_gone_is_damage(tmp_path: Path) -> None:
    store = cut_in_a_gap(tmp_path / "data")
    size = (store.log_dir / f"{0:020d}.log").stat().st_size
    put(store, (b"e", b"3"))
    store.flush()
    store.checkpoint(5)  # the limit of the cut goes
    store.kill()
    os.truncate(store.log_dir / f"{0:020d}.log", size)
    store.start()
    assert [r.end for r in store.log.damaged_ranges.entries] == [5]

"""Two replicas are told identical, one a prefix of the other, or diverged and where."""

import shutil
from pathlib import Path

import pytest

from strandline_broker.offline.diff import Agreement, DiffReport, diff
from strandline_proto.batch import Compression, build_batch, prefix, read_header
from strandline_proto.decompression import Bound
from strandline_proto.errors import RecordTooLarge
from strandline_runtime.real import RealFileSystem
from support.disk import Hurried
from support.storage import LARGE, Store, written_by_another

FS = RealFileSystem()


def replica(path: Path, *values: tuple[bytes, int], high_watermark: int = 0) -> Store:
    """One batch for each (value, leader epoch)."""
    store = Store(path, LARGE, fs=Hurried())
    for value, epoch in values:
        store.append(value, epoch=epoch)
    store.flush()
    store.checkpoint(high_watermark)
    store.kill()
    return store


def compared(a: Store, b: Store, *, compacted: bool = False) -> DiffReport:
    return diff(FS, str(a.log_dir), str(b.log_dir), compacted=compacted)


ONE, TWO, THREE = (b"one", 1), (b"two", 1), (b"three", 2)


def test_the_same_bytes_are_identical(tmp_path: Path) -> None:
    a = replica(tmp_path / "a", ONE, TWO)
    found = compared(a, replica(tmp_path / "b", ONE, TWO))
    assert found.outcome is Agreement.IDENTICAL
    assert (found.compared_from, found.compared_to, found.difference) == (0, 2, None)


@pytest.mark.parametrize("turned", [False, True])
def test_a_shorter_log_is_a_prefix_and_no_divergence(tmp_path: Path, turned: bool) -> None:
    sides = [replica(tmp_path / "a", ONE), replica(tmp_path / "b", ONE, TWO, THREE)]
    found = compared(*(reversed(sides) if turned else sides))
    assert found.outcome is Agreement.PREFIX
    assert sorted((found.a.log_end, found.b.log_end)) == [1, 3]


def test_a_difference_names_offset_and_field_and_whether_it_was_committed(tmp_path: Path) -> None:
    a = replica(tmp_path / "a", ONE, TWO, THREE, high_watermark=1)
    for mark, below in ((1, False), (2, True)):
        b = replica(tmp_path / f"b{mark}", ONE, (b"owt", 1), THREE, high_watermark=mark)
        found = compared(a, b)
        assert found.outcome is Agreement.DIVERGED
        assert found.difference is not None
        assert found.difference.offset == 1
        assert "value" in found.difference.what
        assert found.difference.below_high_watermark is below


def test_the_same_record_of_another_epoch_is_a_difference(tmp_path: Path) -> None:
    a = replica(tmp_path / "a", ONE, TWO)
    found = compared(a, replica(tmp_path / "b", ONE, (b"two", 2)))
    assert found.difference is not None
    assert (found.difference.offset, found.difference.what) == (1, "the leader epochs differ")


def test_offsets_below_the_other_logs_start_are_not_compared(tmp_path: Path) -> None:
    a = replica(tmp_path / "a", ONE, TWO, THREE)
    b = replica(tmp_path / "b", (b"eno", 1), TWO, THREE)
    written_by_another(b.path / "log-start-offset-checkpoint", "0\n1\nt 0 1\n")
    found = compared(a, b)
    assert found.outcome is Agreement.IDENTICAL
    assert found.compared_from == 1


def test_damage_in_the_middle_is_a_difference_and_a_torn_tail_is_an_end(tmp_path: Path) -> None:
    a, b = (replica(tmp_path / name, ONE, TWO, THREE) for name in "ab")
    path = b.log_dir / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    found = compared(a, b)
    assert (found.outcome, found.b.log_end) == (Agreement.PREFIX, 2)
    assert found.b.torn_bytes > 0
    path.write_bytes(data[:-5] + b"?" + data[-4:])
    assert (compared(a, b).outcome, compared(a, b).b.log_end) == (Agreement.PREFIX, 2)
    path.write_bytes(data[:70] + b"?" + data[71:])
    found = compared(a, b)
    assert found.difference is not None
    assert found.difference.offset == 0
    assert "CRC" in found.difference.b


def compact(store: Store, kept: set[int]) -> None:
    """Leave the batches at these offsets, as a cleaning does."""
    path = store.log_dir / f"{0:020d}.log"
    data, at, parts = path.read_bytes(), 0, []
    while at < len(data):
        header = read_header(data, at)
        if header.base_offset in kept:
            parts.append(data[at : at + header.size])
        at += header.size
    path.write_bytes(b"".join(parts))


def test_compacted_replicas_are_compared_where_both_hold_a_record(tmp_path: Path) -> None:
    values = [(b"%d" % i, 1) for i in range(6)]
    a, b = (replica(tmp_path / name, *values) for name in "ab")
    compact(a, {1, 3, 4, 5})
    compact(b, {0, 3, 5})
    assert compared(a, b).outcome is Agreement.DIVERGED
    found = compared(a, b, compacted=True)
    assert (found.outcome, found.only_a, found.only_b) == (Agreement.IDENTICAL, 2, 1)
    c = replica(tmp_path / "c", *values[:3], (b"x", 1), *values[4:])
    found = compared(a, c, compacted=True)
    assert found.difference is not None
    assert found.difference.offset == 3


def test_batches_that_a_cleaning_split_differently_hold_the_same_records(tmp_path: Path) -> None:
    a = Store(tmp_path / "a", LARGE, fs=Hurried())
    batch = build_batch([(b"k", b"x"), (b"l", b"y")], timestamp_ms=1000)
    a.log.append_as_leader(batch, read_header(batch), leader_epoch=1)
    a.kill()
    shutil.copytree(a.path, tmp_path / "b")
    one = bytearray(build_batch([(b"l", b"y")], timestamp_ms=1000))
    one[:16] = prefix(1, read_header(one).batch_length, 1)
    (tmp_path / "b" / "t-0" / f"{0:020d}.log").write_bytes(one)
    found = diff(FS, str(a.log_dir), str(tmp_path / "b" / "t-0"), compacted=True)
    assert (found.outcome, found.only_a) == (Agreement.IDENTICAL, 1)


def test_records_beyond_the_bound_are_not_taken_for_broken_ones(tmp_path: Path) -> None:
    a, b = (replica(tmp_path / name, ONE) for name in "ab")
    for store, value in ((a, b"x"), (b, b"y")):
        batch = build_batch([(b"k", value * 500)], timestamp_ms=1, compression=Compression.ZSTD)
        store.log.append_as_leader(batch, read_header(batch), leader_epoch=3)
        store.flush()
    with pytest.raises(RecordTooLarge, match=r"offset 1: .*raise the knob"):
        diff(FS, str(a.log_dir), str(b.log_dir), Bound(500, "the knob"), compacted=True)
    assert compared(a, b, compacted=True).outcome is Agreement.DIVERGED


def test_a_directory_without_segments_is_refused(tmp_path: Path) -> None:
    a = replica(tmp_path / "a", ONE)
    with pytest.raises(ValueError, match="holds no segment"):
        diff(FS, str(a.log_dir), str(tmp_path))

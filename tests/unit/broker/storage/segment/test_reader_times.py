"""A time index that a disk has changed costs time and never an answer, nor a segment its time to
live (I-78, I-74).
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.storage.log.log import Log
from strandline_broker.storage.segment.reader import is_contradicted
from strandline_broker.storage.segment.segment import Segment
from strandline_broker.storage.segment.time_index import ENTRY, TimeIndex
from support.disk import Hurried
from support.storage import SMALL, Store

COUNT = 28
TIMES = [1000 + 10 * i + (13 if i % 2 == 0 else -13) for i in range(COUNT)]
"""They go back within each segment, and from one to the next; no two are the same."""


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    store = Store(tmp_path / "stopped", fs=Hurried())
    for time in TIMES:
        store.append(b"x" * 60, timestamp_ms=time)
    assert len(store.log.segments) >= 3
    store.flush()
    store.stop()
    return store.path


def flips_of(data: bytes) -> Iterator[bytes]:
    """As it is after each flip of one bit that leaves something plausible, and of some others."""
    for entry in range(0, len(data), ENTRY.size):
        for low in (*range(9), 62, 63):
            yield flipped(data, entry + 7 - low // 8, low % 8)
        for low in range(4):
            yield flipped(data, entry + 11, low)


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def each_flip(stopped: Path, number: int) -> Iterator[Store]:
    """The store with a changed time index of segment `number`, which has several entries."""
    name = sorted(stopped.glob("t-0/*.timeindex"))[number].name
    whole = (stopped / "t-0" / name).read_bytes()
    assert len(whole) > 2 * ENTRY.size
    for changed in flips_of(whole):
        path = stopped.with_name("struck")
        shutil.copytree(stopped, path)
        (path / "t-0" / name).write_bytes(changed)
        store = Store(path, fs=Hurried(), found=True)
        yield store
        store.directory.close()
        shutil.rmtree(path)


def assert_found(log: Log, times: list[int]) -> None:
    for segment, end in zip(log.segments, [s.base_offset for s in log.segments[1:]], strict=False):
        assert segment.latest()[0] == max(times[segment.base_offset : end])
    for asked in sorted({t + d for t in times for d in (0, 1)}):
        expected = next(((t, o, 0) for o, t in enumerate(times) if t >= asked), None)
        assert log.offset_for_timestamp(asked) == expected, asked
    assert log.max_timestamp() == (max(times), times.index(max(times)), 0)


@pytest.mark.parametrize("number", [1, -1])
def test_a_bit_that_has_flipped_before_a_start_changes_no_answer(
    stopped: Path, number: int
) -> None:
    for store in each_flip(stopped, number):
        assert_found(store.log, TIMES)


def test_a_start_writes_anew_what_names_another_largest_timestamp(stopped: Path) -> None:
    name = sorted(stopped.glob("t-0/*.timeindex"))[1]
    whole = name.read_bytes()
    timestamp, offset = ENTRY.unpack(whole[-ENTRY.size :])
    name.write_bytes(whole[: -ENTRY.size] + ENTRY.pack(timestamp - 1, offset))
    store = Store(stopped, fs=Hurried(), found=True)
    assert name.read_bytes() == whole
    assert [report.partition(": ")[2] for report in store.reports] == [
        "its indexes are missing or unsound and are rebuilt."
    ]


def test_a_bit_that_flips_under_a_running_broker_changes_no_answer(stopped: Path) -> None:
    store = Store(stopped, fs=Hurried(), found=True)
    segment = store.log.segments[1]
    path = Path(segment.path("timeindex"))
    whole = path.read_bytes()
    for changed in flips_of(whole):
        path.write_bytes(changed)
        segment.release()
        assert_found(store.log, TIMES)
        again = Segment(
            Hurried(),
            segment.directory,
            segment.base_offset,
            size=segment.size,
            end_offset=segment.end_offset,
            index_interval=SMALL.index_interval_bytes,
        )
        assert again.latest() == segment.latest()


@pytest.mark.parametrize(("number", "kept"), [(1, 3), (1, 6), (-1, 3), (-1, 6)])
def test_a_log_that_is_cut_and_goes_on_knows_its_times(
    stopped: Path, number: int, kept: int
) -> None:
    """`kept`: how many batches stay of the segment whose index was struck."""
    for store in each_flip(stopped, number):
        cut = store.log.segments[number].base_offset + kept
        store.log.truncate_to(cut)
        store.append(b"x" * 60, timestamp_ms=1)
        store.log.roll()
        assert_found(store.log, [*TIMES[:cut], 1])


def test_a_cut_takes_no_time_of_what_stays(tmp_path: Path) -> None:
    """The entry of a batch that stays names a later one, which goes."""
    times = [10, 20, 30, 90, 40, 41, 42, 43, 44, 95, 50]
    store = Store(tmp_path / "data", replace(SMALL, segment_bytes=10_000), fs=Hurried())
    for time in times:
        store.append(b"x" * 60, timestamp_ms=time)
    store.stop()
    (path,) = store.log_dir.glob("*.timeindex")
    entry = ENTRY.pack(90, 3)
    assert path.read_bytes().count(entry) == 1
    path.write_bytes(path.read_bytes().replace(entry, ENTRY.pack(90, 3 ^ 4)))
    store.start()
    store.log.truncate_to(6)
    store.append(b"x" * 60, timestamp_ms=1)
    store.log.roll()
    assert_found(store.log, [*times[:6], 1])


def test_a_batch_that_is_damaged_itself_contradicts_nothing(stopped: Path) -> None:
    store = Store(stopped, fs=Hurried(), found=True)
    segment = store.log.segments[1]
    index = TimeIndex.parse(segment.base_offset, Path(segment.path("timeindex")).read_bytes())
    assert index is not None
    timestamp, offset = index.last
    view = segment.view()
    assert not is_contradicted(segment, view, timestamp, offset)
    assert is_contradicted(segment, view, timestamp + 1, offset)
    for beyond in (segment.base_offset - 1, segment.end_offset):
        assert is_contradicted(segment, view, timestamp, beyond)
    whole = Path(segment.path()).read_bytes()
    for at in (20, 42):  # its CRC, and its largest timestamp
        data = bytearray(whole)
        (position,) = [p for p in range(len(data)) if data[p : p + 8] == offset.to_bytes(8, "big")]
        data[position + at] ^= 1
        Path(segment.path()).write_bytes(data)
        assert not is_contradicted(segment, view, timestamp, offset)
    data = bytearray(whole)
    data[16] = 0  # no batch can be read any more
    Path(segment.path()).write_bytes(data)
    segment.release()
    Path(segment.path("index")).write_bytes(b"")
    assert not is_contradicted(segment, segment.view(), timestamp + 1, offset)

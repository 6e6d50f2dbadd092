"""A disk that gives back another place of the file than was asked for: its batches are sound, and
no CRC covers where they belong. Each test lets every read of a thing go wrong in turn (I-7, P-34).
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_broker.core.replication.producer_state import PersistedProducer
from strandline_broker.hosts.disks.producer_loading import load_producers
from strandline_broker.storage.files.checkpoints import OFFSET_MAX
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.file import File
from strandline_broker.storage.log.batch_judge import BatchJudge
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_broker.storage.log.reader import damage_met
from strandline_broker.storage.log.segment_check import check_segment
from strandline_broker.storage.segment.batch_walk import walk
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange, DamagedRanges
from strandline_proto.batch import build_batch, iter_headers, prefix, read_header
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from support.disk import Hurried
from support.storage import Store, damaged, values_of

BATCHES = 12
ONE_SEGMENT = LogConfig(
    segment_bytes=1 << 20, index_interval_bytes=300, segment_index_bytes=10 << 20
)


class Misdirected(Hurried):
    """`where` says of the n-th read of a `.log` file from which byte it is served instead."""

    def __init__(self) -> None:
        self.where: dict[int, int] = {}
        self.reads = 0
        self.logs: set[int] = set()

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:  # type: ignore[override]
        fd = super().open(path, flags, mode)
        self.logs.discard(fd)
        if path.endswith(".log"):
            self.logs.add(fd)
        return fd

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        if fd in self.logs:
            self.reads += 1
            offset = self.where.get(self.reads, offset)
        return super().pread(fd, length, offset)

    def strike(self, read: int, position: int) -> None:
        self.reads, self.where = 0, {read: position}

    def heal(self) -> None:
        self.where = {}


def batch_size() -> int:
    return len(batch(0))


def batch(number: int) -> bytes:
    return build_batch(
        [(None, b"%02d" % number)],
        timestamp_ms=1000 + number,
        producer_id=7,
        producer_epoch=0,
        base_sequence=number,
    )


def filled(path: Path, disk: Misdirected) -> Store:
    """Twelve batches of one record and the same size, from one producer, in one segment."""
    store = Store(path, ONE_SEGMENT, fs=disk)
    for number in range(BATCHES):
        data = batch(number)
        store.log.append_as_leader(data, read_header(data), leader_epoch=0)
    store.flush()
    store.checkpoint()
    return store


def forget_recent(store: Store) -> None:
    """Roll, so that nothing is known of the batches but what the files say."""
    store.log.roll()
    store.flush()


def values(count: int) -> list[bytes]:
    return [b"%02d" % number for number in range(count)]


def each_misread(run: Callable[[int, int], bool]) -> int:
    """Every read in turn, from other batches and from the middle of one; `run` says whether there
    was such a read. How many there were.
    """
    size = batch_size()
    places = [0, 4 * size, 6 * size, (BATCHES - 1) * size, size + 17]
    read = 0
    while True:
        read += 1
        if not [found for place in places if (found := run(read, place))]:
            return read - 1


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("to", [0, 5])
def test_a_cut_is_where_it_was_asked_for_or_is_not_made(
    tmp_path: Path, to: int, rolled: bool
) -> None:
    def run(read: int, place: int) -> bool:
        disk = Misdirected()
        store = filled(tmp_path / f"{read}-{place}", disk)
        if rolled:
            forget_recent(store)
        disk.strike(read, place)
        try:
            store.log.truncate_to(to)
        except KafkaStorageError:
            assert store.log.log_end_offset == BATCHES
            disk.heal()
            check_segment(store.log, 0)
            assert damaged(store.log) == []
            store.log.truncate_to(to)
        struck = disk.reads >= read
        disk.heal()
        log = store.log
        assert log.log_end_offset == to
        assert log.segments[-1].size == log.segments[-1].log_size() == to * batch_size()
        assert values_of(log) == values(to)
        assert values_of(store.restart()) == values(to)
        store.kill()
        return struck

    assert each_misread(run) >= (0 if to == 0 else 1)


def test_a_cut_goes_no_further_back_than_asked_for_over_what_does_not_read(tmp_path: Path) -> None:
    """What was found damaged before is no reason to end the log there: it may count (I-15)."""
    disk = Misdirected()
    store = filled(tmp_path / "data", disk)
    forget_recent(store)
    size = batch_size()
    path = store.log_dir / f"{0:020d}.log"
    sound = path.read_bytes()
    store.log.damaged_ranges.set(
        (DamagedRange(0, 1, 0, 0, size, "a"), DamagedRange(1, 9, 0, size, NOWHERE, "b"))
    )
    path.write_bytes(sound[:size] + b"\x2e" * 7 * size + sound[8 * size :])
    with pytest.raises(KafkaStorageError, match="damaged"):
        store.log.truncate_to(8)
    assert (store.log.log_end_offset, path.stat().st_size) == (BATCHES, BATCHES * size)
    store.log.truncate_to(1)
    assert (store.log.log_end_offset, path.stat().st_size) == (1, size)
    assert damaged(store.log) == [(0, 1)]


def read_all(log: Log, *, max_bytes: int) -> list[int]:
    """The offsets of the batches that were served, until one is refused."""
    served, position = list[int](), 0
    while position < log.log_end_offset:
        try:
            run = log.read(position, max_bytes=max_bytes, limit=log.log_end_offset)
        except KafkaStorageError:
            return served
        found = [header.base_offset for _, header in iter_headers(run.records)]
        assert (run.base_offset, run.next_offset) == (found[0], found[-1] + 1)
        served += found
        position = run.next_offset
    return served


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("max_bytes", [1, 450, 1 << 20])
def test_a_read_serves_what_must_stand_there_or_nothing(
    tmp_path: Path, max_bytes: int, rolled: bool
) -> None:
    disk = Misdirected()
    store = filled(tmp_path / "data", disk)
    if rolled:
        forget_recent(store)

    def run(read: int, place: int) -> bool:
        store.log.damaged_ranges.set(())
        store.log._reader._behind = None, 0, 0
        disk.strike(read, place)
        served = read_all(store.log, max_bytes=max_bytes)
        assert served == list(range(len(served)))
        return disk.reads >= read

    assert each_misread(run) > 0
    disk.heal()
    store.log.damaged_ranges.set(())
    assert values_of(store.log) == values(BATCHES)


def producers_of(log: Log) -> list[PersistedProducer]:
    return load_producers(log, expiration_ms=10**6, now_ms=0, wall_ms=0).entries()


@pytest.mark.parametrize("rolled", [False, True])
def test_what_is_known_of_producers_is_of_the_log_or_known_to_be_less(
    tmp_path: Path, rolled: bool
) -> None:
    disk = Misdirected()
    store = filled(tmp_path / "data", disk)
    if rolled:
        forget_recent(store)
    whole = producers_of(store.log)

    def run(read: int, place: int) -> bool:
        store.log.damaged_ranges.set(())
        disk.strike(read, place)
        found = producers_of(store.log)
        assert found == whole or store.log.replay_lacks
        assert all(last_offset < BATCHES for _, _, _, last_offset, *_ in found)
        return disk.reads >= read

    assert each_misread(run) > 0
    disk.heal()
    store.log.damaged_ranges.set(())
    assert producers_of(store.log) == whole
    assert not store.log.replay_lacks


def test_times_are_looked_up_in_batches_that_stand_where_they_must(tmp_path: Path) -> None:
    disk = Misdirected()
    store = filled(tmp_path / "data", disk)
    forget_recent(store)

    def run(read: int, place: int) -> bool:
        store.log.damaged_ranges.set(())
        disk.strike(read, place)
        try:
            assert store.log.offset_for_timestamp(1005) == (1005, 5, 0)
        except KafkaStorageError:
            assert damaged(store.log) != []
        return disk.reads >= read

    assert each_misread(run) > 0


def test_producers_are_read_again_where_the_batches_were_sound_after_all(tmp_path: Path) -> None:
    store = filled(tmp_path / "data", Misdirected())
    whole, path = producers_of(store.log), store.log_dir / f"{0:020d}.log"
    sound, at = path.read_bytes(), (BATCHES - 1) * batch_size() + 16
    path.write_bytes(sound[:at] + b"\x2e" + sound[at + 1 :])
    assert producers_of(store.log) != whole
    assert store.log.replay_lacks
    assert damaged(store.log) == [(BATCHES - 1, BATCHES)]
    assert producers_of(store.log) != whole
    assert store.log.replay_lacks, "of what is known to be damaged nothing is read"
    path.write_bytes(sound)
    assert check_segment(store.log, 0) == ()
    assert producers_of(store.log) == whole
    assert not store.log.replay_lacks


def test_a_place_whose_offset_is_another_is_not_cut_at(tmp_path: Path) -> None:
    """As one that a walk over what was misread has found: a batch would stay behind the end."""
    store = filled(tmp_path / "data", Misdirected())
    (segment,), _ = store.log.state.tail
    size = batch_size()
    for position, end_offset in ((size, 0), (size, 2), (0, 1), (3 * size, 2)):
        with pytest.raises(BadBatch, match=f"not at {end_offset}$"):
            segment.cut(position, end_offset, gaps_below=0)
    kept, recent = segment.cut(3 * size, 3, gaps_below=0)
    assert (kept.end_offset, recent.end) == (3, (3 * size, 3))
    kept, _ = segment.cut(3 * size, 5, gaps_below=5)
    assert kept.end_offset == 3


def test_a_batch_beyond_what_a_segment_can_hold_is_named_with_the_offset_that_must_follow(
    tmp_path: Path,
) -> None:
    store = filled(tmp_path / "data", Misdirected())
    (segment,), _ = store.log.state.tail
    segment.begin_scan()
    data = (store.log_dir / f"{0:020d}.log").read_bytes()
    Path(segment.path()).write_bytes(
        data[: 2 * batch_size()] + (1 << 33).to_bytes(8, "big") + data[2 * batch_size() + 8 :]
    )
    with pytest.raises(BadBatch, match="beyond what the segment can hold") as found:
        segment.activate(len(data))
    assert (found.value.position, found.value.offset) == (2 * batch_size(), 2)


def test_a_walk_names_the_offset_that_must_follow_at_the_byte_where_it_ends(tmp_path: Path) -> None:
    data, path = b"", tmp_path / "x.log"
    for number in (0, 1, 5, 6):
        data += prefix(number, batch_size() - 12, 0) + batch(number)[16:]
    path.write_bytes(data)
    file = File(RealFileSystem(), str(path))
    assert [h.base_offset for _, h in walk(file, 0, len(data), offset=0)] == [0, 1, 5, 6]
    assert len(list(walk(file, 0, len(data), offset=0, gaps_below=5))) == 4
    with pytest.raises(BadBatch) as found:
        list(walk(file, 0, len(data), offset=0, gaps_below=4))
    assert (found.value.position, found.value.offset) == (2 * batch_size(), 2)


def test_a_batch_is_judged_by_what_no_crc_covers(tmp_path: Path) -> None:
    epochs = LeaderEpochs(RealFileSystem(), str(tmp_path), [(0, 0), (3, 8)])
    size = batch_size()
    path = tmp_path / "x.log"
    path.write_bytes(prefix(5, size - 12, 0) + batch(5)[16:] + prefix(6, size - 12, 0))
    file = File(RealFileSystem(), str(path))

    def judged(base: int, expected: int, *, epoch: int = 0, gaps_below: int = 0) -> str | None:
        judge = BatchJudge(epochs, base_offset=0, size=size, end_offset=10, gaps_below=gaps_below)
        header = read_header(prefix(base, size - 12, epoch) + batch(5)[16:])
        return judge(file, 0, header, expected)

    assert judged(5, 5) is None
    assert judged(9, 9, epoch=3) is None
    assert judged(5, 4, gaps_below=5) is None
    assert judged(5, 4) == "base offset 5 where 4 must follow"
    assert judged(10, 10) == "offsets 10 to 10 are not of this segment"
    assert judged(3 << 60, 4, gaps_below=OFFSET_MAX) is not None
    assert judged(8, 8) == "leader epoch 0, the epoch checkpoint says 3"


def test_a_range_that_is_cut_short_does_not_say_where_the_segment_goes_on(tmp_path: Path) -> None:
    ranges = DamagedRanges(RealFileSystem(), str(tmp_path))
    ranges.add(DamagedRange(20, 30, 0, 200, 300, "a"))
    ranges.add(DamagedRange(5, 40, 0, 50, 400, "b"))
    assert (ranges.resume_before(0, 20), ranges.resume_before(0, 30)) == ((0, 0), (300, 30))
    ranges.set((DamagedRange(20, 30, 0, 200, 300, "a"),))
    assert (ranges.resume_before(0, 30), ranges.resume_before(0, 29)) == ((300, 30), (0, 0))


def test_a_bad_batch_whose_offset_is_not_of_the_segment_marks_what_the_segment_has(
    tmp_path: Path,
) -> None:
    store = filled(tmp_path / "data", Misdirected())
    damage_met(store.log, BadBatch(f"{store.log_dir}/{0:020d}.log", 258, 3 << 60, "x"))
    assert damaged(store.log) == [(0, BATCHES)]

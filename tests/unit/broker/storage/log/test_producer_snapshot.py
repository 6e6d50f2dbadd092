"""`.snapshot` files: Kafka's bytes, and which of them a log keeps, believes and removes."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_broker.core.replication.producer_state import ProducerStates
from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.producer_snapshot import (
    ProducerEntry,
    ProducerSnapshots,
    parse,
    serialize,
)
from strandline_broker.storage.log.state import LogState, Tail
from support.disk import DyingDisk, FaultyDisk, PowerLost
from support.examples import every
from support.producer_log import DAY_MS, ProducerLog, idempotent_batch, loaded, replayed
from support.storage import Store

P = 7
ENTRY_OF_P = ProducerEntry(P, 0, 11, 11, 0, 1000, -1, -1)
TWO_PRODUCERS = bytes.fromhex(
    "0001 a51c670d 00000002"
    "0000000000000000 0000 000000c7 00000000000000c7 0000000b 0000018bcfe56fc6 ffffffff"
    "ffffffffffffffff"
    "0000000000000001 0000 00000013 00000000000000db 00000013 0000018bcfe56813 ffffffff"
    "ffffffffffffffff"
)
"""Kafka's own, of `idempotent-0`."""


def test_the_bytes_are_those_that_kafka_writes() -> None:
    entries = parse(TWO_PRODUCERS)
    assert entries == (
        ProducerEntry(0, 0, 199, 199, 11, 1700000001990, -1, -1),
        ProducerEntry(1, 0, 19, 219, 19, 1700000000019, -1, -1),
    )
    assert serialize(entries) == TWO_PRODUCERS


@pytest.mark.parametrize("length", [0, 5, 9, 10, 55, 101, 103])
def test_a_snapshot_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"bytes|CRC"):
        parse((TWO_PRODUCERS + b"\0")[:length])


def test_a_flipped_bit_anywhere_is_found() -> None:
    for at in range(len(TWO_PRODUCERS)):
        flipped = bytearray(TWO_PRODUCERS)
        flipped[at] ^= 0x10
        with pytest.raises(ValueError, match=r"version|CRC"):
            parse(bytes(flipped))


def test_a_count_that_does_not_fit_is_refused_though_the_checksum_does() -> None:
    body = serialize([ENTRY_OF_P])
    for wrong in (body + bytes(46), body[:-46]):
        from crc32c import crc32c

        resealed = wrong[:2] + crc32c(wrong[6:]).to_bytes(4, "big") + wrong[6:]
        with pytest.raises(ValueError, match="1 producers"):
            parse(resealed)


@pytest.fixture
def p_log(tmp_path: Path) -> ProducerLog:
    """Twelve batches of one record each in four segments; not closed."""
    p = ProducerLog(Store(tmp_path, LogConfig(segment_bytes=250, index_interval_bytes=1)))
    for i in range(12):
        p.append(idempotent_batch(P, i, b"v%d" % i))
    return p


def snapshots_in(p: ProducerLog) -> list[int]:
    return [int(path.stem) for path in sorted(p.store.log_dir.glob("*.snapshot"))]


def bases(p: ProducerLog) -> list[int]:
    return [segment.base_offset for segment in p.log.segments]


def test_a_snapshot_is_taken_at_each_new_segment_of_what_lies_below(p_log: ProducerLog) -> None:
    assert len(bases(p_log)) == 4
    assert snapshots_in(p_log) == bases(p_log)[1:]
    for base in bases(p_log)[1:]:
        (entry,) = parse(Path(p_log.log.snapshots.path(base)).read_bytes())
        assert entry == ProducerEntry(P, 0, base - 1, base - 1, 0, 1000, -1, -1)


def test_a_follower_takes_the_same_snapshots(p_log: ProducerLog, tmp_path: Path) -> None:
    follower = ProducerLog(Store(tmp_path / "follower", p_log.store.config))
    while follower.log.log_end_offset < p_log.log.log_end_offset:
        follower.copy_from(p_log.log, max_bytes=1)
    assert snapshots_in(follower) == snapshots_in(p_log)
    for offset in snapshots_in(p_log):
        ours, theirs = (Path(p.log.snapshots.path(offset)) for p in (p_log, follower))
        assert ours.read_bytes() == theirs.read_bytes(), "I-58"


def test_nothing_is_kept_while_the_state_is_not_known(tmp_path: Path) -> None:
    p = ProducerLog(Store(tmp_path))
    p.log.producers = None
    p.append(idempotent_batch(P, 0, b"x"))
    p.log.close()
    assert snapshots_in(p) == []


def test_a_clean_stop_leaves_one_at_the_end_and_the_next_start_looks_at_no_batch(
    p_log: ProducerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = p_log.entries
    p_log.store.restart(Store.stop)
    assert snapshots_in(p_log) == [*bases(p_log)[1:], 12]
    asked: list[int] = []

    def replay(start: int) -> list[object]:
        asked.append(start)
        return []

    monkeypatch.setattr(p_log.log, "replay", replay)
    assert loaded(p_log.log).entries() == before
    assert asked == [12]
    assert p_log.store.reports == []


def test_a_closed_log_keeps_no_snapshot_that_nobody_needs(p_log: ProducerLog) -> None:
    p_log.stop()
    p_log.append(idempotent_batch(P, 12, b"v12"))
    p_log.stop()
    assert snapshots_in(p_log) == [*bases(p_log)[1:], 13]


def test_after_a_kill_the_newest_snapshot_and_the_batches_behind_it_tell(
    p_log: ProducerLog,
) -> None:
    before = p_log.producers.snapshot()
    last = bases(p_log)[-1]
    p_log.kill()
    assert p_log.entries == replayed(p_log.log).entries()
    (now,), (full,) = p_log.producers.snapshot(), before
    kept = [b for b in full.batches if b.base_offset >= last - 1]
    assert list(now.batches) == kept, "I-55: one batch from the snapshot, those behind it"


@pytest.mark.parametrize("damage", [b"", b"\0\1", TWO_PRODUCERS[:-1]])
def test_one_that_does_not_read_is_removed_and_an_older_one_taken(
    p_log: ProducerLog, damage: bytes
) -> None:
    p_log.store.kill()
    broken = snapshots_in(p_log)[-1]
    Path(p_log.log.snapshots.path(broken)).write_bytes(damage)
    p_log.store.start()
    p_log.load()
    assert p_log.entries == replayed(p_log.log).entries()
    assert broken not in snapshots_in(p_log)
    (report,) = p_log.store.reports
    assert f"{broken:020d}.snapshot does not read as a producer snapshot" in report


def test_without_any_the_whole_log_is_replayed(p_log: ProducerLog) -> None:
    for path in p_log.store.log_dir.glob("*.snapshot"):
        path.unlink()
    p_log.kill()
    assert p_log.entries == replayed(p_log.log).entries()
    assert p_log.store.reports == []


def test_one_that_cannot_be_read_is_reported_and_left(tmp_path: Path) -> None:
    disk, reports = FaultyDisk(tmp_path), list[str]()
    snapshots = ProducerSnapshots(disk, str(tmp_path), reports.append)
    for offset in (3, 5):
        snapshots.write(offset, [ENTRY_OF_P])
    disk.failing["pread"] = errno.EIO
    disk.spared["pread"] = 0
    assert snapshots.newest(at_least=0, at_most=9) is None
    assert len(reports) == 2
    assert snapshots.offsets() == [3, 5]


def test_one_of_batches_that_are_not_there_is_removed(p_log: ProducerLog) -> None:
    p_log.store.flush()
    p_log.store.kill()
    beyond = Path(p_log.log.snapshots.path(13))
    beyond.write_bytes(serialize([ProducerEntry(P, 0, 12, 12, 0, 1000, -1, -1)]))
    p_log.store.start()
    p_log.load()
    assert not beyond.exists()
    assert "the log ends at 12" in p_log.store.reports[-1]
    assert p_log.entries == replayed(p_log.log).entries()


def test_one_that_is_older_than_the_first_batch_is_not_believed(p_log: ProducerLog) -> None:
    first, second = p_log.log.segments[:2]
    p_log.log.snapshots.write(first.base_offset, [ProducerEntry(99, 0, 5, 5, 0, 1, -1, -1)])
    p_log.log.raise_log_start(second.base_offset)
    p_log.log.drop_segments([first])
    for offset in snapshots_in(p_log)[1:]:
        Path(p_log.log.snapshots.path(offset)).unlink()
    p_log.load()
    assert [entry[0] for entry in p_log.entries] == [P]


def test_a_producer_whose_batches_were_all_deleted_is_still_known(tmp_path: Path) -> None:
    p = ProducerLog(Store(tmp_path, LogConfig(segment_bytes=250, index_interval_bytes=1)))
    p.append(idempotent_batch(P, 0, b"gone"))
    for i in range(9):
        p.append(idempotent_batch(P + 1, i, b"v%d" % i))
    before = p.entries
    old = p.log.segments[:-1]
    p.log.raise_log_start(old[-1].end_offset)
    p.log.drop_segments(old)
    p.log.deleted_segments.add(old, now_ms=0, delay_ms=0)
    p.log.deleted_segments.purge(1)
    p.load()
    assert [entry[0] for entry in p.entries] == [P, P + 1]
    assert p.entries == before
    p.stop()
    assert p.entries == before


@pytest.mark.parametrize("to", range(13))
def test_a_truncation_takes_later_snapshots_along_and_the_state_with_them(
    p_log: ProducerLog, to: int
) -> None:
    p_log.truncate(to)
    assert all(offset <= to for offset in snapshots_in(p_log))
    assert p_log.entries == replayed(p_log.log).entries()
    assert [e[2] for e in p_log.entries] == ([to - 1] if to > 0 else [])


def test_snapshots_go_before_the_log_shows_its_new_end(
    p_log: ProducerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[list[int]] = []
    real = LogState.cut

    def cut(self: LogState, offset: int, tail: Tail) -> None:
        left.append([found for found in snapshots_in(p_log) if found > offset])
        real(self, offset, tail)

    monkeypatch.setattr(LogState, "cut", cut)
    p_log.truncate(4)
    p_log.log.truncate_fully_and_start_at(20)
    assert left == [[], []], "KAFKA-12153"
    assert snapshots_in(p_log) == []


def test_a_cut_snapshot_does_not_come_back_when_the_machine_loses_power(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    p = ProducerLog(Store(disk.root, LogConfig(segment_bytes=250, index_interval_bytes=1), fs=disk))
    for i in range(12):
        p.append(idempotent_batch(P, i, b"v%d" % i))
    p.stop()
    assert snapshots_in(p)[-1] == 12
    p.truncate(11)
    # Another producer's batch comes to stand where the first one's stood.
    p.append(idempotent_batch(P + 1, 0, b"w"))
    p.store.flush()
    disk.crash()
    p.store.start()
    p.load()
    assert p.entries == replayed(p.log).entries()


def test_a_snapshot_is_durable_before_the_recovery_point_passes_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    p = ProducerLog(Store(disk.root, LogConfig(segment_bytes=250, index_interval_bytes=1), fs=disk))
    for i in range(12):
        p.append(idempotent_batch(P, i, b"v%d" % i))
    taken = snapshots_in(p)
    p.store.flush()
    p.store.checkpoint()
    disk.crash()
    assert snapshots_in(p) == taken
    for offset in taken:
        assert parse(Path(p.log.snapshots.path(offset)).read_bytes()), "KAFKA-9892"


@pytest.mark.parametrize("rolled", [False, True])
def test_so_is_one_that_a_process_took_which_was_killed_before_it_was_flushed(
    tmp_path: Path, rolled: bool
) -> None:
    """Retention may leave nothing else of a producer, and the machine lose power then (I-60).

    `rolled`: only the file at the recovery point is not durable yet.
    """
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    p = ProducerLog(Store(disk.root, LogConfig(segment_bytes=250, index_interval_bytes=1), fs=disk))
    p.append(idempotent_batch(P, 0, b"gone"))
    for i in range(9):
        p.append(idempotent_batch(P + 1, i, b"v%d" % i))
    if rolled:
        p.store.flush()
        p.log.roll()
        p.store.checkpoint()
    p.kill()
    p.append(idempotent_batch(P + 1, 9, b"v9"))
    p.store.flush()
    p.store.shorten(p.log.segments[-1].base_offset)
    p.store.checkpoint()
    disk.crash()
    p.store.start()
    p.load()
    assert [entry[0] for entry in p.entries] == [P, P + 1]


def test_a_clean_stop_makes_its_snapshot_durable(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    p = ProducerLog(Store(disk.root, fs=disk))
    p.append(idempotent_batch(P, 0, b"v"))
    p.store.stop()
    disk.crash()
    assert parse(Path(p.log.snapshots.path(1)).read_bytes()) == tuple(p.entries)


def test_a_full_disk_at_a_roll_refuses_the_batch_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    p = ProducerLog(Store(disk.root, LogConfig(segment_bytes=250, index_interval_bytes=1), fs=disk))
    while len(snapshots_in(p)) < 1:
        p.append(idempotent_batch(P, p.log.log_end_offset, b"v"))
    end = p.log.log_end_offset
    full = p.log.segments[-1]
    while not full.is_full_for(70, end, segment_bytes=250, index_bytes=1 << 20):
        p.append(idempotent_batch(P, end, b"v"))
        end = p.log.log_end_offset
    disk.room = 60
    with pytest.raises(OSError, match="No space"):
        p.append(idempotent_batch(P, end, b"v"))
    assert p.log.log_end_offset == end
    disk.room = None
    p.append(idempotent_batch(P, end, b"v"))
    assert snapshots_in(p)[-1] == end
    p.stop()
    assert p.entries == replayed(p.log).entries()


def test_a_producer_of_an_old_segment_does_not_grow_younger_with_each_restart(
    p_log: ProducerLog,
) -> None:
    p_log.append(idempotent_batch(P + 1, 0, b"x" * 300))
    p_log.append(idempotent_batch(P + 2, 0, b"x" * 300))
    p_log.stop()
    logs = sorted(p_log.store.log_dir.glob("*.log"))
    assert len(logs) == 6
    for path, hours_ago in zip(logs, (99, 88, 77, 30, 20, 10), strict=True):
        modified_s = 1_000_000_000 - 3600 * hours_ago
        os.utime(path, (modified_s, modified_s))
    states = loaded(p_log.log, wall_ms=1_000_000_000_000)
    assert states.expire(-1) == [P], "its last batch lies in the fourth: 30 hours"
    assert states.expire(4 * 3_600_000 - 1) == []
    assert states.expire(4 * 3_600_000) == [P + 1]
    assert states.expire(14 * 3_600_000) == [P + 2]
    backwards = loaded(p_log.log, wall_ms=0)
    assert backwards.expire(DAY_MS - 1) == [], "a clock before all of it makes nothing older"


def test_an_open_transaction_comes_back_from_a_snapshot() -> None:
    states = ProducerStates(1)
    entry = ProducerEntry(3, 2, 40, 58, 7, 99, 5, 51)
    states.rebuild([], 0, [entry])
    assert states.entries() == [entry]
    assert states.expire(10) == [], "never while a transaction is open"


DURABLE, WRITTEN = "what was durable", "all that was written"


def roll(p: ProducerLog) -> None:
    p.append(idempotent_batch(P, 7, b"x" * 200))
    p.append(idempotent_batch(P + 1, 0, b"y" * 200))


def flush(p: ProducerLog) -> None:
    roll(p)
    p.store.flush()
    p.store.checkpoint(p.log.log_end_offset)


def cut(p: ProducerLog) -> None:
    p.truncate(4)
    p.append(idempotent_batch(P + 1, 0, *[b"other"] * 5))
    p.store.flush()


def start_again(p: ProducerLog) -> None:
    p.log.producers = None
    p.log.truncate_fully_and_start_at(10)
    p.load()
    p.append(idempotent_batch(P + 1, 0, b"other"))


def stop(p: ProducerLog) -> None:
    p.stop()
    p.append(idempotent_batch(P, 7, b"v"))
    p.store.flush()


def drop_old_segments(p: ProducerLog) -> None:
    old = p.log.segments[:-1]
    p.log.raise_log_start(old[-1].end_offset)
    p.store.checkpoint()
    p.log.drop_segments(old)
    p.log.deleted_segments.add(old, now_ms=0, delay_ms=0)
    p.log.deleted_segments.purge(1)


@pytest.mark.parametrize(
    ("act", "kept"),
    [
        *((act, DURABLE) for act in (roll, flush, cut, start_again, stop, drop_old_segments)),
        *((act, WRITTEN) for act in (flush, cut)),
    ],
)
def test_power_lost_at_any_call_leaves_the_state_that_the_log_tells(
    act: Callable[[ProducerLog], None], kept: str, tmp_path: Path
) -> None:
    for calls in range(0, 1000, every(3)):
        root = tmp_path / str(calls)
        root.mkdir()
        disk = DyingDisk(root)
        config = LogConfig(segment_bytes=250, index_interval_bytes=1)
        p = ProducerLog(Store(root, config, fs=disk))
        for i in range(7):
            p.append(idempotent_batch(P, i, b"v%d" % i))
        if act is cut:  # its last snapshot lies at the end, and no segment
            p.stop()
        else:
            p.store.flush()
            p.store.checkpoint(7)
        disk.calls_left = calls
        try:
            act(p)
            done = True
        except PowerLost:
            done = False
        disk.calls_left = None
        if kept == DURABLE:
            disk.crash()
        else:
            disk.crash(lambda _, written: written)
        p.store.start()
        p.load()
        # A log whose first segments are gone does not show where its producers began.
        known = -1 if act is drop_old_segments else None
        found, expected = p.entries, replayed(p.log).entries()
        assert [e[:known] for e in found] == [e[:known] for e in expected], (calls, p.store.reports)
        assert all(at <= p.log.log_end_offset for at in snapshots_in(p))
        assert act is not drop_old_segments or [e[2] for e in p.entries] == [6]
        shutil.rmtree(root)
        if done:
            assert calls > 3
            return
    pytest.fail("it never came to an end")

"""The index of aborted transactions: written, rebuilt, cut and read (I-153)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.open_transactions import NONE_OPEN
from strandline_broker.hosts.disks.producer_loading import load_producers
from strandline_broker.storage.segment.txn_index import ENTRY, TxnIndex, serialize
from support.aborted_scan import indexed, on_disk, scan
from support.disk import FaultyDisk
from support.producer_log import (
    ProducerLog,
    end_marker,
    idempotent_batch,
    replayed,
    transactional_batch,
)
from support.storage import LARGE, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strandline_broker.storage.log.log import LogConfig
    from strandline_broker.storage.log.reader import LogRead
    from strandline_proto.batch import BatchHeader

A, B, C = 2, 3, 4


def log_of(path: Path, config: LogConfig = LARGE) -> ProducerLog:
    return ProducerLog(Store(path, config))


def begin(p: ProducerLog, producer_id: int, *, sequence: int = 0) -> int:
    return p.append(transactional_batch(producer_id, b"v" * 50, base_sequence=sequence))


def end(p: ProducerLog, producer_id: int, *, commit: bool = False) -> int:
    return p.append(end_marker(producer_id, commit=commit))


def interleaved(p: ProducerLog) -> None:
    """A and B together, B aborts at 3 while A is open; C aborts alone; A aborts at 7."""
    begin(p, A)
    p.append(idempotent_batch(99, 0, b"plain"))
    begin(p, B)
    end(p, B)
    begin(p, C)
    end(p, C)
    begin(p, A, sequence=1)
    end(p, A)
    begin(p, B, sequence=1)
    end(p, B, commit=True)


INTERLEAVED = [(B, 2, 3, 0), (C, 4, 5, 0), (A, 0, 7, 8)]


def read(p: ProducerLog, start: int, end_offset: int, *, max_bytes: int = 1 << 20) -> LogRead:
    return p.log.read(start, max_bytes=max_bytes, limit=end_offset, committed=True)


def test_an_abort_has_an_entry_and_a_commit_has_none(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    interleaved(p)
    assert indexed(p.log) == INTERLEAVED == scan(p.log)
    assert on_disk(p.log) == serialize(INTERLEAVED)


def test_a_marker_without_data_has_no_entry_and_no_file(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    end(p, A)
    end(p, A)
    assert list(p.store.log_dir.glob("*.txnindex")) == []


def test_a_follower_has_the_entries_of_its_leader(tmp_path: Path) -> None:
    leader, follower = log_of(tmp_path / "l"), log_of(tmp_path / "f")
    interleaved(leader)
    follower.copy_from(leader.log)
    assert on_disk(follower.log) == on_disk(leader.log)


@pytest.mark.parametrize("size", [1, 150, 300, 500])
def test_a_follower_that_copies_in_parts_has_them_too(tmp_path: Path, size: int) -> None:
    leader, follower = log_of(tmp_path / "l"), log_of(tmp_path / "f")
    interleaved(leader)
    while follower.log.log_end_offset < leader.log.log_end_offset:
        follower.copy_from(leader.log, max_bytes=size)
    assert on_disk(follower.log) == on_disk(leader.log)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 1, [A]),
        (0, 3, [B, A]),
        (3, 4, [B, A]),  # from the marker of B on
        (4, 5, [C, A]),
        (6, 8, [A]),
        (7, 10, [A]),
        (8, 10, []),
    ],
)
def test_a_read_names_the_transactions_that_reach_into_it(
    tmp_path: Path, start: int, stop: int, expected: list[int]
) -> None:
    p = log_of(tmp_path)
    interleaved(p)
    assert [each.producer_id for each in read(p, start, stop).aborted] == expected


def test_a_read_looks_into_later_segments(tmp_path: Path) -> None:
    """Mutant 50."""
    p = log_of(tmp_path)
    begin(p, A)
    p.log.roll()
    begin(p, B)
    p.log.roll()
    end(p, B)
    p.log.roll()
    end(p, A)
    assert [each.producer_id for each in read(p, 0, 1).aborted] == [A]
    assert [each.producer_id for each in read(p, 1, 2).aborted] == [B, A]
    assert len(list(p.store.log_dir.glob("*.txnindex"))) == 2


def test_the_list_is_for_the_bytes_of_the_read_and_no_more(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    interleaved(p)
    one = read(p, 4, 10, max_bytes=1)
    assert (one.next_offset, [each.producer_id for each in one.aborted]) == (5, [C, A])
    assert p.log.read(4, max_bytes=1, limit=10).aborted == (), "a plain reader asks for none"


def test_the_index_stops_where_nothing_before_it_is_open() -> None:
    """Mutant 49: the last stable offset of an entry does not count its own transaction."""
    found: list[object] = []
    index = TxnIndex.of([(A, 0, 3, 4), (B, 4, 6, 7)])
    assert index.collect(0, 4, found)  # type: ignore[arg-type]
    assert found == [(A, 0, 3, 4)]
    assert not index.collect(0, 8, [])


def test_a_truncation_cuts_the_index(tmp_path: Path) -> None:
    """Mutant 51: another history takes the offsets."""
    p = log_of(tmp_path)
    interleaved(p)
    p.truncate(5)
    assert indexed(p.log) == INTERLEAVED[:1] == scan(p.log)
    assert on_disk(p.log) == serialize(INTERLEAVED[:1])
    end(p, C, commit=True)
    end(p, A)
    assert indexed(p.log) == [*INTERLEAVED[:1], (A, 0, 6, 7)] == scan(p.log)
    p.kill()
    assert indexed(p.log) == scan(p.log)


def test_a_truncation_removes_the_index_of_removed_segments(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    begin(p, A)
    begin(p, B)
    end(p, B)
    p.log.roll()
    end(p, A)
    p.truncate(2)
    assert indexed(p.log) == []
    assert on_disk(p.log) == b""


@pytest.mark.parametrize("damage", ["lost", "garbled", "short", "too long"])
def test_recovery_rebuilds_what_it_scans(tmp_path: Path, damage: str) -> None:
    p = log_of(tmp_path)
    begin(p, A)
    begin(p, B)
    end(p, B)
    p.log.roll()
    end(p, A)
    expected = on_disk(p.log)
    for path in p.store.log_dir.glob("*.txnindex"):
        data = path.read_bytes()
        path.unlink()
        if damage != "lost":
            changed = {"garbled": b"x" * 34, "short": data[:20], "too long": data + data}
            path.write_bytes(changed[damage])
    p.kill()
    assert on_disk(p.log) == expected
    assert indexed(p.log) == scan(p.log)


def test_recovery_drops_the_entry_of_a_marker_that_was_not_written(tmp_path: Path) -> None:
    """P-108: the entry comes first."""
    p = log_of(tmp_path)
    begin(p, A)
    path = p.store.log_dir / f"{0:020d}.txnindex"
    path.write_bytes(serialize([(A, 0, 1, 2)]))
    p.kill()
    assert not path.exists()
    assert indexed(p.log) == []


def test_a_clean_stop_keeps_the_index_and_an_unsound_one_is_rebuilt(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    interleaved(p)
    p.log.roll()
    begin(p, C, sequence=1)
    path = p.store.log_dir / f"{0:020d}.txnindex"
    p.stop()
    assert indexed(p.log) == INTERLEAVED
    assert p.store.reports == []
    path.write_bytes(path.read_bytes()[:-1])
    p.stop()
    assert indexed(p.log) == INTERLEAVED
    assert any("txnindex is unsound and is rebuilt" in report for report in p.store.reports)


@pytest.mark.parametrize("room", [0, 20, 34, 50, 100])
def test_a_failed_append_leaves_neither_the_entry_nor_the_marker(tmp_path: Path, room: int) -> None:
    """P-108: the entry has 34 bytes and is written first, the marker has 78."""
    root = tmp_path / "data"
    root.mkdir()
    disk = FaultyDisk(root)
    p = ProducerLog(Store(root, LARGE, fs=disk))
    begin(p, A)
    begin(p, B)
    end(p, B)
    before = on_disk(p.log)
    disk.room = room
    with pytest.raises(OSError, match="No space"):
        end(p, A)
    disk.room = None
    assert (p.log.log_end_offset, on_disk(p.log)) == (3, before)
    p.kill()
    assert p.log.log_end_offset == 3, "nothing of the marker was written"
    assert (indexed(p.log), on_disk(p.log)) == (scan(p.log), before)
    end(p, A)
    assert indexed(p.log) == [(B, 1, 2, 0), (A, 0, 3, 4)] == scan(p.log)


def test_an_index_that_cannot_be_undone_ends_the_use_of_the_log(tmp_path: Path) -> None:
    """P-108: the next start rebuilds it."""
    root = tmp_path / "data"
    root.mkdir()
    disk = FaultyDisk(root)
    p = ProducerLog(Store(root, LARGE, fs=disk))
    begin(p, A)
    disk.room = 10
    disk.failing["ftruncate"] = errno.EIO
    with pytest.raises(OSError, match="No space"):
        end(p, A)
    assert p.log.damaged is not None
    disk.room = None
    disk.failing.clear()
    p.kill()
    assert (indexed(p.log), on_disk(p.log)) == ([], b"")


def test_what_is_flushed_includes_the_index(tmp_path: Path) -> None:
    """The recovery point passes no marker whose entry a loss of power could take."""
    p = log_of(tmp_path)
    begin(p, A)
    p.store.flush()
    end(p, A)
    ticket = p.log.flush_snapshot()
    assert any(file.path.endswith(".txnindex") for file in ticket.files)
    assert ticket.sync_directory, "its name is new"
    ticket.run()
    p.log.flushed(ticket)
    p.append(idempotent_batch(99, 0, b"plain"))
    after = p.log.flush_snapshot()
    assert not any(file.path.endswith(".txnindex") for file in after.files)
    assert not after.sync_directory


def test_entries_are_kafkas() -> None:
    assert ENTRY.pack(0, 2, 41, 49, 40).hex() == (
        "00000000000000000002000000000000002900000000000000310000000000000028"
    )


def test_an_ended_transaction_above_the_watermark_is_known_after_a_start(tmp_path: Path) -> None:
    """I-159: the snapshot of the segment names no ended transaction, so an older one is used."""
    p = log_of(tmp_path)
    begin(p, A)
    end(p, A)
    p.log.roll()
    begin(p, B)
    end(p, B)
    p.log.roll()
    for high_watermark, unstable in [(3, 2), (4, NONE_OPEN), (1, 0), (0, 0), (2, 2)]:
        producers = load_producers(
            p.log, expiration_ms=10**9, now_ms=0, wall_ms=0, high_watermark=high_watermark
        )
        assert producers.transactions.first_unstable == unstable, high_watermark
        assert producers.entries() == replayed(p.log).entries()


def test_a_snapshot_above_the_watermark_serves_without_transactions(tmp_path: Path) -> None:
    p = log_of(tmp_path)
    p.append(idempotent_batch(99, 0, b"plain"))
    p.log.roll()
    p.store.flush()
    begun: list[int] = []
    real = p.log.replay

    def replay(start: int) -> Iterator[tuple[BatchHeader, int | None]]:
        begun.append(start)
        return real(start)

    p.log.replay = replay  # type: ignore[method-assign]
    load_producers(p.log, expiration_ms=10**9, now_ms=0, wall_ms=0, high_watermark=0)
    assert begun == [1]

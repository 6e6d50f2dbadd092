"""Gaps that compaction leaves: copied by followers, lawful for recovery, and nowhere else (I-1)."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.storage.files.gaps_marker import NAME, FirstGap
from strandline_proto.batch import prefix, read_header
from strandline_proto.errors import CorruptMessage
from support.storage import LARGE, Store, batch_of


def at(base: int, *values: bytes, epoch: int = 0) -> bytes:
    """A batch as it stands in a leader's log."""
    batch = batch_of(*values)
    return prefix(base, read_header(batch).batch_length, epoch) + batch[16:]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "data", LARGE)
    store.append(b"a")
    return store


def test_a_gap_is_refused_where_nothing_says_that_the_leader_has_compacted(store: Store) -> None:
    with pytest.raises(CorruptMessage, match="base offset 5 does not follow"):
        store.log.append_as_follower(at(5, b"b"), leader_epoch=0)
    with pytest.raises(CorruptMessage, match="base offset 5 does not follow"):
        store.log.append_as_follower(at(5, b"b"), leader_epoch=0, gaps_below=5)


def test_a_first_gap_is_appended_only_after_it_was_noted(store: Store) -> None:
    run = at(1, b"b") + at(5, b"c")
    with pytest.raises(FirstGap):
        store.log.append_as_follower(run, leader_epoch=0, gaps_below=6)
    assert store.log.log_end_offset == 1
    store.log.gaps.expect()
    assert (store.log_dir / NAME).exists()
    store.log.append_as_follower(run, leader_epoch=0, gaps_below=6)
    assert store.log.log_end_offset == 6
    assert store.values() == [b"a", b"b", b"c"]


def test_a_run_without_a_gap_needs_no_note(store: Store) -> None:
    store.log.append_as_follower(at(1, b"b") + at(2, b"c"), leader_epoch=0, gaps_below=2**63 - 1)
    assert not (store.log_dir / NAME).exists()


def test_offsets_that_fall_are_refused_whatever_gaps_are_lawful(store: Store) -> None:
    store.log.gaps.expect()
    with pytest.raises(CorruptMessage, match="base offset 0 does not follow"):
        store.log.append_as_follower(at(0, b"b"), leader_epoch=0, gaps_below=100)


def test_recovery_keeps_what_stands_behind_a_gap_that_was_noted(store: Store) -> None:
    store.log.gaps.expect()
    store.log.append_as_follower(at(5, b"b") + at(9, b"c"), leader_epoch=0, gaps_below=100)
    log = store.restart()
    assert log.log_end_offset == 10
    assert store.values() == [b"a", b"b", b"c"]
    assert not any("not a file of this log" in report for report in store.reports)


def test_recovery_keeps_segments_that_begin_behind_a_gap_that_was_noted(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", replace(LARGE, segment_bytes=100))
    store.append(b"a")
    store.log.gaps.expect()
    for base in (5, 9):
        store.log.append_as_follower(at(base, b"b" * 80), leader_epoch=0, gaps_below=100)
    assert store.restart().log_end_offset == 10
    assert len(store.values()) == 3


@pytest.fixture
def torn(tmp_path: Path) -> Store:
    """Of three segments the second has lost its end to a loss of power, and the third has not."""
    store = Store(tmp_path / "data", replace(LARGE, segment_bytes=350))
    store.append(b"a" * 80)
    store.log.gaps.expect()
    for base in (5, 6, 7, 8):
        store.log.append_as_follower(at(base, b"b" * 80), leader_epoch=0, gaps_below=100)
    assert [s.base_offset for s in store.log.segments] == [0, 6, 8]
    os.truncate(store.log.segments[1].path(), store.log.segments[1].size // 2)
    return store


def test_recovery_cuts_where_the_end_of_a_segment_is_missing(torn: Store) -> None:
    """A follower's gaps lie within segments, and so do those that our cleaner leaves (I-1, I-7)."""
    assert torn.restart().log_end_offset == 7
    assert any("the segment should begin at offset 7" in report for report in torn.reports)


def test_recovery_keeps_gaps_between_segments_that_a_cleaner_of_kafka_has_left(torn: Store) -> None:
    torn.log.clean_to(8)
    torn.directory.write_cleaned_offsets({("t", 0): 8})
    assert torn.restart().log_end_offset == 9


def test_recovery_keeps_them_where_nobody_knows_the_recovery_point(torn: Store) -> None:
    torn.flush()
    torn.checkpoint()
    (torn.path / "recovery-point-offset-checkpoint").write_text("nonsense", "utf-8")
    assert torn.restart().log_end_offset == 9
    assert torn.log.damaged_ranges.entries == ()


def test_recovery_cuts_at_a_gap_that_was_not_noted(store: Store) -> None:
    store.log.gaps.expect()
    store.log.append_as_follower(at(5, b"b"), leader_epoch=0, gaps_below=100)
    (store.log_dir / NAME).unlink()
    assert store.restart().log_end_offset == 1

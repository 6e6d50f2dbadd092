"""When a log begins a new segment: size and index in test_storage_log, here by time."""

from pathlib import Path

import pytest

from strandline_broker.storage.log.log import Log, LogConfig
from strandline_proto.batch import build_batch, read_header
from support.storage import Store

HOUR = 3_600_000
CONFIG = LogConfig(segment_ms=HOUR)


def append(log: Log, timestamp_ms: int, *, now_ms: int = 0) -> bool:
    """Whether a new segment was begun for it."""
    batch = build_batch([(None, b"v")], timestamp_ms=timestamp_ms)
    return log.append_as_leader(batch, read_header(batch), leader_epoch=0, now_ms=now_ms).rolled


def begun(path: Path, config: LogConfig = CONFIG) -> Store:
    return Store(path / "data", config)


def test_a_segment_holds_what_comes_within_its_time_after_its_first_batch(tmp_path: Path) -> None:
    log = begun(tmp_path).log
    assert not append(log, 1000)
    assert not append(log, 1000 + HOUR)
    assert append(log, 1001 + HOUR)
    assert not append(log, 1001 + 2 * HOUR)
    assert [s.base_offset for s in log.segments] == [0, 2]


def test_records_that_go_back_in_time_begin_no_segment(tmp_path: Path) -> None:
    log = begun(tmp_path).log
    append(log, 5 * HOUR)
    assert not append(log, 0)
    assert append(log, 6 * HOUR + 1), "its first batch counts, not its latest"


def test_the_first_timestamp_is_known_again_after_a_restart(tmp_path: Path) -> None:
    store = begun(tmp_path)
    for i in range(3):
        append(store.log, 1000 + i)
    store.restart()
    assert not append(store.log, 1000 + HOUR)
    assert append(store.log, 1001 + HOUR)


def test_without_timestamps_the_wall_clock_counts(tmp_path: Path) -> None:
    store = begun(tmp_path)
    assert not append(store.log, -1, now_ms=7000)
    assert not append(store.log, -1, now_ms=7000 + HOUR)
    assert append(store.log, -1, now_ms=7001 + HOUR)
    append(store.log, -1, now_ms=7001 + HOUR)
    store.restart()
    assert not append(store.log, -1, now_ms=9000 + 3 * HOUR), "its age begins with the restart"
    assert append(store.log, -1, now_ms=9001 + 4 * HOUR)


def test_a_follower_rolls_by_time_too(tmp_path: Path) -> None:
    leader, follower = begun(tmp_path / "l"), begun(tmp_path / "f")
    for timestamp in (1000, 2000 + HOUR):
        append(leader.log, timestamp)
        at = follower.log.log_end_offset
        records = leader.log.read(at, max_bytes=1000, limit=leader.log.log_end_offset).records
        follower.log.append_as_follower(records, leader_epoch=0)
    assert [s.base_offset for s in follower.log.segments] == [0, 1]


def test_jitter_takes_off_at_most_its_own_and_differs_by_segment() -> None:
    config = LogConfig(segment_ms=HOUR, segment_jitter_ms=600_000)
    drawn = [config.segment_ms_of("t", 0, base) for base in range(200)]
    assert all(HOUR - 600_000 <= ms <= HOUR for ms in drawn)
    assert len(set(drawn)) > 150
    assert drawn == [config.segment_ms_of("t", 0, base) for base in range(200)]
    assert config.segment_ms_of("t", 1, 0) != drawn[0]
    assert LogConfig(segment_ms=10, segment_jitter_ms=HOUR).segment_ms_of("t", 0, 0) >= 0


def test_jitter_is_applied(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=HOUR, segment_jitter_ms=600_000)
    log = begun(tmp_path, config).log
    append(log, 0)
    limit = config.segment_ms_of("t", 0, 0)
    assert limit < HOUR
    assert not append(log, limit)
    assert append(log, limit + 1)


@pytest.mark.parametrize("reopened", [False, True])
def test_a_roll_can_be_asked_for(tmp_path: Path, reopened: bool) -> None:
    store = begun(tmp_path)
    append(store.log, 1000)
    if reopened:
        store.restart()
    store.log.roll()
    append(store.log, 1000)
    assert [s.base_offset for s in store.log.segments] == [0, 1]
    assert store.values() == [b"v", b"v"]

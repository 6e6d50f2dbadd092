"""Open descriptors and indexes in memory are bounded over all logs of a broker."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_broker.storage.segment.open_segments import (
    OpenSegments,
    connections_max,
    replicas_max,
    sealed_max,
)
from strandline_proto.batch import read_header
from strandline_runtime.real import RealFileSystem
from support.storage import SMALL, Store, batch_of, values_of


@pytest.mark.parametrize(
    ("limit", "shares"),
    [
        (64, (16, 32, 8)),
        (1024, (256, 512, 128)),
        (2048, (512, 1024, 256)),
        (20_000, (5000, 14_488, 256)),
        (1 << 20, (262_144, 785_920, 256)),
    ],
)
def test_connections_leave_logs_their_descriptors(limit: int, shares: tuple[int, int, int]) -> None:
    assert (connections_max(limit), replicas_max(limit), sealed_max(limit)) == shares
    connections, replicas, sealed = shares
    assert limit - connections - replicas >= 2 * sealed, "checkpoints and servers need some too"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_below(path: Path) -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it meanwhile
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [to for to in found if to.startswith(f"{path}/")]


def filled(directory: DataDirectory, index: int, config: LogConfig = SMALL) -> Log:
    """A log of twenty segments."""
    log = directory.create_log("t", bytes([index]) * 16, index, config)
    for i in range(20):
        batch = batch_of(b"%d" % i * 400)
        log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    ticket = log.flush_snapshot()
    ticket.run()
    log.flushed(ticket)
    return log


def opened(path: Path, shared: OpenSegments) -> DataDirectory:
    return DataDirectory.open(
        RealFileSystem(),
        str(path),
        node_id=1,
        cluster_id=None,
        new_id=lambda: bytes(16),
        open_segments=shared,
    )


def test_one_bound_holds_for_all_logs_of_a_broker(tmp_path: Path) -> None:
    shared = OpenSegments(3)
    directory = opened(tmp_path, shared)
    logs = [filled(directory, i) for i in range(4)]
    before = descriptors()
    for log in logs:
        assert len(values_of(log)) == 20
        assert log.offset_for_timestamp(1000) == (1000, 0, 0)
        assert len(list(log.batch_headers(0))) == 20
        assert len(shared) <= 3
    assert descriptors() <= before + 3
    directory.close()


def test_what_was_read_longest_ago_goes_first(tmp_path: Path) -> None:
    shared = OpenSegments(2)
    log = filled(opened(tmp_path, shared), 0)
    for offset in (0, 1, 0, 2):
        log.read(offset, max_bytes=1, limit=20)
    is_open = [s.base_offset for s in log.segments[:-1] if s._view is not None]
    assert is_open == [0, 2]


def test_the_indexes_in_memory_are_bounded_too(tmp_path: Path) -> None:
    shared = OpenSegments(100, index_bytes_max=100)
    config = LogConfig(segment_bytes=2000, index_interval_bytes=0)
    log = filled(opened(tmp_path, shared), 0, config)
    values_of(log)
    held = [s.view().index_bytes for s in log.segments if s._view is not None]
    assert 0 < sum(held[:-1]) <= 100
    tight = OpenSegments(100, index_bytes_max=1)
    tight.touch(log.segments[0])
    assert len(tight) == 1, "the one being read stays open"


def test_segments_that_left_their_log_are_not_kept_open(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", SMALL)
    for i in range(10):
        store.append(b"%d" % i * 500, b"second")
    store.flush()
    log = store.log
    values_of(log)
    assert len(log.open_segments) == 9
    log.raise_log_start(4)
    dropped = log.segments[:2]
    log.drop_segments(dropped)
    assert len(log.open_segments) == 7
    assert all(s._view is None for s in dropped)
    log.truncate_to(10)
    assert len(log.open_segments) == 3
    store.stop()
    assert len(log.open_segments) == 0


def test_a_segment_that_is_not_flushed_stays_open(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", SMALL)
    for i in range(3):
        store.append(b"%d" % i * 900)
    values_of(store.log)
    assert len(store.log.open_segments) == 0
    assert all(s._view is not None for s in store.log.segments)


def test_a_log_that_is_deleted_before_a_flush_has_nothing_open(tmp_path: Path) -> None:
    directory = opened(tmp_path, OpenSegments(3))
    log = directory.create_log("t", bytes(16), 0, SMALL)
    for i in range(3):
        batch = batch_of(b"%d" % i * 900)
        log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    assert all(segment.unsynced for segment in log.segments[:-1])
    held = len(open_below(tmp_path))
    directory.delete_log(log)
    assert log.deleted  # and there is still a reference to it
    assert not [path for path in open_below(tmp_path) if "/t-0" in path]
    assert len(open_below(tmp_path)) == held - len(log.segments) - 2 * 2
    directory.close()


@pytest.mark.parametrize(
    "cut",
    [
        lambda log: log.truncate_to(3),
        lambda log: log.truncate_to(2),
        lambda log: log.truncate_fully_and_start_at(9),
    ],
    ids=["within a segment", "between two", "to nothing"],
)
def test_what_is_cut_away_before_a_flush_has_nothing_open(
    tmp_path: Path, cut: Callable[[Log], None]
) -> None:
    """I-182: segments have files that wait for the flush, and a lookup still refers to them."""
    store = Store(tmp_path, SMALL)
    log = store.log
    log.keep_producers(lambda: ())
    for i in range(6):
        store.append(b"%d" % i * 400)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert log.max_timestamp() == (1000, 0, 0)
    cut(log)
    assert not [path for path in open_below(tmp_path) if path.endswith(" (deleted)")]
    store.flush()
    still = [path for path in open_below(store.log_dir) if not path.endswith(".log")]
    assert not still, "what is left is flushed, and nobody reads it"

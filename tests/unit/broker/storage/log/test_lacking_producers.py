"""What is known of producers where batches could not be read (I-58)."""

from pathlib import Path

import pytest

from strandline_broker.hosts.disks.producer_loading import load_producers
from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.segment_check import check_segment
from strandline_proto.batch import build_batch, iter_headers, read_header
from support.disk import Hurried
from support.producer_log import end_marker, loaded
from support.storage import Store, damaged

ONE_SEGMENT = LogConfig(
    segment_bytes=1 << 20, index_interval_bytes=300, segment_index_bytes=10 << 20
)


def put(store: Store, producer_id: int, sequence: int) -> None:
    batch = build_batch(
        [(None, b"%02d" % sequence)],
        timestamp_ms=1000,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    store.log.append_as_leader(batch, read_header(batch), leader_epoch=0)


def load(store: Store) -> set[int]:
    """Whose batches are known; from now on the log's snapshots say the same."""
    producers = load_producers(store.log, expiration_ms=10**9, now_ms=0, wall_ms=0)
    store.log.producers = producers.entries
    return {entry[0] for entry in producers.entries()}


def flip(store: Store, number: int, byte: int = 16) -> None:
    """A byte of the batch with that number."""
    path = store.log_dir / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    at = sum(header.size for _, header in list(iter_headers(data))[:number])
    data[at + byte] ^= 0x41
    path.write_bytes(data)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One batch each of the producers 1, 2 and 3."""
    store = Store(tmp_path / "data", ONE_SEGMENT, fs=Hurried())
    for producer_id in (1, 2, 3):
        put(store, producer_id, 0)
    store.flush()
    store.checkpoint()
    return store


@pytest.mark.parametrize("stopped", [False, True])
def test_what_lacks_batches_is_not_kept(store: Store, stopped: bool) -> None:
    """A snapshot of it would hide them from the replay that may find them sound."""
    path = store.log_dir / f"{0:020d}.log"
    sound = path.read_bytes()
    flip(store, 1)
    assert load(store) == {1, 3}
    assert store.log.replay_lacks
    put(store, 3, 1)
    store.log.roll()
    put(store, 3, 2)
    store.flush()
    path.write_bytes(sound + path.read_bytes()[len(sound) :])  # it was misread
    if stopped:
        store.restart(Store.stop)
    assert check_segment(store.log, 0) == ()
    assert load(store) == {1, 2, 3}
    assert not store.log.replay_lacks
    store.log.roll()
    assert store.log.snapshots.newest(at_least=0, at_most=10) is not None


def test_only_a_replay_says_that_the_replay_lacks(store: Store) -> None:
    assert load(store) == {1, 2, 3}
    flip(store, 1)
    assert [header.base_offset for header in store.log.batch_headers(0)] == [0, 2]
    assert damaged(store.log) == [(1, 2)]
    assert len(list(store.log.batch_headers(0))) == 2
    assert not store.log.replay_lacks
    assert load(store) == {1, 3}
    assert store.log.replay_lacks


SEQUENCE, PRODUCER_ID = 53, 43 + 7
"""Bytes of a header that only the CRC covers."""


@pytest.mark.parametrize("byte", [SEQUENCE, PRODUCER_ID])
def test_what_a_disk_has_changed_is_not_remembered_of_a_producer(store: Store, byte: int) -> None:
    """A later sequence would make duplicates of batches that are new."""
    put(store, 1, 1)
    put(store, 2, 1)
    flip(store, 3, byte)
    producers = load_producers(store.log, expiration_ms=10**9, now_ms=0, wall_ms=0)
    assert {(e[0], e[2]) for e in producers.entries()} == {(1, 0), (2, 1), (3, 0)}
    assert store.log.replay_lacks
    assert damaged(store.log) == [(3, 4)]


class Flipping(Hurried):
    """Of `length` bytes of a file the last one is read otherwise."""

    length = -1

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        data = super().pread(fd, length, offset)
        return data[:-1] + bytes([data[-1] ^ 1]) if length == self.length else data


def test_a_misread_end_marker_is_not_remembered(tmp_path: Path) -> None:
    disk = Flipping()
    store = Store(tmp_path / "data", ONE_SEGMENT, fs=disk)
    put(store, 1, 0)
    loaded(store.log)
    marker = end_marker(1, coordinator_epoch=6)
    for _ in range(2):  # so that the walk reads more at once than one of them
        store.log.append_as_leader(marker, read_header(marker), leader_epoch=0)
    disk.length = len(marker)
    assert [marker for _, marker in store.log.replay(0)] == [None]
    assert store.log.replay_lacks
    disk.length = -1
    assert [marker for _, marker in store.log.replay(0)] == [None, 6, 6]
    assert not store.log.replay_lacks

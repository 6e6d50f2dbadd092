"""What is known of producers where batches could not be read (I-58)."""

from pathlib import Path

import pytest

from strandline_broker.hosts.producer_loading import load_producers
from strandline_broker.storage.log import LogConfig
from strandline_broker.storage.segment_check import check_segment
from strandline_proto.batch import build_batch, iter_headers, read_header
from support.disk import Hurried
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

"""The checkpoint files of a data directory are written when they would say something else."""

import os
from pathlib import Path

import pytest

from strandline_broker.storage.directory import shared_checkpoints
from strandline_broker.storage.files.checkpoints import HIGH_WATERMARKS
from strandline_broker.storage.log.log import LogConfig
from support.storage import Store

KEY = ("t", 0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "data", LogConfig())
    for i in range(20):
        store.append(b"%d" % i)
    store.flush()
    store.directory.write_high_watermarks({KEY: 20})
    return store


def written(store: Store, high_watermark: int) -> bool:
    """Whether the file is another one after it was to be written."""
    path = Path(store.directory.path) / HIGH_WATERMARKS
    before = os.stat(path).st_mtime_ns, os.stat(path).st_ino
    store.directory.write_high_watermarks({KEY: high_watermark})
    return (os.stat(path).st_mtime_ns, os.stat(path).st_ino) != before


def test_at_rest_nothing_is_written(store: Store) -> None:
    assert not written(store, 20)
    store.restart()
    assert written(store, 20), "whoever wrote it may have been killed before the sync"
    assert not written(store, 20)


def test_at_rest_a_directory_that_has_gone_is_found_out(store: Store, tmp_path: Path) -> None:
    os.rename(store.directory.path, tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        store.directory.write_high_watermarks({KEY: 20})


def test_at_rest_a_file_that_was_removed_is_written_anew(store: Store) -> None:
    path = Path(store.directory.path) / HIGH_WATERMARKS
    said = path.read_text("utf-8")
    path.unlink()
    store.directory.write_high_watermarks({KEY: 20})
    assert path.read_text("utf-8") == said


def test_what_has_changed_is_written(store: Store) -> None:
    assert written(store, 19)
    assert not written(store, 19)


def test_a_cut_waits_for_a_file_that_says_the_same(store: Store) -> None:
    store.log.truncate_to(10)
    store.directory.write_high_watermarks({KEY: 10})
    for i in range(10):
        store.append(b"another %d" % i)
    store.flush()
    assert store.log.limits.current() != ()
    assert written(store, 10)


def test_a_partition_that_is_forgotten_goes_from_the_file(store: Store) -> None:
    store.directory.delete_log(store.log)
    path = Path(store.directory.path) / HIGH_WATERMARKS
    assert "t 0 20" in path.read_text("utf-8")
    store.directory.write_high_watermarks({})
    assert "t 0 20" not in path.read_text("utf-8")


def test_a_write_that_failed_is_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shared_checkpoints, "write_offsets", fail)
        with pytest.raises(OSError, match="No space"):
            store.directory.write_high_watermarks({KEY: 19})
    assert written(store, 20), "nobody knows what the failed write has left"

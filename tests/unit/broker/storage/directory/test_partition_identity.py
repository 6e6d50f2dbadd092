"""A directory that has lost what says whose it is keeps its records (I-36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.storage.files.partition_metadata import read_partition_metadata
from strandline_runtime.real import RealFileSystem
from support.disk import Hurried
from support.storage import SMALL, TOPIC_ID, Store

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.storage.log.log import Log

FS = RealFileSystem()
OTHER_ID = b"o" * 16
NAME = "partition.metadata"
VALUES = [b"one", b"two", b"three"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def stopped(path: Path) -> Path:
    """A data directory with three records, cleanly stopped; where they lie."""
    store = Store(path)
    store.append(*VALUES)
    store.stop()
    return store.log_dir


def started(*paths: Path) -> BrokerDirectories:
    return BrokerDirectories.open(
        Hurried(), [str(p) for p in paths], node_id=1, cluster_id=None, new_id=lambda: b"i" * 16
    )


def loaded(directories: BrokerDirectories) -> Log:
    (directory,) = directories.online
    (found,) = directory.partitions()
    assert (found.topic_id, found.partition) == (TOPIC_ID, 0)
    return directory.load_log(found, SMALL, directories.findings.append)


def flip(path: Path, at: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def test_whatever_bit_flips_the_replica_is_known_by_its_seal(path: Path) -> None:
    metadata = stopped(path) / NAME
    was = metadata.read_bytes()
    for at in range(len(was)):
        flip(metadata, at, 1 << at % 8)
        again = started(path)
        assert loaded(again).log_end_offset == 3, at
        assert metadata.read_bytes() == was
        again.close()


def test_a_metadata_file_that_is_gone_is_written_again(path: Path) -> None:
    metadata = stopped(path) / NAME
    was = metadata.read_bytes()
    metadata.unlink()
    again = started(path)
    assert loaded(again).log_end_offset == 3
    assert any("has been written again" in finding for finding in again.findings)
    assert metadata.read_bytes() == was


@pytest.mark.parametrize("is_struck", [False, True])
def test_its_log_is_opened_as_after_an_unclean_stop(path: Path, is_struck: bool) -> None:
    log_dir = stopped(path)
    if is_struck:
        flip(log_dir / NAME, 20, 1)
    again = started(path)
    (directory,) = again.online
    assert directory.clean
    (found,) = directory.partitions()
    assert directory.partition_dirs.was_identified(found.path) == is_struck
    log = next(log_dir.glob("*.log"))
    log.write_bytes(log.read_bytes() + b"torn")
    assert loaded(again).log_end_offset == 3


@pytest.mark.parametrize("what", ["none", "struck"])
def test_a_file_without_a_seal_that_reads_is_believed_and_gets_one(path: Path, what: str) -> None:
    seal = stopped(path) / f"{NAME}.seal"
    was = seal.read_bytes()
    if what == "none":
        seal.unlink()
    else:
        flip(seal, 8, 2)
    assert loaded(started(path)).log_end_offset == 3
    assert seal.read_bytes() == was


def test_without_a_seal_nobody_guesses(path: Path) -> None:
    """The one replica that was hosted may lie on another disk: the controller knows its name."""
    log_dir = stopped(path)
    (log_dir / f"{NAME}.seal").unlink()
    flip(log_dir / NAME, 2, 1)
    again = started(path)
    assert again.online[0].partitions() == []
    ((directory, unknown),) = again.unknown()
    assert (unknown.topic, unknown.partition) == ("t", 0)
    directory.partition_dirs.identify(unknown, TOPIC_ID)
    assert again.unknown() == []
    assert loaded(again).log_end_offset == 3


def test_two_directories_of_one_seal_are_both_left_alone(path: Path, tmp_path: Path) -> None:
    log_dir = stopped(path)
    second = tmp_path / "second"
    started(path, second).close()
    flip(log_dir / NAME, 20, 1)
    log_dir.rename(second / "t-0")
    (path / "t-0").mkdir()
    for found in (second / "t-0").iterdir():
        (path / "t-0" / found.name).write_bytes(found.read_bytes())
    again = started(path, second)
    assert len(again.unknown()) == 2


def test_what_was_never_here_is_nobodys(path: Path) -> None:
    """Without the memory of what was hosted the seal proves nothing."""
    log_dir = stopped(path)
    flip(log_dir / NAME, 20, 1)
    (path / "strandline-state").unlink()
    again = started(path)
    assert len(again.unknown()) == 1
    assert again.online[0].partitions() == []


def test_a_changed_id_does_not_read(path: Path) -> None:
    log_dir = stopped(path)
    assert read_partition_metadata(FS, str(log_dir)) == TOPIC_ID
    text = (log_dir / NAME).read_text()
    (log_dir / NAME).write_text(text[:-3] + ("A" if text[-3] != "A" else "E") + text[-2:])
    with pytest.raises(ValueError, match="none of those in its seal"):
        read_partition_metadata(FS, str(log_dir))

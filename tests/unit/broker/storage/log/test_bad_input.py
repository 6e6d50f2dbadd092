"""What a data directory may hold that it should not: every file empty, cut, foreign or gone, disks
that are full, closed to us, or refuse a rename. Each is rebuilt, refused or reported; nothing that
was durable is lost without a word.
"""

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline_broker.storage.directory.directory import DirectoryError
from strandline_broker.storage.log.log import Log
from strandline_proto.batch import iter_headers, read_header, read_records
from strandline_proto.errors import KafkaStorageError
from support.disk import FaultyDisk, Hurried
from support.storage import SMALL, Store, batch_of, damaged

COUNT = 21


def written(path: Path) -> Store:
    """Batches of two records in several segments, flushed and checkpointed."""
    store = Store(path, fs=Hurried())
    for i in range(COUNT):
        store.append(b"%d" % i, b"x" * 40, epoch=i // 7)
    store.flush()
    store.checkpoint(2 * COUNT)
    return store


def value_at(offset: int) -> bytes:
    return b"x" * 40 if offset % 2 else b"%d" % (offset // 2)


def served(log: Log) -> dict[int, bytes]:
    """What a reader gets, going around what is refused as damaged."""
    found: dict[int, bytes] = {}
    position = log.log_start_offset
    while position < log.log_end_offset:
        try:
            run = log.read(position, max_bytes=1 << 20, limit=log.log_end_offset)
        except KafkaStorageError:
            (position,) = [r.end for r in log.damaged_ranges.entries if r.start <= position < r.end]
            continue
        for at, header in iter_headers(run.records):
            for record in read_records(run.records, at, header):
                found[record.offset] = record.value or b""
        position = run.next_offset
    return found


def files(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != ".lock":
            yield str(path.relative_to(root))


SPOILS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "one byte less": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\1" * 12),
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("how", SPOILS)
@pytest.mark.parametrize("stop", [Store.stop, Store.kill])
def test_any_file_that_is_spoilt_is_rebuilt_refused_or_reported(
    tmp_path: Path, how: str, stop: object
) -> None:
    store = written(tmp_path / "good")
    assert callable(stop)
    stop(store)
    for name in files(store.path):
        broken = tmp_path / "broken"
        shutil.copytree(store.path, broken)
        SPOILS[how](broken / name)
        try:
            check(broken, name)
        finally:
            shutil.rmtree(broken)


def existing(root: Path) -> Store:
    """A store over a directory that is there already; nothing is opened yet."""
    store = Store.__new__(Store)
    store.path, store.fs, store.config, store.reports = root, Hurried(), SMALL, []
    store._ids = random.Random(1)
    return store


def check(broken: Path, name: str) -> None:
    store = existing(broken)
    try:
        store.directory = store._open()
    except DirectoryError:
        assert name == "meta.properties"
        return
    found = store.directory.partitions()
    if not found:
        assert any("partition.metadata" in finding for finding in store.directory.findings), name
        store.directory.close()
        return
    for _ in range(2):  # the second start finds what the first one has made of it
        store.reports.clear()
        log = store.directory.load_log(found[0], store.config, store.reports.append)
        values = served(log)
        lost = {o for start, end in damaged(log) for o in range(start, end)}
        for offset in range(2 * COUNT):
            if offset not in lost:
                assert values[offset] == value_at(offset), (name, offset)
        assert all(values[o] == value_at(o) for o in values), name
        batch = batch_of(b"more")
        log.append_as_leader(batch, read_header(batch), leader_epoch=9)
        log.truncate_to(log.log_end_offset - 1)
        store.directory.close()
        store.directory = store._open()
    store.directory.close()


def life(disk: FaultyDisk, durable: list[int]) -> None:
    """What a broker does with its disk, once through; the last of `durable` must be found again."""
    store = Store(disk.root, fs=disk)
    for i in range(COUNT):
        store.append(b"%d" % i, b"x" * 40, epoch=i // 7)
        if i % 8 == 0:
            store.flush()
            durable.append(2 * i + 2)
            store.checkpoint(2 * i)
    durable.append(min(durable[-1], 2 * COUNT - 2))
    store.log.truncate_to(2 * COUNT - 2)
    store.append(b"%d" % (COUNT - 1), b"x" * 40, epoch=7)
    store.restart(Store.stop)
    durable.append(0)
    store.directory.delete_log(store.log)
    store.directory.purge_deleted()
    store.log = store.create(b"t" * 16)
    store.stop()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("pwritev", errno.ENOSPC),
        ("open", errno.EACCES),
        ("open", errno.ENOSPC),
        ("replace", errno.EACCES),
        ("replace", errno.EIO),
        ("fdatasync", errno.EIO),
        ("fsync_dir", errno.EIO),
        ("ftruncate", errno.EIO),
        ("unlink", errno.EROFS),
        ("makedirs", errno.EACCES),
    ],
)
def test_a_disk_that_fails_at_any_call_is_told_and_loses_nothing_durable(
    tmp_path: Path, call: str, error: int
) -> None:
    whole = FaultyDisk(tmp_path / "whole")
    life(whole, [])
    calls = whole.calls.count(call)
    assert calls > 0
    for number in range(0, calls, max(1, calls // 25)):
        disk = FaultyDisk(tmp_path / f"{number}")
        disk.spared[call], disk.failing[call] = number, error
        durable = [0]
        try:
            life(disk, durable)
        except (OSError, DirectoryError, KafkaStorageError) as told:
            assert str(told), (call, number)  # noqa: PT017 - which of them is another test's
        disk.kill()
        found_again(disk.root, durable[-1])


def found_again(root: Path, durable: int) -> None:
    store = existing(root)
    store.directory = store._open()
    found = store.directory.partitions()
    if durable > 0:
        log = store.directory.load_log(found[0], SMALL, store.reports.append)
        assert damaged(log) == [], store.reports
        values = served(log)
        assert [values[o] for o in range(durable)] == [value_at(o) for o in range(durable)]
    store.directory.close()

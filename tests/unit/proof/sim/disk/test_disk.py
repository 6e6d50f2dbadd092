"""The disk in memory: it answers as the real one does, and loses only what a real one may."""

import contextlib
import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.disk.inode import PAGE, Inode
from strandline_proof.sim.loop.owner import Stopped
from strandline_proof.sim.oracles.process.disks import Reader, check_disk
from strandline_runtime.real import RealFileSystem
from strandline_runtime.runtime import FileSystem
from support.storage import SMALL, Store

RW = os.O_RDWR | os.O_CREAT
ROOT = Path("/data")


def new_disk(seed: int = 0) -> SimDisk:
    return SimDisk(random.Random(seed), lambda: 1000.0)


def sample_operations(rng: random.Random, root: str) -> list[Callable[[FileSystem], Any]]:
    """A random history of a directory tree, errors included."""
    names = [f"{root}/{d}{n}" for d in ("", "d/", "e/") for n in ("a", "b", "c")]
    folders = [f"{root}/d", f"{root}/e", f"{root}/d/f"]

    def touch(path: str, flags: int, data: bytes, at: int, cut: int) -> Callable[[FileSystem], Any]:
        def act(fs: FileSystem) -> Any:
            fd = fs.open(path, flags)
            try:
                written = fs.pwritev(fd, (data, b"!"), at)
                head = fs.pread(fd, 50, 0)
                fs.ftruncate(fd, cut)
                fs.fdatasync(fd)
                return written, head, fs.pread(fd, 1 << 20, 3), fs.fstat(fd).size
            finally:
                fs.close(fd)

        return act

    def one() -> Callable[[FileSystem], Any]:
        path, other, folder = rng.choice(names), rng.choice(names), rng.choice(folders)
        flags = rng.choice((RW, RW, os.O_RDWR, RW | os.O_TRUNC, RW | os.O_EXCL))
        data, at, cut = rng.randbytes(rng.randrange(40)), rng.randrange(9000), rng.randrange(9000)
        return rng.choice(
            [
                touch(path, flags, data, at, cut),
                touch(path, flags, data, at, cut),
                lambda fs: fs.makedirs(folder),
                lambda fs: fs.replace(path, other),
                lambda fs: fs.replace(folder, f"{root}/g"),
                lambda fs: fs.unlink(path),
                lambda fs: fs.rmdir(folder),
                lambda fs: sorted(fs.listdir(folder)),
                lambda fs: (fs.exists(path), fs.isdir(folder), fs.isdir(path)),
                lambda fs: fs.fsync_dir(folder),
            ]
        )

    return [one() for _ in range(120)]


def outcomes(fs: FileSystem, root: str, seed: int) -> list[Any]:
    fs.makedirs(root)
    found = []
    for act in sample_operations(random.Random(seed), root):
        try:
            found.append(act(fs))
        except OSError as error:
            found.append(errno.errorcode[error.errno or 0])
    return found


@pytest.mark.parametrize("seed", range(15))
def test_it_answers_as_the_real_file_system_does(tmp_path: Path, seed: int) -> None:
    real = outcomes(RealFileSystem(), str(tmp_path / "root"), seed)
    assert outcomes(SimFs(new_disk()), "/root", seed) == real
    assert {"ENOENT", "EEXIST"} & {o for o in real if isinstance(o, str)}


def test_a_lock_is_held_until_its_process_ends() -> None:
    disk = new_disk()
    first, second = SimFs(disk), SimFs(disk)
    first.lock("/lock")
    with pytest.raises(BlockingIOError):
        second.lock("/lock")
    first.alive = False
    fd = second.lock("/lock")
    second.close(fd)
    SimFs(disk).lock("/lock")


def test_a_dead_process_does_nothing_more_but_may_close() -> None:
    disk = new_disk()
    fs = SimFs(disk)
    fd = fs.open("/a", RW)
    fs.alive = False
    with pytest.raises(Stopped):
        fs.pwrite(fd, b"x", 0)
    fs.close(fd)


def content(disk: SimDisk, path: str) -> bytes | None:
    fs = SimFs(disk)
    try:
        fd = fs.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    return fs.pread(fd, 1 << 20, 0)


def test_a_killed_process_leaves_what_it_wrote() -> None:
    disk = new_disk()
    fs = SimFs(disk)
    fs.pwrite(fs.open("/a", RW), b"abc", 0)
    fs.alive = False
    assert content(disk, "/a") == b"abc"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_durable_survives_and_the_rest_is_kept_lost_or_torn(seed: int) -> None:
    disk = new_disk(seed)
    fs = SimFs(disk)
    fd = fs.open("/a", RW)
    fs.pwrite(fd, b"A" * 3 * PAGE, 0)
    fs.fsync(fd)
    fs.fsync_dir("/")
    fs.pwrite(fd, b"B" * PAGE, PAGE)
    fs.pwrite(fd, b"C" * PAGE, 3 * PAGE)
    disk.lose_power()
    found = content(disk, "/a")
    assert found is not None
    assert 3 * PAGE <= len(found) <= 4 * PAGE
    assert found[:PAGE] == b"A" * PAGE
    assert set(found[PAGE : 2 * PAGE]) <= set(b"AB")
    assert found[2 * PAGE : 3 * PAGE] == b"A" * PAGE
    assert set(found[3 * PAGE :]) <= set(b"C\0")


def fates(act: Callable[[SimFs, int], None], seeds: int = 60) -> set[bytes | None]:
    """What may be found of `/a`, which held AAAA durably, after `act` and a loss of power."""
    found = set()
    for seed in range(seeds):
        disk = new_disk(seed)
        fs = SimFs(disk)
        fd = fs.open("/a", RW)
        fs.pwrite(fd, b"AAAA", 0)
        fs.fsync(fd)
        fs.fsync_dir("/")
        with contextlib.suppress(OSError):
            act(fs, fd)
        disk.lose_power()
        found.add(content(disk, "/a"))
    return found


def test_a_cut_may_not_have_happened_or_only_to_the_page() -> None:
    assert fates(lambda fs, fd: fs.ftruncate(fd, 1)) == {b"A", b"AAAA", b"A\0\0\0"}


def test_a_removed_name_may_be_there_again_until_the_directory_is_synced() -> None:
    assert fates(lambda fs, fd: fs.unlink("/a")) == {None, b"AAAA"}

    def durably(fs: SimFs, fd: int) -> None:
        fs.unlink("/a")
        fs.fsync_dir("/")

    assert fates(durably) == {None}


def test_a_failed_fsync_gives_pages_up_and_the_next_one_lies() -> None:
    def act(fs: SimFs, fd: int) -> None:
        fs.pwrite(fd, b"BBBB", 0)
        fs._disk.faults.fsync_error = 1.0
        with contextlib.suppress(OSError):
            fs.fsync(fd)
        fs._disk.faults.fsync_error = 0.0
        assert fs.pread(fd, 4, 0) == b"BBBB"
        fs.fsync(fd)

    assert fates(act) == {b"AAAA"}


def test_directory_operations_survive_as_a_prefix() -> None:
    seen = set()
    for seed in range(60):
        disk = new_disk(seed)
        fs = SimFs(disk)
        for name in "abc":
            fs.open(f"/{name}", RW)
        disk.lose_power()
        seen.add("".join(fs.listdir("/")))
    assert seen == {"", "a", "ab", "abc"}


def test_a_full_disk_writes_what_fits_and_then_refuses() -> None:
    disk = new_disk()
    fs = SimFs(disk)
    fd = fs.open("/a", RW)
    disk.capacity = 10
    assert fs.pwrite(fd, b"x" * 16, 0) == 10
    with pytest.raises(OSError, match="No space"):
        fs.pwrite(fd, b"x", 10)
    assert fs.free_space("/") == 0
    fs.unlink("/a")
    assert fs.free_space("/") == 10


def test_a_process_can_be_stopped_before_any_operation() -> None:
    disk = new_disk()
    fs = SimFs(disk)

    def crash(number: int, operation: str) -> None:
        if number == 3:
            fs.alive = False

    disk.crashes.append(crash)
    fd = fs.open("/a", RW)
    fs.pwrite(fd, b"x", 0)
    with pytest.raises(Stopped):
        fs.pwrite(fd, b"y", 1)
    assert content(disk, "/a") == b"x"


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_lost_power_opens_with_a_prefix_and_all_that_was_flushed(seed: int) -> None:
    rng = random.Random(seed)
    disk = new_disk(seed)
    fs = SimFs(disk)
    store = Store(ROOT, SMALL, fs=fs)
    values = [rng.randbytes(rng.randrange(90)) for _ in range(60)]
    durable = 0
    for i, value in enumerate(values):
        store.append(value, epoch=i // 15)
        if rng.random() < 0.1:
            store.flush()
            durable = i + 1
    fs.alive = False
    disk.lose_power(rng.random())
    store.fs = SimFs(disk)
    store.start()
    found = store.values()
    assert found == values[: len(found)]
    assert len(found) >= durable


def flipped() -> tuple[SimDisk, SimFs, Inode, int]:
    disk = new_disk()
    fs = SimFs(disk)
    fd = fs.open("/a", RW)
    fs.pwrite(fd, b"abcdef", 0)
    fs.fsync(fd)
    inode = disk.find("/a")
    assert isinstance(inode, Inode)
    inode.flip(2, 1)
    return disk, fs, inode, fd


def test_a_flipped_bit_is_read_and_the_harness_knows_what_was_written() -> None:
    _, fs, inode, fd = flipped()
    assert fs.pread(fd, 6, 0) == b"abbdef"
    assert inode.as_written() == b"abcdef"
    fs.pwrite(fd, b"g", 6)
    assert inode.as_written() == b"abcdefg"


@pytest.mark.parametrize("again", [b"abcdef", b"abxdef"])
def test_what_is_written_anew_is_right_again(again: bytes) -> None:
    _, fs, inode, fd = flipped()
    fs.pwrite(fd, again, 0)
    assert inode.as_written() == inode.data == again


def test_what_is_written_as_it_was_read_stays_wrong() -> None:
    _, fs, inode, fd = flipped()
    fs.pwrite(fd, fs.pread(fd, 6, 0), 0)
    assert inode.as_written() == b"abcdef" != inode.data


def test_a_cut_takes_flipped_bits_with_it() -> None:
    _, fs, inode, fd = flipped()
    fs.ftruncate(fd, 2)
    fs.pwrite(fd, b"xyz", 2)
    assert inode.as_written() == b"abxyz"


def test_a_file_that_has_grown_ends_in_zeros() -> None:
    disk, _, _, _ = flipped()
    inode = disk.find("/a")
    assert isinstance(inode, Inode)
    inode.grow(3)
    disk.lose_power(0.0)
    assert content(disk, "/a") == b"abbdef\0\0\0"


def test_a_misread_gives_bytes_of_another_place_of_a_log_only() -> None:
    disk = new_disk()
    fs = SimFs(disk)
    data = bytes(range(200))
    for name in ("/a.log", "/a.other"):
        fs.pwrite(fs.open(name, RW), data, 0)
    disk.faults.misread = 1.0
    found = {fs.pread(fs.open("/a.log", RW), 5, 3) for _ in range(20)}
    assert len(found) > 5
    assert all(each in data for each in found)
    assert fs.pread(fs.open("/a.other", RW), 5, 3) == data[3:8]


def test_what_opens_a_log_misreads_nothing_of_it() -> None:
    disk = new_disk()
    fs = SimFs(disk)
    fd = fs.open("/a.log", RW)
    fs.pwrite(fd, bytes(range(200)), 0)
    disk.faults.misread = 1.0
    disk.recovers = lambda: True
    assert {fs.pread(fd, 5, 3) for _ in range(20)} == {bytes(range(3, 8))}
    assert disk.counts == {}


def test_a_file_that_is_put_back_from_a_copy_is_right_again() -> None:
    _, fs, inode, fd = flipped()
    inode.restore()
    assert fs.pread(fd, 6, 0) == b"abcdef" == inode.as_written()


def test_a_look_from_outside_ends_no_fault() -> None:
    disk = new_disk()
    disk.faults.misread = 0.5
    Reader(disk)
    assert disk.faults.misread == 0.5


def test_a_lock_that_another_process_holds_leaves_nothing_open() -> None:
    disk = new_disk()
    fs, second = SimFs(disk), SimFs(disk)
    fs.makedirs("/data")
    fs.lock("/data/.lock")
    with pytest.raises(BlockingIOError):
        second.lock("/data/.lock")
    assert not second._open
    assert not second._paths


def test_what_a_failed_flush_has_struck_is_unsure_until_a_start_has_mended_it() -> None:
    disk, verified = new_disk(), Counter[str]()
    SimFs(disk).makedirs("/data")
    node: Any = SimpleNamespace(disk=disk, failed_before=0, process=SimpleNamespace(is_loaded=True))
    disk.struck += [("fsync error", "/data/t-0/0.log"), ("fsync error", "/data/t-1/0.log")]

    def unsure() -> set[str]:
        check_disk(node, verified)
        return disk.touched("fsync error", since=disk.mended)

    both = {"/data/t-0/0.log", "/data/t-1/0.log"}
    assert unsure() == both
    node.failed_before, node.process.is_loaded = 2, False
    assert unsure() == both, (
        "the process whose flush failed has ended, and the next while it loaded"
    )
    node.process.is_loaded = True
    assert unsure() == set()
    node.process.is_loaded = False
    assert unsure() == set()
    assert verified["disk verified after a crash"] == 4

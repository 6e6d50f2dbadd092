"""A disk that fails on purpose: full, slow to take bytes, deaf to fsync, and forgetful in a crash.

It wraps the real file system and remembers, for each file, what has been fsynced, and for each
directory, which names have. `crash` closes every descriptor and puts back what a machine that lost
power would find: names and bytes that were made durable, and of the others as much as `survives`
says.
"""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from strandline_runtime.real import RealFileSystem
from strandline_runtime.runtime import Buffer, FileStat

CHANGES = {"pwritev", "fdatasync", "fsync", "fsync_dir", "replace", "unlink", "ftruncate"}
"""Functions that change what is on the disk."""


class Hurried(RealFileSystem):
    """The real disk without waiting for it: for tests that restart processes, not machines."""

    def _skip(self, fd: int) -> None:
        pass

    fsync = _skip  # type: ignore[assignment]
    fdatasync = _skip  # type: ignore[assignment]

    def fsync_dir(self, path: str) -> None:
        pass


class FaultyDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.real = RealFileSystem()
        self.room: int | None = None
        """Bytes that still fit; None for plenty."""
        self.write_max: int | None = None
        """Most bytes that one call writes."""
        self.failing: dict[str, int] = {}
        """Name of a function -> errno that it fails with."""
        self.spared: dict[str, int] = {}
        """Name of a function -> how many calls of it succeed before it fails."""
        self.calls: list[str] = []
        self._open: dict[int, tuple[int, str]] = {}
        """Our descriptor -> the real one and its path. Ours are never reused, so that what a dead
        process's objects still close is not another's file."""
        self._opened = 1000
        self._durable: dict[int, bytes] = {}
        """Inode -> content at its last fsync."""
        self._names: dict[str, dict[str, int]] = {}
        """Directory -> name -> inode, as of its last fsync."""
        self._kept: dict[int, Path] = {}
        self._keep = root.with_name(root.name + ".durable")
        self._keep.mkdir(exist_ok=True)

    def _fail(self, call: str) -> None:
        self.calls.append(call)
        left = self.spared.get(call, 0)
        if left > 0:
            self.spared[call] = left - 1
        elif call in self.failing:
            raise OSError(self.failing[call], os.strerror(self.failing[call]))

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._fail("open")
        return self._own(self.real.open(path, flags, mode), path)

    def _own(self, real_fd: int, path: str) -> int:
        self._opened += 1
        self._open[self._opened] = real_fd, path
        return self._opened

    def _real(self, fd: int) -> int:
        if fd not in self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open[fd][0]

    def close(self, fd: int) -> None:
        real_fd = self._real(fd)
        del self._open[fd]
        self.real.close(real_fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        self._fail("pread")
        return self.real.pread(self._real(fd), length, offset)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        return self.pwritev(fd, [data], offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self._fail("pwritev")
        data = b"".join(buffers)
        for most in (self.room, self.write_max):
            if most is not None:
                data = data[:most]
        if not data and any(len(b) for b in buffers):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.room is not None:
            self.room -= len(data)
        return self.real.pwrite(self._real(fd), data, offset)

    def fsync(self, fd: int) -> None:
        self._fail("fsync")
        self._sync(fd)

    def fdatasync(self, fd: int) -> None:
        self._fail("fdatasync")
        self._sync(fd)

    def _sync(self, fd: int) -> None:
        stat = os.fstat(self._real(fd))
        self._durable[stat.st_ino] = os.pread(self._real(fd), stat.st_size, 0)

    def ftruncate(self, fd: int, length: int) -> None:
        self._fail("ftruncate")
        self.real.ftruncate(self._real(fd), length)

    def replace(self, src: str, dst: str) -> None:
        self._fail("replace")
        self.real.replace(src, dst)

    def unlink(self, path: str) -> None:
        self._fail("unlink")
        self.real.unlink(path)

    def rmdir(self, path: str) -> None:
        self.real.rmdir(path)

    def makedirs(self, path: str) -> None:
        self._fail("makedirs")
        self.real.makedirs(path)

    def listdir(self, path: str) -> list[str]:
        return self.real.listdir(path)

    def exists(self, path: str) -> bool:
        return self.real.exists(path)

    def isdir(self, path: str) -> bool:
        return self.real.isdir(path)

    def fstat(self, fd: int) -> FileStat:
        return self.real.fstat(self._real(fd))

    def fsync_dir(self, path: str) -> None:
        self._fail("fsync_dir")
        names = {}
        with os.scandir(path) as children:
            for child in children:
                inode = child.stat().st_ino
                names[child.name] = inode
                if inode not in self._kept and child.is_file():
                    # A second link keeps the inode, and so its number, alive after the name is
                    # gone.
                    self._kept[inode] = self._keep / str(len(self._kept))
                    os.link(child.path, self._kept[inode])
        self._names[path] = names

    def lock(self, path: str) -> int:
        return self._own(self.real.lock(path), path)

    def free_space(self, path: str) -> int:
        return self.real.free_space(path) if self.room is None else self.room

    def total_space(self, path: str) -> int:
        return self.real.total_space(path)

    def settle(self) -> None:
        """Everything that is there now is durable."""
        self._settle(self.root)

    def kill(self) -> None:
        """The process ends; the page cache, and so every byte, stays."""
        for fd in list(self._open):
            self.close(fd)
        self.room = self.write_max = None
        self.failing.clear()

    def crash(self, survives: Callable[[bytes, bytes], bytes] = lambda durable, _: durable) -> None:
        """The machine loses power: `survives(durable, written)` is the content each file is found
        with.
        """
        self.kill()
        self._restore(self.root, survives)
        shutil.rmtree(self._keep)
        self._keep.mkdir()
        self._durable.clear()
        self._names.clear()
        self._kept.clear()
        self._settle(self.root)

    def _restore(self, directory: Path, survives: Callable[[bytes, bytes], bytes]) -> None:
        names = self._names.get(str(directory), {})
        for child in list(os.scandir(directory)):
            if child.is_dir():
                if child.name in names:
                    self._restore(directory / child.name, survives)
                else:
                    shutil.rmtree(child)
            elif names.get(child.name) != child.stat().st_ino:
                os.unlink(child)
        for name, inode in names.items():
            path = directory / name
            kept = self._kept.get(inode)
            if kept is None:
                continue
            written = kept.read_bytes()
            path.unlink(missing_ok=True)
            path.write_bytes(survives(self._durable.get(inode, b""), written))

    def _settle(self, directory: Path) -> None:
        """After a restart everything found is what the disk holds."""
        for child in list(os.scandir(directory)):
            if child.is_dir():
                self._settle(directory / child.name)
            else:
                self._durable[child.stat().st_ino] = (directory / child.name).read_bytes()
        self.fsync_dir(str(directory))


class HalfFailing(RealFileSystem):
    """Two disks in one: calls on paths below `root` fail with `error` once it is set."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.error: int | None = None
        self.calls: frozenset[str] = frozenset()
        """Which fail; empty: all that change something."""
        self._paths: dict[int, str] = {}

    def _check(self, call: str, path: str) -> None:
        named = not self.calls or call in self.calls
        if self.error is not None and named and path.startswith(self.root):
            raise OSError(self.error, os.strerror(self.error), path)

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:  # type: ignore[override]
        self._check("open", path)
        fd = os.open(path, flags, mode)
        self._paths[fd] = path
        return fd

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        if self.calls:
            self._check("pread", self._paths[fd])
        return os.pread(fd, length, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:  # type: ignore[override]
        self._check("pwritev", self._paths[fd])
        return os.pwritev(fd, buffers, offset)

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        self._check("fdatasync", self._paths[fd])

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        self._check("fsync", self._paths[fd])

    def fsync_dir(self, path: str) -> None:
        self._check("fsync_dir", path)

    def replace(self, src: str, dst: str) -> None:  # type: ignore[override]
        self._check("replace", dst)
        os.replace(src, dst)


class Ended(BaseException):
    """The process is no more: nothing after this happens, not even what would clean up."""


class EndingDisk(FaultyDisk):
    """Ends the process before the n-th operation that changes something."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.left: int | None = None

    def _fail(self, call: str) -> None:
        if self.left is not None and call in CHANGES:
            if self.left == 0:
                raise Ended
            self.left -= 1
        super()._fail(call)


class PowerLost(BaseException):
    """Nothing may catch it: the machine is gone."""


class DyingDisk(FaultyDisk):
    """Loses power at one of its calls."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls_left: int | None = None

    def _fail(self, call: str) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise PowerLost
        super()._fail(call)

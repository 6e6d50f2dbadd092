"""A disk in memory that survives its processes and forgets what was never made durable.

A killed process leaves the page cache; a loss of power takes back each dirty page by itself, and
directory operations from the end of the metadata journal, which `fsync_dir` makes durable up to the
last operation on that directory. `SimFs` is the disk as one process sees it: the Runtime's `fs`,
with descriptors and locks of its own that end with the process.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from strandline_chaos.sim.disk_parts import (
    HANG_S,
    Change,
    Directory,
    DiskFaults,
    can_be_misread,
    parts,
)
from strandline_chaos.sim.inode import Inode
from strandline_chaos.sim.owner import Stopped
from strandline_runtime.runtime import FileStat

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from strandline_runtime.runtime import Buffer

CAPACITY: Final = 1 << 30
REFUSALS: Final = ("read error", "write error", "fsync error")
UNREAD: Final = ("misread", "read error")  # all stays as it was written, and is not seen


class SimDisk:
    """Each of `crashes` is asked at each operation (by number and name, before it happens; `path`
    says of what), until it takes itself out: then the process that wanted it is dead.
    """

    def __init__(self, rng: random.Random, wall: Callable[[], float]) -> None:
        self.faults = DiskFaults()
        self.capacity = CAPACITY
        self.operations = 0
        self.crashes: list[Callable[[int, str], None]] = []
        self.path = ""
        self.stalled: Callable[[float], None] = lambda _: None
        """Told how long an operation has blocked the thread that called it."""
        self.keeps_all: Callable[[], bool] = lambda: False  # whatever power it loses
        self.counts: dict[str, int] = {}
        """How often each fault has really struck."""
        self.mended = 0
        """After so many failed flushes what they left has been written again."""
        self._rng = rng
        self.wall = wall
        self.root = Directory()
        self._journal: list[tuple[Change, ...]] = []
        self._locks: dict[int, SimFs] = {}
        self._used = 0

    # Paths

    def find(self, path: str) -> Inode | Directory:
        found: Inode | Directory = self.root
        for part in parts(path):
            if not isinstance(found, Directory):
                raise _error(errno.ENOTDIR, path)
            below = found.entries.get(part)
            if below is None:
                raise _error(errno.ENOENT, path)
            found = below
        return found

    def parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        directory = self.find(above)
        if not isinstance(directory, Directory):
            raise _error(errno.ENOTDIR, path)
        return directory, name

    def change(self, *changes: Change) -> None:
        """One atomic entry of the metadata journal."""
        for directory, name, node in changes:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self._journal.append(changes)

    def commit(self, directory: Directory) -> None:
        """Make the journal durable up to the last entry about `directory`."""
        last = 0
        for number, changes in enumerate(self._journal, start=1):
            if any(changed is directory for changed, _, _ in changes):
                last = number
        self._apply(last)

    def _apply(self, count: int) -> None:
        for changes in self._journal[:count]:
            for directory, name, node in changes:
                if node is None:
                    directory.durable.pop(name, None)
                else:
                    directory.durable[name] = node
        del self._journal[:count]

    def lose_power(self, survival: float = 0.5) -> None:
        """Forget what was not made durable; `survival` says how much of it lasts all the same."""
        survival = 1.0 if self.keeps_all() else survival
        journal = len(self._journal)
        self._apply(journal if self._rng.random() < survival else self._rng.randint(0, journal))
        self._journal.clear()
        self._used = 0
        self._restore(self.root, survival)

    def _restore(self, directory: Directory, survival: float) -> None:
        directory.entries = dict(directory.durable)
        for node in directory.entries.values():
            if isinstance(node, Directory):
                self._restore(node, survival)
                continue
            if node.dirty:
                node.lose_power(self._rng, survival)
            self._used += len(node.data)

    def commit_all(self) -> None:
        """Make every name durable."""
        self._apply(len(self._journal))

    def put(self, root: Directory) -> None:
        """Other files, all of them durable, in the place of those that are here."""
        self.wipe()
        self.root = root

    def wipe(self) -> None:
        """A new disk of the same size."""
        self.root = Directory()
        self._journal.clear()
        self._used = 0

    # Faults

    def begin(self, operation: str, path: str) -> None:
        self.operations += 1
        self.path = path
        for crash in tuple(self.crashes):
            crash(self.operations, operation)
            if crash not in self.crashes:
                return

    def misread(self, data: bytearray, length: int, offset: int) -> bytes:
        """As much as was asked for, from elsewhere in the file."""
        elsewhere = self._rng.randrange(max(1, len(data)))
        return bytes(data[elsewhere : elsewhere + length])

    def strikes(self, rate: float, fault: str) -> bool:
        if rate == 0.0 or self._rng.random() >= rate:
            return False
        self.counts[fault] = self.counts.get(fault, 0) + 1
        return True

    @property
    def has_failed(self) -> bool:
        """Whether an operation has ever been refused."""
        return any(self.counts.get(fault) for fault in REFUSALS)

    def stall(self) -> None:
        if not self.strikes(self.faults.stall, "stall"):
            return
        if self.faults.stall_s >= HANG_S:
            self.faults.stall = 0.0  # once: what waits for it would wait for the next one too
            self.counts["disk operation hung"] = self.counts.get("disk operation hung", 0) + 1
        self.stalled(self.faults.stall_s)

    def room_for(self, wanted: int) -> int:
        """How many of `wanted` bytes are written."""
        if self.strikes(self.faults.write_error, "write error"):
            raise _error(errno.EIO, "")
        self.stall()
        room = self.capacity - self._used
        if room <= 0 < wanted:
            self.counts["disk full"] = self.counts.get("disk full", 0) + 1
            raise _error(errno.ENOSPC, "")
        if wanted > 1 and self.strikes(self.faults.short_write, "short write"):
            wanted = self._rng.randint(1, wanted - 1)
        return min(room, wanted)

    def use(self, more: int) -> None:
        self._used += more

    @property
    def used(self) -> int:
        """Bytes in all files; those of deleted ones are given back at once."""
        return self._used

    def lock(self, node: Inode, holder: SimFs) -> None:
        owner = self._locks.get(id(node))
        if owner is not None and owner.alive and owner is not holder:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        self._locks[id(node)] = holder

    def unlock(self, node: Inode, holder: SimFs) -> None:
        if self._locks.get(id(node)) is holder:
            del self._locks[id(node)]


class SimFs:
    """The Runtime's file functions for one process. Once `alive` is False every one of them ends
    the code that calls it, but for `close`, which finalizers call.
    """

    def __init__(self, disk: SimDisk) -> None:
        self.alive = True
        self._disk = disk
        self._open: dict[int, Inode | Directory] = {}
        self._paths: dict[int, str] = {}
        self._last_fd = 2

    def _begin(self, operation: str, path: str) -> None:
        if not self.alive:
            raise Stopped
        self._disk.begin(operation, path)
        if not self.alive:
            raise Stopped

    def _inode(self, fd: int) -> Inode:
        node = self._open.get(fd)
        if not isinstance(node, Inode):
            raise _error(errno.EBADF, str(fd))
        return node

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._begin("open", path)
        disk = self._disk
        directory, name = disk.parent(path)
        node = directory.entries.get(name)
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            node = Inode(disk.wall())
            disk.change((directory, name, node))
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        if isinstance(node, Inode) and flags & os.O_TRUNC:
            disk.use(-len(node.data))
            node.truncate(0, disk.wall())
        return self._own(node, path)

    def _own(self, node: Inode | Directory, path: str) -> int:
        self._last_fd += 1
        self._open[self._last_fd] = node
        self._paths[self._last_fd] = path
        return self._last_fd

    def close(self, fd: int) -> None:
        node = self._open.pop(fd, None)
        self._paths.pop(fd, None)
        if node is None:
            raise _error(errno.EBADF, str(fd))
        if isinstance(node, Inode):
            self._disk.unlock(node, self)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        self._begin("pread", self._paths.get(fd, ""))
        if self._disk.strikes(self._disk.faults.read_error, "read error"):
            raise _error(errno.EIO, "")
        data = self._inode(fd).data
        rate = self._disk.faults.misread
        if rate and can_be_misread(self._paths[fd]) and self._disk.strikes(rate, "misread"):
            return self._disk.misread(data, length, offset)
        return bytes(data[offset : offset + length])

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        return self.pwritev(fd, (data,), offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self._begin("pwritev", self._paths.get(fd, ""))
        node, disk = self._inode(fd), self._disk
        data = b"".join(buffers)
        data = data[: disk.room_for(len(data))]
        before = len(node.data)
        node.write(data, offset, disk.wall())
        disk.use(len(node.data) - before)
        return len(data)

    def fsync(self, fd: int) -> None:
        self._begin("fsync", self._paths.get(fd, ""))
        node, disk = self._open.get(fd), self._disk
        if isinstance(node, Directory):
            disk.commit(node)
            return
        node = self._inode(fd)
        disk.stall()
        if disk.strikes(disk.faults.fsync_error, "fsync error"):
            node.sync_fails()
            raise _error(errno.EIO, "")
        node.sync()

    fdatasync = fsync

    def ftruncate(self, fd: int, length: int) -> None:
        self._begin("ftruncate", self._paths.get(fd, ""))
        node, disk = self._inode(fd), self._disk
        disk.use(length - len(node.data))
        node.truncate(length, disk.wall())

    def replace(self, src: str, dst: str) -> None:
        self._begin("replace", dst)
        disk = self._disk
        old_directory, old_name = disk.parent(src)
        new_directory, new_name = disk.parent(dst)
        node = old_directory.entries.get(old_name)
        if node is None:
            raise _error(errno.ENOENT, src)
        there = new_directory.entries.get(new_name)
        if isinstance(there, Directory) and there.entries:
            raise _error(errno.ENOTEMPTY, dst)
        if isinstance(there, Inode):
            disk.use(-len(there.data))
        disk.change((old_directory, old_name, None), (new_directory, new_name, node))

    def unlink(self, path: str) -> None:
        self._begin("unlink", path)
        disk = self._disk
        directory, name = disk.parent(path)
        node = directory.entries.get(name)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        disk.use(-len(node.data))
        disk.change((directory, name, None))

    def rmdir(self, path: str) -> None:
        self._begin("rmdir", path)
        directory, name = self._disk.parent(path)
        node = directory.entries.get(name)
        if not isinstance(node, Directory):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)
        if node.entries:
            raise _error(errno.ENOTEMPTY, path)
        self._disk.change((directory, name, None))

    def makedirs(self, path: str) -> None:
        self._begin("makedirs", path)
        at = ""
        for part in path.split("/"):
            if not part:
                continue
            above, at = at, f"{at}/{part}"
            directory = self._disk.find(above)
            if not isinstance(directory, Directory):
                raise _error(errno.ENOTDIR, above)
            if part not in directory.entries:
                self._disk.change((directory, part, Directory()))
            elif not isinstance(directory.entries[part], Directory):
                raise _error(errno.EEXIST, at)

    def listdir(self, path: str) -> list[str]:
        self._begin("listdir", path)
        node = self._disk.find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return list(node.entries)

    def exists(self, path: str) -> bool:
        return self._look(path) is not None

    def isdir(self, path: str) -> bool:
        return isinstance(self._look(path), Directory)

    def _look(self, path: str) -> Inode | Directory | None:
        if not self.alive:
            raise Stopped
        try:
            return self._disk.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def fstat(self, fd: int) -> FileStat:
        if not self.alive:
            raise Stopped
        node = self._inode(fd)
        return FileStat(len(node.data), node.mtime)

    def fsync_dir(self, path: str) -> None:
        self._begin("fsync_dir", path)
        node = self._disk.find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        self._disk.commit(node)

    def lock(self, path: str) -> int:
        fd = self.open(path, os.O_RDWR | os.O_CREAT)
        try:
            self._disk.lock(self._inode(fd), self)
        except BlockingIOError:
            self.close(fd)
            raise
        return fd

    def free_space(self, path: str) -> int:
        self._disk.find(path)
        return max(0, self._disk.capacity - self._disk.used)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)

"""The disk as one process sees it: the Runtime's `fs`, with descriptors and locks of its own that
end with the process.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from strandline_proof.sim.disk.inode import Inode
from strandline_proof.sim.disk.parts import Directory, os_error
from strandline_proof.sim.loop.owner import Stopped
from strandline_runtime.runtime import FileStat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_runtime.runtime import Buffer


class Held(NamedTuple):
    """An open descriptor."""

    path: str
    is_there: bool
    """True if the file still stands at that path."""


class SimFs:
    """The Runtime's file functions for one process. Once `alive` is False, every function ends the
    code that calls it, except `close`, which finalizers call.
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
            raise os_error(errno.EBADF, str(fd))
        return node

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._begin("open", path)
        disk = self._disk
        directory, name = disk.parent(path)
        node = directory.entries.get(name)
        if node is None:
            if not flags & os.O_CREAT:
                raise os_error(errno.ENOENT, path)
            node = Inode(disk.wall())
            disk.change((directory, name, node))
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise os_error(errno.EEXIST, path)
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
            raise os_error(errno.EBADF, str(fd))
        if isinstance(node, Inode):
            self._disk.unlock(node, self)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        self._begin("pread", self._paths.get(fd, ""))
        if self._disk.strikes(self._disk.faults.read_error, "read error"):
            raise os_error(errno.EIO, "")
        data = self._inode(fd).data
        if self._disk.is_misread(self._paths[fd]):
            return self._disk.misread(data, length, offset)
        return bytes(data[offset : offset + length])

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        return self.pwritev(fd, (data,), offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self._begin("pwritev", self._paths.get(fd, ""))
        node, disk = self._inode(fd), self._disk
        data = b"".join(buffers)
        data = data[: disk.room_for(len(data), self._paths.get(fd, ""))]
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
            raise os_error(errno.EIO, "")
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
            raise os_error(errno.ENOENT, src)
        there = new_directory.entries.get(new_name)
        if isinstance(there, Directory) and there.entries:
            raise os_error(errno.ENOTEMPTY, dst)
        if isinstance(there, Inode):
            disk.use(-len(there.data))
        disk.change((old_directory, old_name, None), (new_directory, new_name, node))

    def unlink(self, path: str) -> None:
        self._begin("unlink", path)
        disk = self._disk
        directory, name = disk.parent(path)
        node = directory.entries.get(name)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        disk.use(-len(node.data))
        disk.change((directory, name, None))

    def rmdir(self, path: str) -> None:
        self._begin("rmdir", path)
        directory, name = self._disk.parent(path)
        node = directory.entries.get(name)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOENT if node is None else errno.ENOTDIR, path)
        if node.entries:
            raise os_error(errno.ENOTEMPTY, path)
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
                raise os_error(errno.ENOTDIR, above)
            if part not in directory.entries:
                self._disk.change((directory, part, Directory()))
            elif not isinstance(directory.entries[part], Directory):
                raise os_error(errno.EEXIST, at)

    def listdir(self, path: str) -> list[str]:
        self._begin("listdir", path)
        node = self._disk.find(path)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR, path)
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
            raise os_error(errno.ENOTDIR, path)
        self._disk.commit(node)

    def lock(self, path: str) -> int:
        fd = self.open(path, os.O_RDWR | os.O_CREAT)
        try:
            self._disk.lock(self._inode(fd), self)
        except BlockingIOError:
            self.close(fd)
            raise
        return fd

    def held(self) -> list[Held]:
        """Every descriptor that is open."""
        return [
            Held(self._paths[fd], self._look(self._paths[fd]) is node)
            for fd, node in self._open.items()
        ]

    def free_space(self, path: str) -> int:
        self._disk.find(path)
        return max(0, self._disk.capacity - self._disk.used)

    def total_space(self, path: str) -> int:
        self._disk.find(path)
        return self._disk.capacity

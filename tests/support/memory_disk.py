"""A disk in memory, for tests that open a small directory many thousand times."""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from posixpath import dirname

from strandline_runtime.runtime import Buffer, FileStat


class MemoryDisk:
    """What the storage layer asks of a file system, over a dict. Names are absolute paths."""

    def __init__(self, files: Iterable[tuple[str, bytes]] = ()) -> None:
        self.files = {path: bytearray(data) for path, data in files}
        self._open: dict[int, bytearray] = {}
        self._opened = 1000
        self._locked: dict[int, str] = {}
        self._directories = {parent for path in self.files for parent in _parents(path)}

    @classmethod
    def copy_of(cls, root: Path, name: str = "/data") -> "MemoryDisk":
        """The files below a real directory, but for its lock."""
        return cls(
            (f"{name}/{path.relative_to(root)}", path.read_bytes())
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.name != ".lock"
        )

    def copy(self) -> "MemoryDisk":
        return MemoryDisk((path, bytes(data)) for path, data in self.files.items())

    def kill(self) -> None:
        """The process ends: its descriptors and locks go."""
        self._open.clear()
        self._locked.clear()

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if path in self._directories:
            raise _error(errno.EISDIR, path)
        if path not in self.files:
            if not flags & os.O_CREAT or dirname(path) not in self._directories:
                raise _error(errno.ENOENT, path)
            self.files[path] = bytearray()
        elif flags & os.O_TRUNC:
            self.files[path].clear()
        return self._own(self.files[path])

    def _own(self, data: bytearray) -> int:
        self._opened += 1
        self._open[self._opened] = data
        return self._opened

    def _of(self, fd: int) -> bytearray:
        if fd not in self._open:
            raise _error(errno.EBADF, str(fd))
        return self._open[fd]

    def close(self, fd: int) -> None:
        self._of(fd)
        del self._open[fd]
        self._locked.pop(fd, None)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._of(fd)[offset : offset + length])

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        content = self._of(fd)
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
        return len(data)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        return self.pwrite(fd, b"".join(buffers), offset)

    def fsync(self, fd: int) -> None:
        self._of(fd)

    def fdatasync(self, fd: int) -> None:
        self._of(fd)

    def ftruncate(self, fd: int, length: int) -> None:
        content = self._of(fd)
        content.extend(bytes(max(length - len(content), 0)))
        del content[length:]

    def replace(self, src: str, dst: str) -> None:
        if src in self._directories:
            moved = [path for path in self.files if path.startswith(f"{src}/")]
            for path in moved:
                self.files[dst + path.removeprefix(src)] = self.files.pop(path)
            self._directories.discard(src)
            self._directories.add(dst)
        elif src in self.files:
            self.files[dst] = self.files.pop(src)
        else:
            raise _error(errno.ENOENT, src)

    def unlink(self, path: str) -> None:
        if path not in self.files:
            raise _error(errno.ENOENT, path)
        del self.files[path]

    def rmdir(self, path: str) -> None:
        if self.listdir(path):
            raise _error(errno.ENOTEMPTY, path)
        self._directories.discard(path)

    def makedirs(self, path: str) -> None:
        self._directories.update((path, *_parents(path)))

    def listdir(self, path: str) -> list[str]:
        if path not in self._directories:
            raise _error(errno.ENOENT, path)
        below = f"{path}/"
        found = {
            name[len(below) :].partition("/")[0]
            for name in (*self.files, *self._directories)
            if name.startswith(below)
        }
        return sorted(found)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self._directories

    def isdir(self, path: str) -> bool:
        return path in self._directories

    def fstat(self, fd: int) -> FileStat:
        return FileStat(size=len(self._of(fd)), mtime=0.0)

    def fsync_dir(self, path: str) -> None:
        self.listdir(path)

    def lock(self, path: str) -> int:
        if path in self._locked.values():
            raise _error(errno.EWOULDBLOCK, path)
        fd = self.open(path, os.O_CREAT)
        self._locked[fd] = path
        return fd

    def free_space(self, path: str) -> int:
        return 1 << 40

    def total_space(self, path: str) -> int:
        return 1 << 41

    def change(self, path: str, how: Callable[[bytes], bytes]) -> None:
        self.files[path] = bytearray(how(bytes(self.files[path])))


def _parents(path: str) -> list[str]:
    found = []
    while path not in ("/", ""):
        path = dirname(path)
        found.append(path)
    return found


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)

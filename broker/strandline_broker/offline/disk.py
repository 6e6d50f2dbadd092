"""The file system functions of the offline tools: the reading half of the Runtime's. The tools
therefore read a simulated disk as well as a real one. Nothing here can write.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from strandline_runtime.runtime import FileStat

READ: Final = os.O_RDONLY | os.O_CLOEXEC
WINDOW: Final = 1 << 20
"""Bytes that one read brings into memory; only small files are held whole."""
WHOLE_MAX: Final = 256 << 20


class Disk(Protocol):
    """The functions of a file system; each raises OSError as `os` does."""

    def open(self, path: str, flags: int, mode: int = 0o644) -> int: ...
    def close(self, fd: int) -> None: ...
    def pread(self, fd: int, length: int, offset: int) -> bytes: ...
    def fstat(self, fd: int) -> FileStat: ...
    def listdir(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def isdir(self, path: str) -> bool: ...


class OpenFile:
    """One file, read in pieces. Data appended after it was opened is ignored."""

    def __init__(self, disk: Disk, path: str, *, window: int = WINDOW) -> None:
        self._disk = disk
        self._window_size = window
        self.path = path
        self._fd = disk.open(path, READ)
        self.size = disk.fstat(self._fd).size
        self._at = 0
        self._window = b""

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def read(self, position: int, length: int) -> bytes:
        """Read `length` bytes, or fewer if the file ends before."""
        start = position - self._at
        if start < 0 or start + length > len(self._window):
            length = min(length, max(self.size - position, 0))
            if length >= self._window_size:
                return self._pread(length, position)
            self._at, start = position, 0
            self._window = self._pread(min(self._window_size, self.size - position), position)
        return self._window[start : start + length]

    def _pread(self, length: int, position: int) -> bytes:
        data = self._disk.pread(self._fd, length, position)
        while 0 < len(data) < length:
            more = self._disk.pread(self._fd, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def pieces(self, position: int, length: int) -> Iterator[bytes]:
        """The bytes from `position` on, in pieces of bounded size."""
        while length > 0:
            piece = self.read(position, min(length, self._window_size - 1))
            if not piece:
                return
            yield piece
            position += len(piece)
            length -= len(piece)


def read_small(disk: Disk, path: str) -> bytes:
    """The content of a file that must be small; ValueError if it is not."""
    with OpenFile(disk, path) as file:
        if file.size > WHOLE_MAX:
            raise ValueError(f"{file.size} bytes are too many for a file of its kind")
        return file.read(0, file.size)

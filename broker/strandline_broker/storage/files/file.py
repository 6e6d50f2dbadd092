"""One open file of the storage layer: whole reads, whole writes, and errors that name the path and
the position.

The descriptor is closed with the last reference. A reader in the disk pool holds a reference while
it reads. A roll or a deletion on the event loop therefore never closes a descriptor in use, and the
system cannot give it to another file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_runtime.runtime import Buffer, FileSystem

READ: Final = os.O_RDONLY | os.O_CLOEXEC
WRITE: Final = os.O_RDWR | os.O_CLOEXEC
CREATE: Final = WRITE | os.O_CREAT
CREATE_EMPTY: Final = CREATE | os.O_TRUNC
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk: they end once there is room."""
NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a process, or a machine, that may open no more files."""
PASSING: Final = NO_SPACE | NO_DESCRIPTORS | {errno.ENOMEM}
"""Errors that do not indicate a bad disk: the request is refused and may be retried."""


class File:
    __slots__ = ("_fs", "fd", "path")

    def __init__(self, fs: FileSystem, path: str, flags: int = READ) -> None:
        self.fd = -1
        self._fs = fs
        self.path = path
        self.fd = fs.open(path, flags, 0o644)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor. For a caller that has the only reference but cannot know when it
        ends: a propagating error keeps everything that its frames refer to.
        """
        # Important data was synced before, so an error here means nothing.
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                self._fs.close(fd)

    def read(self, length: int, position: int) -> bytes:
        """Read `length` bytes, or fewer if the file ends before."""
        try:
            data = self._fs.pread(self.fd, length, position)
            while 0 < len(data) < length:
                more = self._fs.pread(self.fd, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            self._fail(error, f"reading {length} bytes at {position}")
        return data

    def write(self, buffers: Sequence[Buffer], size: int, position: int) -> None:
        """Write all `size` bytes of `buffers`, in as many calls as needed; after an OSError an
        unknown part is written.
        """
        try:
            written = self._fs.pwritev(self.fd, buffers, position)
            if written != size:
                self._write_rest(b"".join(buffers), written, position)
        except OSError as error:
            self._fail(error, f"writing {size} bytes at {position}")

    def _write_rest(self, data: bytes, written: int, position: int) -> None:
        view = memoryview(data)
        while written < len(view):
            more = self._fs.pwrite(self.fd, view[written:], position + written)
            if more == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += more

    def truncate(self, length: int) -> None:
        try:
            self._fs.ftruncate(self.fd, length)
        except OSError as error:
            self._fail(error, f"cutting to {length} bytes")

    def sync(self) -> None:
        """Make data and size durable. An error is final: a second sync may report a false success
        (P-24).
        """
        try:
            self._fs.fdatasync(self.fd)
        except OSError as error:
            self._fail(error, "making it durable")

    def size(self) -> int:
        return self._fs.fstat(self.fd).size

    def _fail(self, error: OSError, doing: str) -> NoReturn:
        code = error.errno if error.errno is not None else errno.EIO
        raise OSError(code, f"{error.strerror or error} ({doing})", self.path) from error


def read_whole(fs: FileSystem, path: str) -> bytes:
    """The content of a small file; FileNotFoundError if there is none."""
    file = File(fs, path)
    return file.read(file.size(), 0)


def write_whole(fs: FileSystem, path: str, data: bytes) -> File:
    """Make `data` the whole content of the file at `path`, in place and not durable; for data that
    can be rebuilt.
    """
    file = File(fs, path, CREATE)
    if data:
        file.write((data,), len(data), 0)
    file.truncate(len(data))
    return file

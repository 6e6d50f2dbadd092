"""Files in Kafka's formats, which have no checksum, each with our own `<name>.seal` (I-8).

A digit that the disk has changed reads as another offset. With a high watermark that is too high,
records are served that may still be cut, and nothing else on the disk contradicts it. The seal
therefore lists the valid contents of the file, by CRC-32C. Content that the seal does not list is
lost: none of its numbers is trusted, but the fact that it existed counts
(`SharedCheckpoints.has_lost`). A file without a seal is trusted: Kafka, or an earlier version,
wrote it.

The seal is replaced before the file, and lists the present content too. Whenever a crash interrupts
the two writes, the content on disk is listed. A seal without a file comes from a first write that
was interrupted. A file that vanishes whole is therefore treated as one that never existed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from strandline_broker.storage.files.atomic_file import replace_file, replacing_files
from strandline_broker.storage.files.file import NO_SPACE, read_whole
from strandline_broker.storage.files.steps import in_a_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.storage.files.damage import Report
    from strandline_broker.storage.files.steps import Steps
    from strandline_runtime.runtime import FileSystem

SUFFIX: Final = ".seal"
VERSION: Final = 1
NAMED_MAX: Final = 8
"""Limit on the contents listed in one seal. More than two result only from repeated writes that
failed half-way.
"""


class SealedFile:
    """One sealed file, written by one caller at a time."""

    __slots__ = ("_fs", "_there", "path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self._there: tuple[int, ...] = ()
        """CRC-32C of each content that may be on the disk, as far as known."""

    def read(self, report: Report) -> bytes | None:
        """The content; None if the file is absent or not to be trusted."""
        try:
            data = read_whole(self._fs, self.path)
        except FileNotFoundError:
            return None
        crc = crc32c(data)
        try:
            named = named_by_seal(self._fs, self.path)
        except ValueError as error:
            # The seal is another file: the fault that changed it did not change the file it guards.
            report(f"{self.path}{SUFFIX} does not read ({error}); the file is believed without it.")
            named = None
        if named is not None and crc not in named:
            report(
                f"{self.path} is not what was written: its checksum {crc:08x} is none of those in "
                f"{self.path}{SUFFIX}. It is treated as absent; if somebody else wrote it on "
                f"purpose, remove the seal before the start."
            )
            return None
        self._there = (crc,)
        return data

    def replace(self, data: bytes) -> None:
        """Replace the file; durable on return. After an OSError it has the old content or
        the new.
        """
        in_a_row(self.replacing(data))

    def replacing(self, data: bytes) -> Steps[None]:
        """Replace the file, in the steps of `replacing_files`."""
        crc = crc32c(data)
        named = tuple(dict.fromkeys((*self._there, crc)))
        # The first is the content on disk if none of the failed writes since has replaced it.
        named = named[:1] + named[1:][1 - NAMED_MAX :]
        self._there = named
        seal = (self.path + SUFFIX, _seal(named))
        yield from replacing_files(self._fs, (seal, (self.path, data)))
        self._there = (crc,)


def named_by_seal(fs: FileSystem, path: str) -> tuple[int, ...] | None:
    """CRC-32C of each content that the file at `path` may have. None without a seal; ValueError if
    the seal does not parse.
    """
    try:
        data = read_whole(fs, path + SUFFIX)
    except FileNotFoundError:
        return None
    head, _, body = data.partition(b"\n")
    if head != _head(body):
        raise ValueError("its first line does not match the rest")
    return tuple(int(word, 16) for word in body.split())


def read_sealed(fs: FileSystem, path: str) -> bytes:
    """The content of a file that is valid as a whole or not at all.

    Raises ValueError if its seal does not list it. A file without a seal, or with one that does not
    parse, is trusted.
    """
    data = read_whole(fs, path)
    named = named_if_any(fs, path)
    if named is not None and crc32c(data) not in named:
        raise ValueError(f"its checksum {crc32c(data):08x} is none of those in its seal")
    return data


def named_if_any(fs: FileSystem, path: str) -> tuple[int, ...] | None:
    """The result of `named_by_seal`, or None for a seal that does not parse. The seal is another
    file: the fault that changed it did not change the file it guards.
    """
    with contextlib.suppress(ValueError):
        return named_by_seal(fs, path)
    return None


def seal_if_none(fs: FileSystem, path: str) -> None:
    """Give a seal to a file that was trusted without one, unless the disk is full."""
    if named_if_any(fs, path) is not None:
        return
    try:
        replace_file(fs, path + SUFFIX, _seal((crc32c(read_whole(fs, path)),)))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise


def _seal(named: Iterable[int]) -> bytes:
    body = b"".join(b"%08x\n" % each for each in named)
    return _head(body) + b"\n" + body


def _head(body: bytes) -> bytes:
    return b"seal %d %08x" % (VERSION, crc32c(body))

"""The contents of Spark's checkpoint, read and checked: `metadata` has the query's id, `offsets/N`
the end of batch N, and `commits/N` marks batch N as done.

Spark reads the newest files when a query starts. Its own error for a bad file names no remedy, so
these files are checked before Spark starts. Older files are not checked: Spark does not read them
either.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

from strandline_spark.cluster.offsets import StreamOffset, parse_json, stream_from_json
from strandline_spark.errors import TableError

_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_METADATA: Final = "metadata"
_COMMIT_VERSION: Final = re.compile(r"v[12]")
_CRC_HEADER: Final = b"crc\0"
_PUT_BACK: Final = "put it back from a copy"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a query that has begun."""

    path: str
    query: str
    """The id that Spark gave the query."""
    planned: tuple[int, ...]
    """The batches whose ends are logged, in order."""
    done: tuple[int, ...]

    def check_planned(self) -> None:
        """Raises TableError unless a batch is planned: the caller knows that one is done."""
        if not self.planned:
            raise _gone(self.path, os.path.join(self.path, _OFFSETS, "N"))

    def end(self, batch: int) -> StreamOffset:
        """Returns the end of the batch."""
        return read_offset_log(self.path, batch)


def read_checkpoint(path: str) -> Checkpoint | None:
    """Reads a checkpoint; None if no query has used it.

    Raises TableError, with the remedy, if a file from which Spark continues is missing or
    unreadable.
    """
    # A running query logs a batch as planned first. Listed in this order, each done batch is
    # planned.
    done = _batches(path, _COMMITS)
    planned = _batches(path, _OFFSETS)
    query = _query_id(path, begun=bool(done or planned))
    if query is None:
        return None
    newest = max([*done[-1:], *planned[-1:]], default=-1)
    for batch in range(newest, max(-1, newest - 2), -1):
        # Spark begins a batch where the previous one ended.
        read_offset_log(path, batch)
    if done:
        _check_commit(path, done[-1])
    return Checkpoint(path, query, planned, done)


def has_folders(path: str) -> bool:
    """True if there are folders with the names that Spark uses after it wrote the query's id."""
    return any(os.path.isdir(os.path.join(path, name)) for name in (_OFFSETS, _COMMITS))


def has_planned(path: str) -> bool:
    """True if the checkpoint holds a position. A query that ended before its first batch was
    planned has none, and Spark asks for the start again.
    """
    return bool(_batches(path, _OFFSETS))


def read_offset_log(checkpoint: str, batch_id: int) -> StreamOffset:
    """Reads the end offsets that Spark logged for a batch: version, metadata, a line a source."""
    path = os.path.join(checkpoint, _OFFSETS, str(batch_id))
    try:
        lines = _text_of(path).splitlines()
        if len(lines) != 3 or lines[0] != "v1":
            raise ValueError("three lines, the first of them v1, are expected")
        _object_of(lines[1])
        return stream_from_json(parse_json(lines[2]), least=0)
    except FileNotFoundError:
        raise _gone(checkpoint, path) from None
    except (OSError, ValueError) as why:
        raise TableError(
            f"{path} is not an offset log of one source, version 1 ({why}); restore it, or start a"
            f" new checkpoint{_how(checkpoint)}"
        ) from why


def _check_commit(checkpoint: str, batch: int) -> None:
    path = os.path.join(checkpoint, _COMMITS, str(batch))
    try:
        lines = _text_of(path).splitlines()
        if len(lines) != 2 or not _COMMIT_VERSION.fullmatch(lines[0]):
            raise ValueError("two lines, the first of them v1 or v2, are expected")
        _object_of(lines[1])
    except (OSError, ValueError) as why:
        raise TableError(
            f"{path}, by which Spark knows that batch {batch} is done, does not read ({why}):"
            f" {_PUT_BACK}, or remove it, and the batch is run again, which the job's tables take"
            " once"
        ) from why


def _query_id(checkpoint: str, *, begun: bool) -> str | None:
    """Returns the id of the query; None if it has not begun and there is none."""
    path = os.path.join(checkpoint, _METADATA)
    try:
        query = _object_of(_text_of(path)).get("id")
        if not isinstance(query, str) or not query:
            raise ValueError("it holds no id of a query")
        return query
    except (FileNotFoundError, NotADirectoryError):
        if begun:
            raise _gone(checkpoint, path) from None
        return None
    except (OSError, ValueError) as why:
        raise TableError(
            f"{path}, in which Spark keeps the query's id, does not read ({why}): {_PUT_BACK}, or"
            f" start a new checkpoint{_how(checkpoint)}"
        ) from why


def _gone(checkpoint: str, path: str) -> TableError:
    return TableError(
        f"{path} is not there, from which Spark goes on: {_PUT_BACK}, or start a new"
        f" checkpoint{_how(checkpoint)}"
    )


def _how(checkpoint: str) -> str:
    return f": move {checkpoint} away and start the job again, it goes on where its tables end"


def _batches(checkpoint: str, name: str) -> tuple[int, ...]:
    """Returns the numbers of the batches logged in a folder of a checkpoint, in order."""
    folder = os.path.join(checkpoint, name)
    try:
        return tuple(sorted(int(name) for name in os.listdir(folder) if name.isdecimal()))
    except FileNotFoundError:
        return ()
    except OSError as why:
        if not os.path.isdir(checkpoint):
            return ()
        raise TableError(
            f"{folder}, a folder of Spark's, does not read ({why.strerror}): {_PUT_BACK}, or start"
            f" a new checkpoint{_how(checkpoint)}"
        ) from why


def _text_of(path: str) -> str:
    """Returns the file's content. Raises OSError, and ValueError where Spark would not read it
    either.
    """
    with open(path, "rb") as file:
        data = file.read()
    if not data:
        raise ValueError("it is empty")
    _check_sums(path, data)
    return data.decode("utf-8")


def _check_sums(path: str, data: bytes) -> None:
    """Raises ValueError if the file has checksums beside it that do not match."""
    folder, name = os.path.split(path)
    try:
        with open(os.path.join(folder, f".{name}.crc"), "rb") as file:
            sums = file.read()
    except OSError:
        return
    if sums[:4] != _CRC_HEADER or len(sums) < 8:
        return
    (step,) = struct.unpack(">I", sums[4:8])
    chunks = [data[at : at + step] for at in range(0, len(data), step)] if step else []
    if sums[8:] != b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks):
        raise ValueError(
            f"it is not what Spark wrote, by the checksums in .{name}.crc beside it: if it was"
            " changed by intent, remove that file"
        )


def _object_of(text: str) -> dict[str, Any]:
    found = parse_json(text)
    if not isinstance(found, dict):
        raise ValueError(f"{text[:40]!r} is no JSON object")
    return found

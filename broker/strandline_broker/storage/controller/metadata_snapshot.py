"""The controller's state in one file: `<end offset>-<controller epoch>.checkpoint` (I-8, P-84).

The file holds record batches as a log does, with offsets from 0 without a gap. The first record is
a header (format, store, end offset). The last is a footer with the number of records between them.
A file that ends early, or belongs to another store, is therefore detected. The file is written
under a temporary name, made durable, and then renamed. Nothing that it covers may be removed before
that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.storage.files.atomic_file import replace_file_with
from strandline_broker.storage.files.checkpoints import METADATA_SNAPSHOT as NAME
from strandline_broker.storage.files.file import read_whole
from strandline_proto.batch import (
    MAGIC,
    Compression,
    build_batch,
    crc_matches,
    iter_headers,
    prefix,
    read_header,
    read_records,
)
from strandline_proto.errors import CorruptMessage, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_proto.batch import BatchHeader
    from strandline_runtime.runtime import FileSystem

VERSION: Final = 1
"""Version of the format. It rises with the level of the records
(`core.controller.records.LOG_LEVEL`); older versions are read.
"""
BATCH_BYTES: Final = 256 << 10
"""Bytes of values in one batch, which is encoded and written at once."""


class BadSnapshot(Exception):
    """A snapshot file differs from what was written; the message says why."""


class LaterSnapshot(Exception):
    """A later build has written a snapshot. It cannot be read here, and is not damaged."""


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """The extent of a snapshot: every record below `end_offset`, the last one of
    `controller_epoch`.
    """

    end_offset: int
    controller_epoch: int

    @property
    def name(self) -> str:
        return f"{self.end_offset:020d}-{self.controller_epoch:010d}.checkpoint"


def list_snapshots(fs: FileSystem, directory: str) -> list[SnapshotId]:
    """The snapshots by name, oldest first, without a check of their content."""
    names = map(NAME.fullmatch, fs.listdir(directory))
    return sorted(SnapshotId(int(name[1]), int(name[2])) for name in names if name is not None)


def write_snapshot(
    fs: FileSystem,
    directory: str,
    snapshot: SnapshotId,
    values: Iterable[bytes],
    *,
    store_id: str,
    now_ms: int,
) -> int:
    """Write a snapshot; returns its size in bytes, once it is durable under its name. After an
    OSError it may be absent or present.
    """
    batches = _batches(snapshot, values, store_id=store_id, now_ms=now_ms)
    return replace_file_with(fs, f"{directory}/{snapshot.name}", batches)


def _batches(
    snapshot: SnapshotId, values: Iterable[bytes], *, store_id: str, now_ms: int
) -> Iterator[bytes]:
    header = {
        "type": "SnapshotHeader",
        "version": VERSION,
        "store_id": store_id,
        "end_offset": snapshot.end_offset,
    }
    offset = 0
    for run in _runs(header, values):
        batch = build_batch(((None, value) for value in run), timestamp_ms=now_ms)
        length = read_header(batch).batch_length
        assigned = prefix(offset, length, snapshot.controller_epoch)
        yield assigned + batch[len(assigned) :]
        offset += len(run)


def _runs(header: dict[str, Any], values: Iterable[bytes]) -> Iterator[list[bytes]]:
    yield [json.dumps(header).encode("ascii")]
    run: list[bytes] = []
    size = count = 0
    for value in values:
        run.append(value)
        size += len(value)
        count += 1
        if size >= BATCH_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run
    yield [json.dumps({"type": "SnapshotFooter", "records": count}).encode("ascii")]


def read_snapshot(
    fs: FileSystem, directory: str, snapshot: SnapshotId, *, store_id: str | None
) -> list[bytes]:
    """The values between header and footer.

    Raises BadSnapshot unless the whole file is as it was written, and LaterSnapshot if a later
    build wrote it. With `store_id` None a snapshot of any store is read.
    """
    path = f"{directory}/{snapshot.name}"
    try:
        values = _values(read_whole(fs, path), snapshot.controller_epoch)
        header, footer = json.loads(values[0]), json.loads(values[-1])
    except (IndexError, OSError, RecursionError, ValueError, WireError) as error:
        raise BadSnapshot(f"{path} does not read: {error}") from error
    if not isinstance(header, dict):
        raise BadSnapshot(f"{path} has no header: it begins with {header!r}")
    version = header.get("version")
    if type(version) is int and version > VERSION:
        raise LaterSnapshot(
            f"{path} is a snapshot of version {version}, and this build knows versions up to"
            f" {VERSION}"
        )
    for name, expected in (
        ("type", "SnapshotHeader"),
        ("version", version if version in range(1, VERSION + 1) else VERSION),
        ("end_offset", snapshot.end_offset),
        ("store_id", header.get("store_id") if store_id is None else store_id),
    ):
        if header.get(name) != expected:
            raise BadSnapshot(
                f"{path} has {name} {header.get(name)!r} where {expected!r} is expected"
            )
    if footer != {"type": "SnapshotFooter", "records": len(values) - 2}:
        raise BadSnapshot(f"{path} has {len(values)} records and no footer that says so")
    return values[1:-1]


def values_of(data: bytes, at: int, header: BatchHeader) -> list[bytes]:
    """The record values of a batch of the controller, which compresses none of them."""
    if header.compression != Compression.NONE:
        raise CorruptMessage(f"the batch at offset {header.base_offset} is compressed")
    return [record.value or b"" for record in read_records(data, at, header)]


def _values(data: bytes, controller_epoch: int) -> list[bytes]:
    values: list[bytes] = []
    end = 0
    for at, header in iter_headers(data):
        if header.magic != MAGIC or not crc_matches(data, at, header):
            raise ValueError(f"the batch at byte {at} does not match its CRC-32C")
        if (header.base_offset, header.leader_epoch) != (len(values), controller_epoch):
            raise ValueError(f"the batch at byte {at} is not the one that belongs there")
        values += values_of(data, at, header)
        end = at + header.size
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes at its end are no batch")
    return values

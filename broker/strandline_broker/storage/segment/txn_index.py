"""The aborted transactions of one segment: `.txnindex`, as Kafka wrote it.

Entries of 34 bytes, big-endian: version i16 = 0, producerId i64, firstOffset i64, lastOffset i64,
lastStableOffset i64. Strandline serves no transactions and writes no such entry. It keeps and cuts
the file with its segment, so that no entry names removed batches.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.file import WRITE, File

if TYPE_CHECKING:
    from strandline_runtime.runtime import FileSystem

ENTRY: Final = struct.Struct(">hqqqq")


def truncate_txn_index(fs: FileSystem, path: str, end_offset: int) -> None:
    """Drop the transactions that end at or above `end_offset`, durably; a missing file is fine."""
    try:
        file = File(fs, path, WRITE)
    except FileNotFoundError:
        return
    size = file.size()
    data = file.read(size, 0)
    keep = 0
    for _, _, _, last_offset, _ in ENTRY.iter_unpack(data[: size - size % ENTRY.size]):
        if last_offset >= end_offset:
            break
        keep += ENTRY.size
    if keep < size:
        file.truncate(keep)
        file.sync()

"""The aborted transactions of one segment: `.txnindex`, in Kafka's format (I-153).

Entries of 34 bytes, big-endian, in the order of the end markers, which stand in this segment:

    version i16 = 0 | producerId i64 | firstOffset i64 | lastOffset i64 | lastStableOffset i64

`firstOffset` is that of the transaction's first batch, which may stand in an earlier segment.
`lastOffset` is that of the marker. `lastStableOffset` is where the oldest other open transaction
began when the marker was written, or else the offset after the marker. A segment without aborted
transactions has no file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.storage.files.file import CREATE, WRITE, File

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_runtime.runtime import FileSystem

SUFFIX: Final = "txnindex"
VERSION: Final = 0
ENTRY: Final = struct.Struct(">hqqqq")
_LAST: Final = struct.Struct(">18xq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the end marker."""
    last_stable_offset: int


Aborted = tuple[int, int, int, int]
"""The fields of an AbortedTransaction, in its order."""


def named(aborted: Iterable[AbortedTransaction]) -> tuple[tuple[int, int], ...]:
    """(producer id, first offset) of each, as readers get them."""
    return tuple((each.producer_id, each.first_offset) for each in aborted)


class TxnIndex:
    """The entries in memory. Readers use it in any thread while the log appends."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data[: len(data) - len(data) % ENTRY.size])

    @classmethod
    def of(cls, entries: Iterable[Aborted]) -> TxnIndex:
        return cls(serialize(entries))

    def __len__(self) -> int:
        return len(self._data) // ENTRY.size

    @property
    def size(self) -> int:
        """Bytes of the entries."""
        return len(self._data)

    @property
    def data(self) -> bytes:
        """The entries as the file holds them."""
        return bytes(self._data)

    def entries(self) -> list[AbortedTransaction]:
        return [AbortedTransaction(*each[1:]) for each in ENTRY.iter_unpack(bytes(self._data))]

    def add(self, entries: Iterable[Aborted]) -> None:
        self._data += serialize(entries)

    def cut(self, end_offset: int) -> TxnIndex:
        """The entries whose markers lie below `end_offset`."""
        return TxnIndex(bytes(self._data[: self._first_to(self._data, end_offset) * ENTRY.size]))

    def collect(self, start: int, end: int, into: list[AbortedTransaction]) -> bool:
        """Add the transactions that reach into [start, end); True if no later segment has any."""
        data = self._data
        for number in range(self._first_to(data, start), len(data) // ENTRY.size):
            found = AbortedTransaction(*ENTRY.unpack_from(data, number * ENTRY.size)[1:])
            if found.first_offset < end:
                into.append(found)
            if found.last_stable_offset >= end:
                return True
        return False

    @staticmethod
    def _first_to(data: bytearray, offset: int) -> int:
        """Number of the first entry whose marker is at or after `offset`."""
        low, high = 0, len(data) // ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if _LAST.unpack_from(data, middle * ENTRY.size)[0] < offset:
                low = middle + 1
            else:
                high = middle
        return low


def serialize(entries: Iterable[Aborted]) -> bytes:
    return b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)


def is_sound(data: bytes, *, base_offset: int, end_offset: int) -> bool:
    """True if these can be the entries of a segment with these offsets."""
    if len(data) % ENTRY.size != 0:
        return False
    before = base_offset - 1
    for version, _, first, last, stable in ENTRY.iter_unpack(data):
        if version != VERSION or not before < last < end_offset:
            return False
        if not 0 <= first < last or not 0 <= stable <= last + 1:
            return False
        before = last
    return True


def append_entries(fs: FileSystem, path: str, entries: Sequence[Aborted], *, at: int) -> None:
    """Write entries behind the `at` bytes of the file, which is created if need be; not durable.
    After an OSError an unknown part is written.
    """
    data = serialize(entries)
    File(fs, path, CREATE).write((data,), len(data), at)


def cut_entries(fs: FileSystem, path: str, size: int, *, durably: bool = False) -> None:
    """Cut the file to `size` bytes; a missing file is fine."""
    try:
        file = File(fs, path, WRITE)
    except FileNotFoundError:
        return
    if file.size() > size:
        file.truncate(size)
        if durably:
            file.sync()

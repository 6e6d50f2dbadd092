"""Producer state on disk: `<offset>.snapshot` holds the state of idempotent producers below that
offset.

Kafka's format, big-endian: version i16 = 1, CRC-32C u32 of everything after it, number of entries
i32, and for each producer

    producerId i64 | producerEpoch i16 | lastSequence i32 | lastOffset i64 | offsetDelta i32
    timestamp i64 | coordinatorEpoch i32 | currentTxnFirstOffset i64

A producer whose batches begin here at another sequence than its first has an entry behind them

    producerId i64 | beginsAt i32

which Kafka's reader ignores. It is missing for all other producers, so the file is Kafka's.

Only the last batch of a producer is kept (I-55). A file is written when a segment begins, at its
base offset, and when the log is closed, at its end. It is durable before the recovery point passes
it.

A snapshot only saves time. If one is missing or does not parse, an older one is used and more
batches are replayed (I-58). For producers whose batches retention has removed, it is the only
source.
"""

from __future__ import annotations

import contextlib
import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from strandline_broker.storage.files.file import File, read_whole, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from strandline_broker.storage.files.damage import Report
    from strandline_runtime.runtime import FileSystem

VERSION: Final = 1
SNAPSHOT_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_VERSION_AND_CRC: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_BEGIN: Final = struct.Struct(">qi")


class ProducerEntry(NamedTuple):
    """One producer's entry; -1 means no batch (delta 0), no coordinator or no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    """Last offset minus first offset of the last batch."""
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int
    begins_at: int = -1
    """Sequence where the producer's batches begin here; -1 if they begin at the first one."""


Entry = tuple[int, int, int, int, int, int, int, int, int]
"""The fields of a ProducerEntry, in its order."""


def serialize(entries: Iterable[Entry]) -> bytes:
    packed, begins = [], []
    for *entry, begins_at in entries:
        packed.append(_ENTRY.pack(*entry))
        if begins_at >= 0:
            begins.append(_BEGIN.pack(entry[0], begins_at))
    body = b"".join((_COUNT.pack(len(packed)), *packed, *begins))
    return _VERSION_AND_CRC.pack(VERSION, crc32c(body)) + body


def parse(data: bytes) -> tuple[ProducerEntry, ...]:
    """The entries of a snapshot; ValueError, with the reason, if `data` is not a whole snapshot."""
    if len(data) < _VERSION_AND_CRC.size + _COUNT.size:
        raise ValueError(f"{len(data)} bytes are too few")
    version, crc = _VERSION_AND_CRC.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"its version is {version} where {VERSION} is known")
    body = memoryview(data)[_VERSION_AND_CRC.size :]
    if crc32c(body) != crc:
        raise ValueError("it does not match its CRC-32C")
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * _ENTRY.size
    if count < 0 or len(body) < end or (len(body) - end) % _BEGIN.size:
        raise ValueError(f"it says {count} producers and has {len(body)} bytes of them")
    begins = dict(_BEGIN.iter_unpack(body[end:]))
    return tuple(
        ProducerEntry._make((*entry, begins.get(entry[0], -1)))
        for entry in _ENTRY.iter_unpack(body[_COUNT.size : end])
    )


class ProducerSnapshots:
    """The snapshot files of one log."""

    __slots__ = ("_directory", "_fs", "_report")

    def __init__(self, fs: FileSystem, directory: str, report: Report) -> None:
        self._fs = fs
        self._directory = directory
        self._report = report

    def path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"

    def offsets(self) -> list[int]:
        """Offsets of the files that exist, lowest first."""
        names = map(SNAPSHOT_NAME.fullmatch, self._fs.listdir(self._directory))
        return sorted(int(match[1]) for match in names if match is not None)

    def read(self, offset: int) -> tuple[ProducerEntry, ...]:
        """The entries of that snapshot. Raises ValueError or OSError if it does not read."""
        return parse(read_whole(self._fs, self.path(offset)))

    def write(self, offset: int, entries: Iterable[Entry]) -> File:
        """Write a snapshot. It is not durable yet: the caller syncs the file and the directory."""
        return write_whole(self._fs, self.path(offset), serialize(entries))

    def newest(
        self,
        *,
        at_least: int,
        at_most: int,
        serves: Callable[[int, tuple[ProducerEntry, ...]], bool] = lambda _, __: True,
    ) -> tuple[int, tuple[ProducerEntry, ...]] | None:
        """(offset, entries) of the newest sound snapshot from `at_least` to `at_most`, both
        included, that `serves` accepts.

        Two kinds of snapshots are removed on the way, durably: those beyond `at_most`, whose
        batches are gone, and those that do not parse. The log may reach their offsets again with
        other batches.
        """
        self.remove_above(at_most, why=f"the log ends at {at_most}")
        for offset in reversed(self.offsets()):
            if offset < at_least:
                break
            path = self.path(offset)
            try:
                entries = self.read(offset)
                if serves(offset, entries):
                    return offset, entries
            except ValueError as error:
                self._report(
                    f"{path} does not read as a producer snapshot ({error}) and is removed; the "
                    f"state is read from an older one and the batches."
                )
                self._remove([offset])
            except OSError as error:
                self._report(
                    f"{path} cannot be read ({error.strerror or error}); the producers' state is "
                    f"read from an older snapshot and the batches."
                )
        return None

    def remove_above(self, offset: int, *, why: str | None = None) -> None:
        """Remove the snapshots above `offset`, where the log ends, durably. `why` is for the
        report.
        """
        above = [found for found in self.offsets() if found > offset]
        if above and why is not None:
            names = ", ".join(self.path(found) for found in above)
            self._report(f"{names}: removed, {why}.")
        self._remove(above)

    def remove_unneeded(self, base_offsets: Collection[int]) -> None:
        """Remove all snapshots but the newest and those at these base offsets; not durable."""
        for offset in self.offsets()[:-1]:
            if offset not in base_offsets:
                self._unlink(offset)

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._unlink(offset)
        if offsets:
            self._fs.fsync_dir(self._directory)

    def _unlink(self, offset: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(self.path(offset))

"""A comparison of two replicas of one partition: the first offset at which they differ, and if it
lies below the high watermark.

Replicas hold the same batches byte for byte (I-4), so batches are compared as bytes. Compacted
replicas may have been cleaned at different times (I-77). For these, each record that both hold is
compared, and one that only one holds counts as superseded. Offsets below either log's start are not
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from strandline_broker.offline.replica import Broken, Placed, Replica
from strandline_proto.decompression import DEFAULT_BOUND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.disk import Disk
    from strandline_proto.batch import Record
    from strandline_proto.decompression import Bound


class Agreement(StrEnum):
    IDENTICAL = "identical"
    PREFIX = "prefix"
    """One log ends where the other continues: it lags, and no records contradict each other."""
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class Side:
    path: str
    log_start: int
    log_end: int
    torn_bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference; `a` and `b` describe the content of each side there."""

    offset: int
    what: str
    a: str
    b: str
    below_high_watermark: bool | None


@dataclass(frozen=True, slots=True)
class DiffReport:
    outcome: Agreement
    a: Side
    b: Side
    high_watermark: int | None
    """The larger of the high watermarks found; records below were committed. None: none was
    found.
    """
    compared_from: int
    compared_to: int
    compacted: str | None
    only_a: int
    """Number of records that only this side holds, for compacted replicas."""
    only_b: int
    difference: Difference | None


class _Found(Exception):
    """The first difference, which ends the walk."""

    def __init__(self, offset: int, what: str, a: str, b: str) -> None:
        super().__init__(what)
        self.offset, self.what, self.a, self.b = offset, what, a, b


def diff(
    disk: Disk,
    path_a: str,
    path_b: str,
    bound: Bound = DEFAULT_BOUND,
    *,
    compacted: bool = False,
) -> DiffReport:
    """Compare two partitions' directories.

    Raises OSError if a file cannot be read, ValueError for a directory without segments. Raises
    RecordTooLarge if records to compare unpack to more than the bound.
    """
    a, b = (Replica(disk, path, bound, compacted=compacted) for path in (path_a, path_b))
    for replica in (a, b):
        if not replica.has_segments:
            raise ValueError(f"{replica.path} holds no segment: give a partition's directory")
    start = max(a.log_start, b.log_start)
    ends = a.log_end(), b.log_end()
    why = a.why_compacted() or b.why_compacted()
    walk = _Walk(a.batches(start), b.batches(start), start)
    difference = None
    try:
        if why is None:
            walk.batches()
        else:
            walk.records()
    except _Found as found:
        difference = found
    marks = [mark for mark in (a.high_watermark, b.high_watermark) if mark is not None]
    high_watermark = max(marks, default=None)
    outcome = Agreement.IDENTICAL if ends[0] == ends[1] else Agreement.PREFIX
    return DiffReport(
        outcome if difference is None else Agreement.DIVERGED,
        Side(path_a, a.log_start, ends[0], a.torn_bytes),
        Side(path_b, b.log_start, ends[1], b.torn_bytes),
        high_watermark,
        start,
        min(ends) if difference is None else difference.offset,
        why,
        walk.only_a,
        walk.only_b,
        None if difference is None else _of(difference, high_watermark),
    )


def _of(found: _Found, high_watermark: int | None) -> Difference:
    below = None if high_watermark is None else found.offset < high_watermark
    return Difference(found.offset, found.what, found.a, found.b, below)


class _Walk:
    def __init__(
        self, a: Iterator[Placed | Broken], b: Iterator[Placed | Broken], start: int
    ) -> None:
        self.only_a = 0
        self.only_b = 0
        self._a = a
        self._b = b
        self._next = start

    def batches(self) -> None:
        """Compare batches until one side ends; raises _Found at the first batch that differs."""
        while True:
            a, b = next(self._a, None), next(self._b, None)
            self._check_readable(a, b)
            if not isinstance(a, Placed) or not isinstance(b, Placed):
                return
            if a.batch.base_offset != b.batch.base_offset or not a.same_bytes(b):
                raise self._differ(a, b)
            self._next = a.batch.last_offset + 1

    def _check_readable(self, a: Placed | Broken | None, b: Placed | Broken | None) -> None:
        if isinstance(a, Broken) or isinstance(b, Broken):
            what = "one side has bytes there that do not read, with sound batches behind them"
            raise _Found(self._next, what, _described(a), _described(b))

    def _differ(self, a: Placed, b: Placed) -> _Found:
        one, two = a.batch, b.batch
        offset = max(min(one.base_offset, two.base_offset), self._next)
        if one.base_offset != two.base_offset or one.last_offset != two.last_offset:
            what = "the batches do not hold the same offsets"
        elif one.leader_epoch != two.leader_epoch:
            what = "the leader epochs differ"
        else:
            what = "the bytes differ"
            records_a, records_b = a.records(), b.records()
            for x, y in zip(records_a or (), records_b or (), strict=False):
                if x != y:
                    names = _fields_that_differ(x, y)
                    return _Found(x.offset, f"the records differ in {names}", _said(x), _said(y))
        return _Found(offset, what, _described(a), _described(b))

    def records(self) -> None:
        """Merge both sides by offset; raises _Found at the first record that both hold and that
        differs.
        """
        a: _Pending | None = None
        b: _Pending | None = None
        while True:
            fresh = a is None and b is None
            a = a or self._pending(self._a)
            b = b or self._pending(self._b)
            if a is None or b is None:
                return
            if fresh and a.placed.same_bytes(b.placed):
                a = b = None
                continue
            while (x := a.first()) is not None and (y := b.first()) is not None:
                self._compare(a, x, b, y)
            a = a if a.first() is not None else None
            b = b if b.first() is not None else None

    def _pending(self, side: Iterator[Placed | Broken]) -> _Pending | None:
        found = next(side, None)
        self._check_readable(found, None)
        return _Pending(found, self._next) if isinstance(found, Placed) else None

    def _compare(self, a: _Pending, x: Record, b: _Pending, y: Record) -> None:
        if x.offset < y.offset:
            self.only_a += 1
            a.drop()
        elif x.offset > y.offset:
            self.only_b += 1
            b.drop()
        else:
            if x != y:
                names = _fields_that_differ(x, y)
                raise _Found(x.offset, f"the records differ in {names}", _said(x), _said(y))
            if a.placed.batch.leader_epoch != b.placed.batch.leader_epoch:
                what = "the leader epochs differ"
                raise _Found(x.offset, what, _described(a.placed), _described(b.placed))
            a.drop()
            b.drop()


class _Pending:
    """The records of a batch that are still to be compared, from `start` on."""

    def __init__(self, placed: Placed, start: int) -> None:
        self.placed = placed
        records = placed.records()
        if records is None:
            said = _described(placed)
            raise _Found(placed.batch.base_offset, "the records do not parse", said, said)
        self._records = [r for r in reversed(records) if r.offset >= start]

    def first(self) -> Record | None:
        return self._records[-1] if self._records else None

    def drop(self) -> None:
        self._records.pop()


def _fields_that_differ(one: Record, two: Record) -> str:
    names = ("timestamp", "key", "value", "headers")
    return ", ".join(name for name in names if getattr(one, name) != getattr(two, name)) or "offset"


def _said(record: Record) -> str:
    parts = [f"timestamp {record.timestamp}"]
    for name, data in (("key", record.key), ("value", record.value)):
        parts.append(f"{name} {'null' if data is None else f'of {len(data)} bytes {data[:24]!r}'}")
    return ", ".join(parts)


def _described(side: Placed | Broken | None) -> str:
    if side is None:
        return "the log has ended"
    if isinstance(side, Broken):
        return f"{side.path} at byte {side.position}: {side.why}"
    batch = side.batch
    return (
        f"offsets {batch.base_offset} to {batch.last_offset} of leader epoch {batch.leader_epoch}, "
        f"{batch.size} bytes, CRC {batch.crc:08x}, {side.file.path} at byte {batch.position}"
    )

"""`verify --values` of a pipeline: parses bronze again, and compares the result with the rows of
silver and quarantine.

Both sides are folded to a checksum of each offset's row, a window of offsets at a time. So memory
is bounded whatever the tables' size. No cluster and no Spark is needed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.dataset as ds  # type: ignore[import-untyped]

from strandline_spark.bronze.columns import FILE_SCHEMA
from strandline_spark.bronze.fenced_table import POSITION_KEY
from strandline_spark.parsing.settings import reads_headers
from strandline_spark.silver.duplicates import REASON, Seen
from strandline_spark.silver.range_output import SilverRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strandline_spark.bronze.fenced_table import FencedTable
    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.parsing.settings import ParseSettings
    from strandline_spark.pipeline.verify import ParsedFindings
    from strandline_spark.verification.intervals import Intervals

WINDOW: Final = 1 << 18
"""Number of offsets that are compared at a time."""
_BATCH_ROWS: Final = 1 << 14
_RECORD: Final = ("partition", "offset", "timestamp", "key", "value")
_JUDGED: Final = ("offset", "timestamp", "key", "value", "reason")
"""Compared columns of quarantine. The detail is for people, and its words may change."""
_NOT_COMPARED: Final = frozenset(("partition", "batch_id"))
_SHOWN: Final = 60
_SUM: Final = 1 << 64
_MISSING: Final = "are missing, which bronze's records give"
_EXTRA: Final = "are too many, which bronze's records do not give"
_OTHER: Final = "are not what bronze's records give"
_Wrong = dict[tuple[str, str], tuple[int, int]]
"""Number of faulty rows and the first offset, by table and fault."""


class ParsedValues:
    """The comparison of one pipeline's tables."""

    def __init__(
        self,
        bronze: FencedTable,
        silver: FencedTable,
        quarantine: FencedTable,
        settings: ParseSettings,
    ) -> None:
        """Prepares the comparison. `settings` have all columns that silver has."""
        self._bronze = bronze
        self._rows = SilverRows(settings, batch_id=0, topic="")
        self._position = silver.setting(POSITION_KEY)
        self._settings = settings
        self._seen: Seen | None = None
        self._skipped: Sequence[tuple[int, int]] = ()
        self._record = (*_RECORD, *(["headers"] if reads_headers(settings.columns) else []))
        columns = [name for name in self._rows.schema.names if name not in _NOT_COMPARED]
        self._compared = ((silver, tuple(columns)), (quarantine, _JUDGED))

    def compare(
        self,
        found: ParsedFindings,
        covered: Sequence[Intervals],
        skipped: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Counts the rows that differ, are missing or are extra, and adds the faults to the
        partition's problems.

        `covered` has the offsets that each of the three tables holds; records at the offsets
        `skipped` are gone from one of them on purpose, and not compared.
        """
        found.differing = 0
        self._skipped = skipped
        wrong: _Wrong = {}
        key, within = self._settings.dedupe_key, self._settings.dedupe_within
        self._seen = Seen(key, within) if key else None
        for start, stop in _windows(covered):
            self._compare_window(found.tp, start, stop, wrong)
        for (kind, what), (count, first) in wrong.items():
            found.differing += count
            more = self._difference(found.tp, kind, first) if what == _OTHER else ""
            found.problems.append(
                f"{count} rows of {kind} {what}, the first at offset {first}{more}"
            )

    def _compare_window(self, tp: TopicPartition, start: int, stop: int, wrong: _Wrong) -> None:
        expected: tuple[dict[int, int], ...] = ({}, {})
        batches = _scanned(self._bronze, tp, start, stop, self._record)
        for batch in batches if self._seen is None else _in_order(batches):
            record = _as_read(batch)
            judged = self._rows.judged(record, self._rows.parser.parse(record), self._seen)
            for sums, rows, (_, columns) in zip(expected, judged, self._compared, strict=True):
                _add(sums, _sums(rows, columns))
        gone = [(max(a, start), min(b, stop)) for a, b in self._skipped if a < stop and b > start]
        for sums, (table, columns) in zip(expected, self._compared, strict=True):
            held: dict[int, int] = {}
            for batch in _scanned(table, tp, start, stop, columns):
                _add(held, _sums(batch, columns))
            for offset in (one for first, end in gone for one in range(first, end)):
                sums.pop(offset, None)
                held.pop(offset, None)
            for what, offsets in (
                (_MISSING, [offset for offset in sums if offset not in held]),
                (_EXTRA, [offset for offset in held if offset not in sums]),
                (_OTHER, [o for o, one in sums.items() if held.get(o, one) != one]),
            ):
                if offsets:
                    # Windows rise, so the first one found is the least.
                    count, first = wrong.get((table.KIND, what), (0, min(offsets)))
                    wrong[table.KIND, what] = (count + len(offsets), first)

    def _difference(self, tp: TopicPartition, kind: str, offset: int) -> str:
        """Returns which column differs, and how."""
        place = 0 if kind == "silver" else 1
        table, columns = self._compared[place]
        sides = [
            [
                row
                for batch in _scanned(self._bronze, tp, offset, offset + 1, self._record)
                for row in _values(self._rows.of(_as_read(batch))[place], columns)
            ],
            [
                row
                for batch in _scanned(table, tp, offset, offset + 1, columns)
                for row in _values(batch, columns)
            ],
        ]
        if kind == "silver" and self._position is not None:
            at = columns.index(self._position)
            for rows in sides:
                rows.sort(key=lambda row: -1 if row[at] is None else row[at])
        if 0 < len(sides[1]) != len(sides[0]):
            return f": it has {len(sides[1])} rows, and the record gives {len(sides[0])}"
        for row, other in zip(*sides, strict=False):
            for name, *values in zip(columns, row, other, strict=True):
                if values[0] != values[1]:
                    gives, holds = (repr(value)[:_SHOWN] for value in values)
                    return f": {name} is {holds}, and the record gives {gives}"
        return ""


def _add(sums: dict[int, int], more: Iterable[tuple[int, int]]) -> None:
    """Adds checksums of rows, of which a record may have several in any order."""
    for offset, one in more:
        sums[offset] = (sums[offset] + one) % _SUM if offset in sums else one


def _windows(covered: Sequence[Intervals]) -> Iterator[tuple[int, int]]:
    pairs = [pair for of_table in covered for pair in of_table.pairs()]
    starts = sorted(
        {at for first, end in pairs for at in range(first // WINDOW * WINDOW, end, WINDOW)}
    )
    return ((start, start + WINDOW) for start in starts)


def _scanned(
    table: FencedTable, tp: TopicPartition, start: int, stop: int, columns: Iterable[str]
) -> Iterator[Any]:
    offset = ds.field("offset")
    wanted = (ds.field("topic") == tp.topic) & (ds.field("partition") == tp.partition)
    wanted = wanted & (offset >= start) & (offset < stop)
    bounds = {"batch_size": _BATCH_ROWS, "batch_readahead": 2}
    for file, scanner in table.scanners(wanted, list(columns), **bounds):
        with table.reading(file):
            yield from scanner.to_batches()


def _in_order(batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the rows of the batches by rising offsets: a duplicate comes after its row."""
    found = [one for one in batches if one.num_rows]
    if found:
        table = pa.Table.from_batches(found).sort_by("offset")
        yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def duplicates_in(quarantine: FencedTable, tp: TopicPartition) -> int:
    """Returns the number of the partition's records that repeat a row of silver."""
    wanted = (ds.field("topic") == tp.topic) & (ds.field("partition") == tp.partition)
    count = 0
    # The log has no bounds of reasons, and delta-rs' dataset would leave out all files.
    for file, scanner in quarantine.scanners(wanted, ["reason"]):
        with quarantine.reading(file):
            for batch in scanner.to_batches():
                count += pc.sum(pc.equal(batch.column("reason"), REASON)).as_py() or 0
    return count


def _as_read(batch: Any) -> Any:
    """Casts the batch to the types of records that are read from a topic."""
    schema = pa.schema([FILE_SCHEMA.field(name) for name in batch.schema.names])
    return batch.cast(schema)


def _sums(batch: Any, columns: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the checksum of each row by offset."""
    offsets = batch.column("offset").to_pylist()
    return zip(offsets, map(hash, _values(batch, columns)), strict=True)


def _values(batch: Any, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yields each row's values; values that are the same to the last bit are equal. A column that a
    table lacks is null.
    """
    nothing = [None] * batch.num_rows
    return zip(
        *(
            _plain(batch.column(name)) if name in batch.schema.names else nothing
            for name in columns
        ),
        strict=True,
    )


def _plain(array: Any) -> list[Any]:
    """Returns values that compare bit by bit.

    Times become numbers, because Python has none beyond the year 9999. Floats become bits: some are
    unequal to themselves, and two zeros are equal.
    """
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_floating(array.type):
        bits = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64).view(np.int64)
        array = pa.array(bits, mask=array.is_null().to_numpy(zero_copy_only=False))
    elif pa.types.is_nested(array.type):
        return [_parts(value) for value in array.to_pylist()]
    found: list[Any] = array.to_pylist()
    return found


def _parts(value: Any) -> Any:
    """Returns a value with others in it in a form that compares bit by bit too."""
    if isinstance(value, dict):
        return tuple((name, _parts(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_parts, value))
    return struct.pack("<d", value) if isinstance(value, float) else value

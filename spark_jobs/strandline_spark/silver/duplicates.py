"""The duplicates among the rows of one partition, in the order of its offsets.

A row is a duplicate if an earlier row of its partition has the same key and an event time that is
no further away than the window. Such a row is remembered until the newest event time of the
partition is further ahead than the window. A row whose key has a null is never a duplicate, nor is
a tombstone.

Only rows that are no duplicates are remembered and move the newest event time. So all that is
remembered at an offset follows from the rows of silver below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from strandline_spark.errors import TableError, first_line
from strandline_spark.stores import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_spark.delta_log.held_files import HeldFile
    from strandline_spark.parsing.settings import ParseSettings

REASON: Final = "duplicate"
"""Reason in quarantine."""
_PRUNE_ROWS: Final = 1 << 16
_KEPT_MAX: Final = 5_000_000
"""Rows that a process remembers beyond those of the partition it came from."""
_NEVER: Final = -(1 << 63)
_MILLISECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Repeated:
    """The rows of a batch that repeat an earlier one."""

    rows: list[int]
    """Their places in the batch."""
    offsets: list[int]
    """For each the offset of the row that it repeats."""


class Seen:
    """The rows of one partition that later ones may repeat."""

    def __init__(self, key: Sequence[str], within: int) -> None:
        """Begins before the first row; `within` is the window in microseconds."""
        self._key = tuple(key)
        self._within = within
        self._newest = _NEVER
        self._held: dict[Any, tuple[int, int]] = {}
        self._pruned = 0
        self._last = -1

    def __len__(self) -> int:
        return len(self._held)

    def take(self, rows: Any) -> Repeated:
        """Takes a record batch of silver's rows behind all others, by rising offsets. Returns the
        rows that repeat one."""
        found = Repeated([], [])
        if rows.num_rows:
            first, last = rows.column("offset")[0].as_py(), rows.column("offset")[-1].as_py()
            if first <= self._last or last < first:
                raise TableError(
                    f"rows with the offsets {first} to {last} come after offset {self._last}:"
                    " bronze does not hold them in their order; `strandline-spark verify` says more"
                )
            self._last = last
        held, within, newest = self._held, self._within, self._newest
        for place, (key, time, offset) in enumerate(self._rows(rows)):
            if time is None:
                continue
            if key is not None:
                before = held.get(key)
                if (
                    before is not None
                    and before[0] >= newest - within
                    and abs(time - before[0]) <= within
                ):
                    found.rows.append(place)
                    found.offsets.append(before[1])
                    continue
                if time >= newest - within:
                    held[key] = (time, offset)
            newest = max(newest, time)
        self._newest = newest
        if len(held) > 2 * self._pruned + _PRUNE_ROWS:
            self._prune()
        return found

    def remember(self, rows: Any) -> None:
        """Takes silver's rows of before the first offset, in any order; those that are too old may
        be missing.
        """
        rows = rows.sort_by("offset")
        self._last = rows["offset"][-1].as_py() if rows.num_rows else self._last
        found = [(key, time, offset) for key, time, offset in self._rows(rows) if time is not None]
        self._newest = max((time for _, time, _ in found), default=_NEVER)
        least = self._newest - self._within
        self._held = {k: (time, o) for k, time, o in found if k is not None and time >= least}
        self._pruned = len(self._held)

    def _prune(self) -> None:
        least = self._newest - self._within
        self._held = {key: one for key, one in self._held.items() if one[0] >= least}
        self._pruned = len(self._held)

    def _rows(self, rows: Any) -> Iterable[tuple[Any, int | None, int]]:
        """Returns key, event time and offset of each row; no key if it has a null, no time for a
        tombstone.
        """
        columns = [_plain(rows.column(name)) for name in self._key]
        keys: list[Any] = columns[0]
        if len(columns) > 1:
            keys = [None if None in key else key for key in zip(*columns, strict=True)]
        times = rows.column("event_time").cast(pa.int64())
        times = pc.if_else(rows.column("tombstone"), pa.scalar(None, pa.int64()), times)
        return zip(keys, times.to_pylist(), rows.column("offset").to_pylist(), strict=True)


def _plain(column: Any) -> list[Any]:
    """Returns values that Python can hold: it has no times beyond the year 9999."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    found: list[Any] = column.to_pylist()
    return found


_KNOWN: dict[tuple[str, str, int], tuple[int, str, Seen]] = {}
"""For a partition of a table what this process remembers, with the offset that it is of and the
rules; the newest last.
"""


def seen_before(
    parse: ParseSettings,
    rules: str,
    of: tuple[str, str, int],
    start: int,
    files: Sequence[str] | None,
) -> Seen:
    """Returns what is remembered before the offset `start`, by the `rules` of the plan.

    `of` is the id of silver's table, the topic and the partition. If this process has just come to
    the offset itself, nothing is read. Otherwise `files` are those of silver that may hold the rows
    that decide it; with None there must be nothing to read. Raises TableError.
    """
    known = _KNOWN.pop(of, None)
    if known is not None and known[:2] == (start, rules):
        return known[2]
    if files is None:
        raise TableError(
            f"{of[1]}:{of[2]}: the rows before offset {start} were not seen; start the job again"
        )
    seen = Seen(parse.dedupe_key, parse.dedupe_within)
    columns = ["partition", "offset", "event_time", "tombstone", *parse.dedupe_key]
    found = []
    for path in files:
        rows = _read(path, list(dict.fromkeys(columns)))
        own = pc.and_(pc.equal(rows["partition"], of[2]), pc.less(rows["offset"], start))
        found.append(rows.filter(own))
    if found:
        seen.remember(pa.concat_tables(found))
    return seen


def keep(seen: Seen, rules: str, of: tuple[str, str, int], end: int) -> None:
    """Keeps what is remembered at the offset `end` for the next range of the partition."""
    _KNOWN[of] = (end, rules, seen)
    while len(_KNOWN) > 1 and sum(len(one) for *_, one in _KNOWN.values()) > _KEPT_MAX:
        del _KNOWN[next(iter(_KNOWN))]


def files_before(files: Iterable[HeldFile], start: int, within: int) -> tuple[str, ...]:
    """Returns those of a partition's files in silver that may hold a row which is remembered before
    the offset: their event times come near enough to the newest one.
    """
    own = [file for file in files if file.offset_min is None or file.offset_min < start]
    # The log has times in milliseconds, rounded up.
    newest = [
        file.time_max - _MILLISECOND
        for file in own
        if file.time_max is not None and file.offset_max is not None and file.offset_max < start
    ]
    least = max(newest, default=_NEVER) - within
    return tuple(file.path for file in own if file.time_max is None or file.time_max >= least)


def _read(path: str, columns: list[str]) -> Any:
    try:
        return files.parquet(path).read(columns=columns)
    except (OSError, pa.ArrowInvalid) as why:
        raise TableError(
            f"the file {path} of silver does not read ({first_line(why)}): put it back from a copy,"
            " or make silver again with `strandline-spark rebuild silver` and the pipeline's file"
        ) from why

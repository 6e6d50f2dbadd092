"""`retention`: removes the rows of a table that are older than a time, beside a running job.

A row's age is that of its event time: of `timestamp` in bronze and quarantine, of `event_time` in
silver (of `timestamp`, for a row without one), of `window_end` in gold. Only whole files go, whose
rows are all that old. So nothing is rewritten, and some older rows stay for a while beside younger
ones. A table that `compact` has laid out by day keeps at most a day of them.

An entry has the offsets of the removed records. So `verify` knows that they are gone on purpose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.bronze import removals
from strandline_spark.bronze.audit import AuditCopier
from strandline_spark.bronze.compaction import Fence
from strandline_spark.bronze.removals import Removal
from strandline_spark.delta_log.commit import Change
from strandline_spark.errors import OptionError, TableError
from strandline_spark.maintenance.removing import (
    commit_removal,
    now_ms,
    offsets_of,
    timestamps_in,
)
from strandline_spark.maintenance.tables import AnyTable, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITHIN: Final = re.compile(r'within = "(\d+) seconds"')
_DEDUPE: Final = "strandline.dedupe"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Retained:
    """The result of a retention."""

    files: list[str]
    rows: int
    size: int
    before: int
    """Event time, in microseconds, before which rows were removed."""
    version: int


def retain(path: str, older_than_s: int, *, dry_run: bool = False) -> Retained:
    """Removes the files whose rows are all older. Raises OptionError and TableError; then no row is
    gone.
    """
    table = AnyTable.of(path)
    if table.kind is Kind.STATE:
        raise TableError(
            f"{path} is a state table: it has the latest row of each key, of any age; let"
            " delete_when delete keys, or name a bronze, silver, quarantine or gold table"
        )
    before = now_ms() * _MILLISECOND - older_than_s * 1_000_000
    if table.kind is not Kind.GOLD and not dry_run:
        AuditCopier(path).copy(table)
    fence = Fence(table)
    adds = table.adds()
    _check_dedupe(table, adds, before)
    old = [add for add in adds if _latest(table, add) < before]
    rows = sum(add.get("num_records") or 0 for add in old)
    size = sum(add["size_bytes"] for add in old)
    if old and not dry_run:
        change = Change("DELETE")
        for add in old:
            values = table.values_of(add)
            change.remove(add["path"], add["size_bytes"], values, data_change=True)
        ranges = {} if table.kind is Kind.GOLD else offsets_of(table, old)
        removal = Removal(removals.RETENTION, now_ms(), rows, before, None, ranges)
        commit_removal(table, fence, change, removal)
    return Retained([add["path"] for add in old], rows, size, before, table.version)


def _latest(table: AnyTable, add: Mapping[str, Any]) -> int:
    """Returns the latest time of the file's rows, in microseconds; a time that never comes if it is
    not known.
    """
    never = 1 << 62
    if table.kind is Kind.GOLD:
        return _micros(add.get("max.window_end"), never)
    timestamp = None
    if table.kind is not Kind.SILVER or add.get("null_count.event_time") != 0:
        timestamp = _micros(add.get("max.timestamp"), -1)
        if timestamp < 0:
            with table.reading(add["path"]):
                found = timestamps_in(table.full(add["path"]))
            timestamp = never if found is None else found[1]
    if table.kind is not Kind.SILVER:
        return never if timestamp is None else timestamp
    all_null = add.get("null_count.event_time") == add.get("num_records")
    event = -never if all_null else _micros(add.get("max.event_time"), never)
    return event if timestamp is None else max(event, timestamp)


def _micros(value: Any, otherwise: int) -> int:
    """Returns a bound of the log, which may be cut off to milliseconds."""
    if value is None:
        return otherwise
    found: int = round((value.replace(tzinfo=UTC) - _EPOCH).total_seconds() * 1_000_000)
    return found + _MILLISECOND - 1


def _check_dedupe(table: AnyTable, adds: list[dict[str, Any]], before: int) -> None:
    """Raises OptionError if rows would go that later ones may repeat."""
    said = _WITHIN.search(table.setting(_DEDUPE) or "")
    if said is None:
        return
    newest = max((_micros(add.get("max.event_time"), 0) for add in adds), default=0)
    if before > newest - int(said[1]) * 1_000_000:
        raise OptionError(
            f"{table.path} finds duplicates within {said[1]} seconds of its newest row, and rows of"
            " that time would be removed: keep rows for longer"
        )

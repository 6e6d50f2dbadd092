"""The entries about rows that were removed from a table on purpose: by `retention` or by `forget`.

Each removal has a file under the table's folder, with the offsets of the removed records and never
a value of them. Its number is a transaction of the commit that removed the rows, and so is a hash
over the file and those before it. So an entry counts only if its commit exists. It outlives the
log, and a later change of it is found.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.cluster.offsets import OFFSET_MAX, TopicPartition
from strandline_spark.errors import TableError
from strandline_spark.stores import files
from strandline_spark.stores.durable import sync_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strandline_spark.delta_log.table_log import Snapshot

FOLDER: Final = os.path.join("_ops", "removals")
RETENTION: Final = "retention"
FORGET: Final = "forget"
NUMBER: Final = "strandline/removals"
_HASH: Final = "strandline/removals/hash"
_FORMAT: Final = 1
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Removal:
    """One removal."""

    kind: str
    at_ms: int
    rows: int
    """Number of rows of the table."""
    before: int | None = None
    """Event time, in microseconds, before which a retention removed rows; None for `forget`."""
    condition: str | None = None
    """Hash over the condition of a `forget`, which may hold values of a person."""
    ranges: Mapping[TopicPartition, Sequence[Interval]] = field(default_factory=dict)
    """The removed records: disjoint, rising intervals [start, end) of offsets."""


def read(state: Snapshot) -> list[Removal]:
    """Returns the removals of the table, oldest first. Raises TableError if an entry is missing or
    was changed.
    """
    number = state.transactions.get(NUMBER, 0)
    out, chain = [], ""
    for n in range(1, number + 1):
        path = _path(state.path, n)
        try:
            text = files.read_text(path)
            removal, before = _from_json(json.loads(text))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as why:
            raise TableError(
                f"the entry {path} about removed rows does not read ({type(why).__name__}: {why}):"
                " put it back from a copy"
            ) from why
        if before != chain:
            raise _changed(_path(state.path, n - 1))
        chain = hashlib.sha256(text.encode()).hexdigest()
        out.append(removal)
    if number and state.transactions.get(_HASH) != _as_number(chain):
        raise _changed(_path(state.path, number))
    return out


def write(state: Snapshot, removal: Removal) -> dict[str, int]:
    """Writes the next entry durably, and returns the transactions that make it count."""
    number = state.transactions.get(NUMBER, 0) + 1
    chain = ""
    if number > 1:
        before = files.read_text(_path(state.path, number - 1))
        chain = hashlib.sha256(before.encode()).hexdigest()
    text = json.dumps(_to_json(removal, chain))
    path = _path(state.path, number)
    files.write_over(path, text)
    sync_names(path, state.path)
    return {NUMBER: number, _HASH: _as_number(hashlib.sha256(text.encode()).hexdigest())}


def retained_from(state: Snapshot) -> int | None:
    """Returns the event time, in microseconds, before which a retention may have removed rows; None
    without one.
    """
    cuts = [one.before for one in read(state) if one.before is not None]
    return max(cuts, default=None)


def removed(
    removals: Iterable[Removal], kind: str | None = None
) -> dict[TopicPartition, list[Interval]]:
    """Returns the removed offsets of each partition, as disjoint, rising intervals."""
    found: dict[TopicPartition, list[Interval]] = {}
    for one in removals:
        if kind is None or one.kind == kind:
            for tp, intervals in one.ranges.items():
                found.setdefault(tp, []).extend(intervals)
    return {tp: joined(intervals) for tp, intervals in found.items()}


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Returns disjoint, rising intervals that cover the same offsets."""
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def common(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Returns what both cover; each is disjoint and rising."""
    out = []
    n = 0
    for start, end in some:
        while n < len(others) and others[n][1] <= start:
            n += 1
        at = n
        while at < len(others) and others[at][0] < end:
            out.append((max(start, others[at][0]), min(end, others[at][1])))
            at += 1
    return out


def held_in(covered: Sequence[Interval], start: int, end: int) -> int:
    """Returns how many offsets of [start, end) are covered by disjoint, rising intervals."""
    first = bisect_right(covered, start, key=itemgetter(1))
    last = bisect_left(covered, end, lo=first, key=itemgetter(0))
    return sum(min(e, end) - max(s, start) for s, e in covered[first:last])


def _to_json(removal: Removal, before: str) -> dict[str, Any]:
    ranges: dict[str, dict[str, list[list[int]]]] = {}
    for tp, intervals in sorted(removal.ranges.items()):
        ranges.setdefault(tp.topic, {})[str(tp.partition)] = [list(one) for one in intervals]
    return {
        "format": _FORMAT,
        "previous": before,
        "kind": removal.kind,
        "at_ms": removal.at_ms,
        "rows": removal.rows,
        "before": removal.before,
        "condition": removal.condition,
        "ranges": ranges,
    }


def _from_json(found: Any) -> tuple[Removal, str]:
    if found["format"] != _FORMAT or found["kind"] not in (RETENTION, FORGET):
        raise ValueError(f"format {found['format']!r}, kind {found['kind']!r}")
    ranges = {
        TopicPartition(topic, int(partition)): joined((_offset(a), _offset(b)) for a, b in own)
        for topic, partitions in found["ranges"].items()
        for partition, own in partitions.items()
    }
    before = found["before"]
    removal = Removal(
        found["kind"],
        int(found["at_ms"]),
        int(found["rows"]),
        None if before is None else int(before),
        found["condition"],
        ranges,
    )
    return removal, str(found["previous"])


def _offset(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        raise ValueError(f"an offset is {value!r}")
    return value


def _changed(path: str) -> TableError:
    return TableError(
        f"the entry {path} about removed rows is not the one that was committed: put it back from a"
        " copy"
    )


def _as_number(chain: str) -> int:
    return int(chain[:15], 16)


def _path(table: str, number: int) -> str:
    return os.path.join(table, FOLDER, f"{number:08}.json")

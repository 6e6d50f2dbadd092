"""Series over time from a table's accounts: rows, lag, and the pace of the batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_spark.report.accounts import Range

BINS_MAX: Final = 48
BINS_MIN: Final = 12
"""Least number of bins of rows: a single bar as wide as the page shows nothing."""
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS_MS: Final = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365)),
)


@dataclass(frozen=True, slots=True)
class Batch:
    """One commit, with all of its ranges together."""

    version: int
    committed_at_ms: int
    job: str
    batch_id: int
    rows: int
    size: int
    lost: int
    since_s: float | None
    """Seconds since the job's previous commit; None for its first."""
    age_s: float | None
    """Age of the newest record at its commit; None if unknown."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Time cut into equal steps, with a value in each."""

    first_ms: int
    step_ms: int
    values: list[float]

    @property
    def end_ms(self) -> int:
        return self.first_ms + self.step_ms * len(self.values)

    def start_ms(self, index: int) -> int:
        return self.first_ms + self.step_ms * index


@dataclass(slots=True)
class PartitionAccount:
    """The sum of all ranges of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    ranges: int = 0
    rows: int = 0
    skipped: int = 0
    lost: int = 0
    breaks: int = 0
    """Number of ranges that do not begin where the previous one ended."""
    lag: int | None = None
    """Lag at the newest range."""


def batches(ranges: Sequence[Range]) -> list[Batch]:
    """Returns the batches in the order of the ranges, which is that of the commits."""
    out = []
    before: dict[str, int] = {}
    for version, group in groupby(ranges, key=attrgetter("version")):
        parts = list(group)
        first = parts[0]
        at = first.committed_at_ms
        newest = [one.timestamp_max_ms for one in parts if one.timestamp_max_ms is not None]
        since = max(0, at - before[first.job]) / 1000 if first.job in before else None
        before[first.job] = at
        out.append(
            Batch(
                version=version,
                committed_at_ms=at,
                job=first.job,
                batch_id=first.batch_id,
                rows=sum(one.rows for one in parts),
                size=sum(one.size or 0 for one in parts),
                lost=sum(one.lost for one in parts),
                since_s=since,
                age_s=max(0, at - max(newest)) / 1000 if newest else None,
            )
        )
    return out


def partitions(ranges: Iterable[Range]) -> list[PartitionAccount]:
    """Returns the partitions sorted by topic and number."""
    found: dict[tuple[str, int], PartitionAccount] = {}
    for one in ranges:
        account = found.get((one.topic, one.partition))
        if account is None:
            account = PartitionAccount(one.topic, one.partition, one.start, one.start)
            found[one.topic, one.partition] = account
        account.ranges += 1
        account.rows += one.rows
        account.skipped += one.skipped or 0
        account.lost += one.lost
        account.breaks += account.end != one.start
        account.end = one.end
        account.lag = one.lag
    return [found[key] for key in sorted(found)]


def rows_over_time(made: Sequence[Batch]) -> Bins:
    bins = _empty([one.committed_at_ms for one in made])
    for one in made:
        bins.values[_index(bins, one.committed_at_ms)] += one.rows
    bins.values.extend([0.0] * (BINS_MIN - len(bins.values)))
    return bins


def lag_over_time(ranges: Sequence[Range]) -> Bins | None:
    """Returns the largest sum over all partitions in each step; None if no range has a high
    watermark.

    A step without a commit has the value at its beginning.
    """
    known = [one for one in ranges if one.lag is not None]
    if not known:
        return None
    bins = _empty([one.committed_at_ms for one in known])
    highest: dict[int, int] = {}
    last: dict[int, int] = {}
    current: dict[tuple[str, int], int] = {}
    for _, group in groupby(known, key=attrgetter("version")):
        at = -1
        for one in group:
            current[one.topic, one.partition] = one.lag or 0
            at = _index(bins, one.committed_at_ms)
        last[at] = sum(current.values())
        highest[at] = max(highest.get(at, 0), last[at])
    value = 0
    for index in range(len(bins.values)):
        bins.values[index] = max(value, highest[index]) if index in highest else value
        value = last.get(index, value)
    return bins


def pace(made: Sequence[Batch]) -> list[tuple[str, float]]:
    """Returns the name and the longest time since the previous batch, for each of at most BINS_MAX
    consecutive groups of batches.
    """
    timed = [one for one in made if one.since_s is not None]
    width = -(-len(timed) // BINS_MAX)
    out = []
    for at in range(0, len(timed), max(1, width)):
        group = timed[at : at + width]
        longest = max(one.since_s or 0.0 for one in group)
        first, last = group[0].batch_id, group[-1].batch_id
        name = f"batch {first}" if len(group) == 1 else f"batches {first} to {last}"
        out.append((name, longest))
    return out


def quantile(values: Sequence[float], share: float) -> float | None:
    """Returns the smallest value that at least `share` of the values do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _empty(moments: Sequence[int]) -> Bins:
    if not moments:
        return Bins(0, _SECOND, [])
    first, last = min(moments), max(moments)
    for step in _STEPS_MS:
        begin = first - first % step
        count = (last - begin) // step + 1
        if count <= BINS_MAX:
            return Bins(begin, step, [0.0] * count)
    step = -(-(last - first + 1) // BINS_MAX)
    return Bins(first, step, [0.0] * ((last - first) // step + 1))


def _index(bins: Bins, ms: int) -> int:
    return (ms - bins.first_ms) // bins.step_ms

"""The gold tables of the pipelines that ship, by plain loops over the input. They share no code
with the pipelines: each reads the lines itself and has its own windows.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = tuple[Any, ...]
"""(window_start, window_end, the step's columns)."""

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
SESSION: Final = timedelta(hours=8)
_LINE: Final = re.compile(
    r'(\S+) \S+ \S+ \[([^\]]+)\] "[A-Z]+ (\S+)(?: [^"]*)?" (\d{3}) (\d+|-) "[^"]*" ".*"'
)


def flights(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Of each flight what the steps use; None where the line says NA."""
    out = []
    for row in csv.reader(line.decode() for line in lines):
        delay, carrier, tail, place, miles = row[5], row[9], row[11], row[13], row[15]
        out.append(
            {
                "time": datetime.strptime(row[18], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC),
                "delay": None if delay == "NA" else int(delay),
                "carrier": carrier,
                "tail": None if tail == "NA" else tail,
                "place": place,
                "miles": int(miles),
            }
        )
    return out


def delay_by_hour(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """carrier, flights, cancelled, mean and 0.9-percentile of the delay."""
    groups = defaultdict(list)
    for row in rows:
        start = row["time"].replace(minute=0, second=0)
        groups[start, row["carrier"]].append(row["delay"])
    out = []
    for (start, carrier), delays in groups.items():
        flown = sorted(delay for delay in delays if delay is not None)
        mean = sum(flown) / len(flown) if flown else None
        cancelled = len(delays) - len(flown)
        p90 = percentile(flown, 0.9)
        out.append((start, start + HOUR, carrier, len(delays), cancelled, mean, p90))
    return out


def aircraft_sessions(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """tailnum, flights, different destinations and miles; a pause of eight hours ends a session."""
    by_tail = defaultdict(list)
    for row in rows:
        if row["tail"] is not None:
            by_tail[row["tail"]].append(row)
    out: list[Row] = []
    for tail, flown in by_tail.items():
        flown.sort(key=lambda row: row["time"])
        sessions = [[flown[0]]]
        for row in flown[1:]:
            if row["time"] - sessions[-1][-1]["time"] < SESSION:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        for one in sessions:
            places, miles = len({row["place"] for row in one}), sum(row["miles"] for row in one)
            end = one[-1]["time"] + SESSION
            out.append((one[0]["time"], end, tail, len(one), places, miles))
    return out


def answers(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Of each line in the combined format what the steps use; other lines are left out."""
    out = []
    for line in lines:
        found = _LINE.fullmatch(line.decode())
        if found is not None:
            client, time, path, status, size = found.groups()
            moment = datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").astimezone(UTC)
            out.append(
                {
                    "time": moment,
                    "minute": moment.replace(second=0),
                    "client": client,
                    "path": path,
                    "status": int(status),
                    "bytes": None if size == "-" else int(size),
                }
            )
    return out


def status_by_minute(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """status, answers."""
    counts = Counter((row["minute"], row["status"]) for row in rows)
    return [(start, start + MINUTE, status, n) for (start, status), n in counts.items()]


def bytes_by_minute(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """answers, bytes, their median, different clients."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["minute"]].append(row)
    out = []
    for start, group in groups.items():
        sizes = sorted(row["bytes"] for row in group if row["bytes"] is not None)
        clients = len({row["client"] for row in group})
        median = percentile(sizes, 0.5)
        out.append((start, start + MINUTE, len(group), sum(sizes), median, clients))
    return out


def paths_by_minute(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """place, path, answers of the three that were asked for most."""
    groups: dict[datetime, Counter[str]] = defaultdict(Counter)
    for row in rows:
        groups[row["minute"]][row["path"]] += 1
    out = []
    for start, paths in groups.items():
        ordered = sorted(paths.items(), key=lambda item: (-item[1], item[0].encode()))
        for place, (path, n) in enumerate(ordered[:3], start=1):
            out.append((start, start + MINUTE, place, path, n))
    return out


def percentile(ordered: list[int], share: float) -> float | None:
    """Between the two values around the place, in proportion; None without values."""
    if not ordered:
        return None
    at = (len(ordered) - 1) * share
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

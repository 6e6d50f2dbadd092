"""Figures that the console computes from several reports: the summary, and the lag of groups.

Each is unknown while a report that it needs is unknown.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from strandline_console.messages import Summary
from strandline_console.recording.board import Board
from strandline_console.recording.entities import (
    Entity,
    Maps,
    replica_key,
    topic_and_number,
)

RATE_MS: Final = 3_000
"""A rate is the growth of this time."""
TROUBLED_MAX: Final = 100
LAG_POINTS: Final = 15 * 60
GROUPS_MAX: Final = 500
STEP: Final = 250
"""Committed offsets whose lag is computed before the event loop has its turn."""


def is_watched(maps: Maps, server: str) -> bool:
    """True if what this server reported is known to be current."""
    known = maps["servers"].get(server)
    return known is not None and known["state"] == "watching"


def leader_replica(maps: Maps, topic: str, partition: int) -> Entity | None:
    """The watched replica that leads in the highest leader epoch; None if it is unknown."""
    found: Entity | None = None
    for server in maps["servers"].values():
        if server["kind"] != "broker" or server["state"] != "watching":
            continue
        replica = maps["replicas"].get(replica_key(topic, partition, server["node_id"]))
        if replica is None or replica["role"] != "leader":
            continue
        if found is None or replica["leader_epoch"] > found["leader_epoch"]:
            found = replica
    return found


class Growth:
    """The growth of the leaders' log ends and watermarks, as records a second."""

    def __init__(self) -> None:
        self._appended = 0
        self._committed = 0
        self._marks: deque[tuple[int, int, int]] = deque()

    def appended(self, records: int) -> None:
        self._appended += max(0, records)

    def committed(self, records: int) -> None:
        self._committed += max(0, records)

    def rates(self, now_ms: int) -> tuple[float, float] | None:
        """(appended, committed) a second; None before there are two marks."""
        self._marks.append((now_ms, self._appended, self._committed))
        while len(self._marks) > 2 and self._marks[1][0] <= now_ms - RATE_MS:
            self._marks.popleft()
        first_ms, appended, committed = self._marks[0]
        seconds = (now_ms - first_ms) / 1000
        if seconds <= 0:
            return None
        return (
            round((self._appended - appended) / seconds, 1),
            round((self._committed - committed) / seconds, 1),
        )


def summary_of(maps: Maps, board: Board, rates: tuple[float, float] | None) -> Summary:
    """The line above the board. Its cost does not depend on the number of partitions."""
    is_rated = rates is not None and any(
        server["kind"] == "broker" and server["state"] == "watching"
        for server in maps["servers"].values()
    )
    summary = Summary()
    if rates is not None and is_rated:
        summary.records_per_s, summary.committed_per_s = rates
    if not is_watched(maps, "controller"):
        return summary
    summary.partitions = board.partitions
    summary.under_replicated = board.under_replicated
    summary.below_minimum = board.below_minimum
    summary.offline = board.offline
    summary.troubled = board.troubled(TROUBLED_MAX)
    return summary


class GroupLag:
    """The committed offsets of a group with the present lags, and their sum."""

    def __init__(self, maps: Maps, group: Entity) -> None:
        self._maps = maps
        self._group = group
        self.committed: dict[str, Entity] | None = group["offsets"]
        self.offsets: dict[str, Entity] | None = None if self.committed is None else {}
        self.lag: int | None = None

    def steps(self) -> Iterator[None]:
        """Compute them, in steps of `STEP` partitions."""
        maps, coordinator = self._maps, f"broker-{self._group['coordinator']}"
        is_known = is_watched(maps, coordinator)
        for number, (key, committed) in enumerate((self.committed or {}).items(), 1):
            leader = leader_replica(maps, *topic_and_number(key)) if is_known else None
            end = None if leader is None else leader["high_watermark"]
            lag = None if end is None else max(0, end - committed["offset"])
            assert self.offsets is not None
            self.offsets[key] = {**committed, "lag": lag}
            if lag is not None:
                self.lag = lag if self.lag is None else self.lag + lag
            if number % STEP == 0:
                yield


class LagHistory:
    """The lag of each group, a point a second."""

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[int, int | None]]] = {}

    def note(self, now_ms: int, lags: dict[str, int | None]) -> None:
        second = now_ms // 1000
        for group, lag in lags.items():
            points = self._points.get(group)
            if points is None:
                if len(self._points) >= GROUPS_MAX:
                    continue
                points = self._points[group] = deque(maxlen=LAG_POINTS)
            if not points or points[-1][0] != second:
                points.append((second, lag))
        oldest = second - LAG_POINTS
        for group in [g for g, points in self._points.items() if points[-1][0] < oldest]:
            del self._points[group]

    def between(self, group: str, first_ms: int, last_ms: int) -> list[int | None]:
        """A value for each second; None where it was unknown."""
        known = dict(self._points.get(group, ()))
        return [known.get(second) for second in range(first_ms // 1000, last_ms // 1000 + 1)]

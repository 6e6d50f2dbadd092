"""The quality of service in a history, beside its anomalies: the waits of clients, and the age of
what they read. One pass over the events, in their order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_chaos.history import Event

OUTAGE_MS: Final = 500
"""A client that waits longer than this has met more than a slow answer."""

Key = int


@dataclass(frozen=True, slots=True)
class Measures:
    outages_ms: tuple[float, ...]
    """Periods in which a client had sends of a key under way and none was acknowledged, if longer
    than OUTAGE_MS. A period ends at the next acknowledgement, or when the client gives up.
    """
    worst_realtime_lag_ms: float
    """The greatest age of an offset that a poll did not reach. The reader had been at the end of a
    key before, and another client had read or acknowledged that offset so long before. The reader's
    own slowness counts.
    """
    worst_end_lag_ms: float
    """The greatest age of an offset at or above a reported end offset. Another client had read or
    acknowledged that offset so long before.
    """
    consumed_again: int
    """Values that one reader got more than once."""

    def document(self) -> dict[str, object]:
        return {
            "outages": len(self.outages_ms),
            "longest_outage_ms": round(max(self.outages_ms, default=0.0), 1),
            "worst_realtime_lag_ms": round(self.worst_realtime_lag_ms, 1),
            "worst_end_lag_ms": round(self.worst_end_lag_ms, 1),
            "consumed_again": self.consumed_again,
        }


class _Ends:
    """The known end of each key, and its time."""

    def __init__(self) -> None:
        self._ends: dict[Key, list[int]] = defaultdict(list)
        self._times_ns: dict[Key, list[int]] = defaultdict(list)

    def know(self, key: Key, end: int, now_ns: int) -> None:
        ends = self._ends[key]
        if not ends or end > ends[-1]:
            ends.append(end)
            self._times_ns[key].append(now_ns)

    def at(self, key: Key, time_ns: int) -> int:
        """The end as it was known then."""
        known = bisect_right(self._times_ns[key], time_ns)
        return self._ends[key][known - 1] if known else 0

    def age_ns(self, key: Key, end: int, time_ns: int) -> int:
        """Time for which a greater end than `end` had been known; 0 if none was."""
        first = bisect_right(self._ends[key], end)
        times_ns = self._times_ns[key]
        return max(0, time_ns - times_ns[first]) if first < len(times_ns) else 0


class _Waits:
    """Clients that wait for the acknowledgement of a key, and since when."""

    def __init__(self) -> None:
        self.outages_ms: list[float] = []
        self._since_ns: dict[tuple[int, Key], int] = {}
        self._open: Counter[tuple[int, Key]] = Counter()

    def on_send(self, event: Event) -> None:
        at = event.process, event.value[0][1]
        if event.type == "invoke":
            self._open[at] += 1
            self._since_ns.setdefault(at, event.time_ns)
            return
        self._open[at] -= 1
        if event.type == "fail":
            return  # the next one may fare better: the wait goes on
        waited_ms = (event.time_ns - self._since_ns.pop(at, event.time_ns)) / 1e6
        if waited_ms > OUTAGE_MS:
            self.outages_ms.append(waited_ms)
        if self._open[at] > 0:
            self._since_ns[at] = event.time_ns


class _Reads:
    """The position of each reader."""

    def __init__(self, ends: _Ends) -> None:
        self.worst_ns = 0
        self._ends = ends
        self._positions: dict[tuple[int, Key], int] = {}
        self._was_level: set[tuple[int, Key]] = set()
        self._times_read: Counter[tuple[int, Key, int]] = Counter()

    def on_poll(self, event: Event, begun_ns: int) -> None:
        """A poll that began at `begun_ns` has read this."""
        for key, pairs in event.value[0][1]:
            for offset, value in pairs:
                self._positions[event.process, key] = offset + 1
                self._ends.know(key, offset + 1, event.time_ns)
                self._times_read[event.process, key, value] += 1
        for at, position in self._positions.items():
            if at[0] != event.process:
                continue
            if position >= self._ends.at(at[1], begun_ns):
                self._was_level.add(at)
            elif at in self._was_level:
                self.worst_ns = max(self.worst_ns, self._ends.age_ns(at[1], position, begun_ns))

    def again(self) -> int:
        return sum(times > 1 for times in self._times_read.values())


def measure(events: Iterable[Event]) -> Measures:
    """The measures of a whole history, or of some of its keys."""
    ends, waits = _Ends(), _Waits()
    reads, worst_end_ns = _Reads(ends), 0
    begun_ns: dict[int, int] = {}
    for event in events:
        if event.type == "invoke":
            begun_ns[event.op] = event.time_ns
        if event.f == "send":
            waits.on_send(event)
            if event.type == "ok" and event.value[0][2][0] is not None:
                ends.know(event.value[0][1], event.value[0][2][0] + 1, event.time_ns)
        elif event.f == "poll" and event.type == "ok":
            reads.on_poll(event, begun_ns[event.op])
        elif event.f == "ends" and event.type == "ok":
            for key, end in event.value[0][1]:
                worst_end_ns = max(worst_end_ns, ends.age_ns(key, end, begun_ns[event.op]))
    return Measures(
        outages_ms=tuple(waits.outages_ms),
        worst_realtime_lag_ms=reads.worst_ns / 1e6,
        worst_end_lag_ms=worst_end_ns / 1e6,
        consumed_again=reads.again(),
    )

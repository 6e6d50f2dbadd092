"""The course of a chaos run: rates and latencies over time, and around each fault."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from strandline_chaos.faults.verdict import ALL_ANOMALIES, FAULT
from strandline_chaos.group_checker import GROUP_POLL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_chaos.faults.plan import PlanOptions
    from strandline_chaos.faults.verdict import LiveVerdict
    from strandline_chaos.history import Event

BESIDE_S: Final = 5.0
"""The time before and after a fault that its rates are compared with."""
POINTS_MAX: Final = 1500
"""Limit of the points of a curve."""
AFTERMATH_S: Final = 10.0
"""The time after a fault in which a pause still counts as its own."""


@dataclass(frozen=True, slots=True)
class Span:
    """A fault as it happened, in seconds since the start of the plan."""

    number: int
    kind: str
    victims: tuple[str, ...]
    detail: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Window:
    """Acknowledged records a second in a period, and their latencies in milliseconds."""

    per_s: float
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Around:
    """The effect of one fault."""

    span: Span
    before: Window
    during: Window
    after: Window
    longest_gap_s: float
    """The longest time in which a key had no acknowledged record. It began before the end of the
    fault or just after, and ended after the start of the fault.
    """


@dataclass(frozen=True, slots=True)
class Second:
    """One second of the run, or `Series.width_s` of a long one."""

    acknowledged: int
    failed: int
    read: int
    delivered: int
    """Records that members of groups got."""
    p50_ms: float | None
    p99_ms: float | None


class Series:
    """The measures of a history whose plan began at `begun_ns`."""

    def __init__(self, events: Sequence[Event], begun_ns: int) -> None:
        self._begun_ns = begun_ns
        self._acks: list[tuple[float, float]] = []
        """(time in seconds, latency in milliseconds) of each acknowledged record."""
        self._by_key: dict[int, list[float]] = defaultdict(list)
        self._counts: dict[str, Counter[int]] = defaultdict(Counter)
        self.spans: list[Span] = []
        self.start_s = self._at(events[0]) if events else 0.0
        self.end_s = self._at(events[-1]) if events else 0.0
        self.width_s = max(1, math.ceil((self.end_s - self.start_s) / POINTS_MAX))
        self._read(events)
        self._acks.sort()

    def _at(self, event: Event) -> float:
        return (event.time_ns - self._begun_ns) / 1e9

    def _read(self, events: Sequence[Event]) -> None:
        sent_ns: dict[int, int] = {}
        begun: dict[int, Event] = {}
        for event in events:
            at_s = self._at(event)
            second = int(at_s // self.width_s)
            if event.f == "send" and event.type == "invoke":
                sent_ns[event.op] = event.time_ns
            elif event.f == "send" and event.type == "ok":
                self._acks.append((at_s, (event.time_ns - sent_ns[event.op]) / 1e6))
                self._by_key[event.value[0][1]].append(at_s)
            elif event.f == "send":
                self._counts["failed"][second] += 1
            elif event.f in ("poll", GROUP_POLL) and event.type == "ok":
                records = sum(len(run) for _, run in event.value[0][1])
                self._counts[event.f][second] += records
            elif event.f == FAULT and event.value["phase"] == "begin":
                begun[event.value["number"]] = event
            elif event.f == FAULT:
                first = begun.pop(event.value["number"])
                self.spans.append(self._span(first, at_s))
        last_s = self._at(events[-1]) if events else 0.0
        self.spans += [self._span(first, last_s) for first in begun.values()]
        self.spans.sort(key=lambda span: span.start_s)

    def _span(self, first: Event, end_s: float) -> Span:
        told: Mapping[str, Any] = first.value
        return Span(
            told["number"],
            told["kind"],
            tuple(told["victims"]),
            told["detail"],
            self._at(first),
            end_s,
        )

    def seconds(self) -> list[Second]:
        """Every second, or every `width_s`, from the first event's to the last one's."""
        by_second: dict[int, list[float]] = defaultdict(list)
        for at_s, latency_ms in self._acks:
            by_second[int(at_s // self.width_s)].append(latency_ms)
        found = []
        first, last = (int(at_s // self.width_s) for at_s in (self.start_s, self.end_s))
        for second in range(first, last + 1):
            latencies = sorted(by_second[second])
            found.append(
                Second(
                    len(latencies),
                    self._counts["failed"][second],
                    self._counts["poll"][second],
                    self._counts[GROUP_POLL][second],
                    percentile(latencies, 50),
                    percentile(latencies, 99),
                )
            )
        return found

    def around(self) -> list[Around]:
        return [
            Around(
                span,
                self._window(span.start_s - BESIDE_S, span.start_s),
                self._window(span.start_s, span.end_s),
                self._window(span.end_s, span.end_s + BESIDE_S),
                self._gap(span.start_s, self._aftermath_s(span)),
            )
            for span in self.spans
        ]

    def _aftermath_s(self, span: Span) -> float:
        """The end of a fault's own time: another one that begins after it has the rest."""
        later = [each.start_s for each in self.spans if each.start_s >= span.end_s]
        return min([span.end_s + AFTERMATH_S, *later])

    def _window(self, start_s: float, end_s: float) -> Window:
        start, end = (bisect_left(self._acks, (at_s, 0.0)) for at_s in (start_s, end_s))
        latencies = sorted(latency for _, latency in self._acks[start:end])
        per_s = len(latencies) / max(end_s - start_s, 0.001)
        return Window(per_s, percentile(latencies, 50), percentile(latencies, 99))

    def _gap(self, start_s: float, end_s: float) -> float:
        longest = 0.0
        for times in self._by_key.values():
            for before, after in pairwise(times):
                if before < end_s and after > start_s:
                    longest = max(longest, after - before)
        return longest


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The smallest value that is not below `percent` of all; None of none."""
    if not ordered:
        return None
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run's page and its last line tell."""

    options: PlanOptions
    cannot: Mapping[str, str]
    skipped: Sequence[str]
    target: str
    flag: str
    """The option that chooses the kind of cluster."""
    build: str
    when: str
    events: Sequence[Event]
    begun_ns: int
    verdict: LiveVerdict

    def faults(self) -> Counter[str]:
        """The number of faults of each kind."""
        return Counter(
            event.value["kind"]
            for event in self.events
            if event.f == FAULT and event.value["phase"] == "begin"
        )

    def line(self) -> str:
        """The one line that a run ends with."""
        verdict, checked = self.verdict, self.verdict.check
        faults = sum(self.faults().values())
        head = (
            f"verdict: {verdict.word} (seed {self.options.seed}, {self.options.seconds:g} s,"
            f" {faults} faults"
            + (f", not here: {', '.join(self.cannot)}" if self.cannot else "")
            + f"): {verdict.acknowledged:,} acknowledged, {checked.read:,} read back,"
            f" {verdict.groups.commits:,} commits of {verdict.groups.groups} groups"
        )
        lost = verdict.reported_lost
        permitted = f"; {lost:,} lost with permission, all reported" if lost else ""
        if verdict.word == "sound":
            return f"{head}; nothing lost, doubled, reordered or taken back{permitted}"
        return f"{head}; {verdict.why}"

    def document(self) -> dict[str, object]:
        """The verdict for scripts."""
        verdict = self.verdict
        return {
            "verdict": verdict.word,
            "why": verdict.why,
            "seed": self.options.seed,
            "seconds": self.options.seconds,
            "faults": dict(sorted(self.faults().items())),
            "cannot": dict(self.cannot),
            "skipped": list(self.skipped),
            "sent": verdict.sends["invoke"],
            "acknowledged": verdict.acknowledged,
            "read": verdict.check.read,
            "commits": verdict.groups.commits,
            "groups": verdict.groups.groups,
            "lost_with_permission": verdict.reported_lost,
            "anomalies": {name: verdict.anomalies[name].count for name in ALL_ANOMALIES},
        }

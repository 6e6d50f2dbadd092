"""The verdict on a run with faults: what was promised, what was lost, and what the cluster says.

Loss is permitted only where the power of all brokers failed at once. There, every acknowledged
record that is gone must be covered by a report of the cluster (I-53). Partitions with such a report
are judged again from the end of the loss on (I-54).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_chaos.checkers import ANOMALIES, FINAL_READ, Anomaly, CheckResult, check
from strandline_chaos.excused import Excuse, without
from strandline_chaos.faults.plan import DELAY, PARTITION, PAUSE
from strandline_chaos.group_checker import GROUP_ANOMALIES, GroupResult, check_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_chaos.history import Event

FAULT: Final = "fault"
"""The note of a fault: a document with `number`, `kind`, `victim`, `phase` (begin, end)."""
LOSS_OVER: Final = "loss-over"
"""The note that all replicas are in sync again after a loss that is permitted."""
OLD_ANSWERS_S: Final = 15.0
"""The longest time for which a deposed coordinator may answer after its fault has ended."""
_ISOLATES: Final = (PAUSE, PARTITION, DELAY)

LIVE_ANOMALIES: Final = {
    "unreported": "acknowledged, gone with permission, and covered by no loss report",
    "died": "a process that ended although no fault had killed it",
    "no_progress": "no return to service after the last fault",
}
ALL_ANOMALIES: Final = {**ANOMALIES, **GROUP_ANOMALIES, **LIVE_ANOMALIES}


@dataclass(frozen=True, slots=True)
class LossReport:
    """The offsets of a key that the cluster reports as lost or possibly lost."""

    key: int
    start: int
    end: int
    possibly_from: int | None

    def covers(self, key: int, offset: int) -> bool:
        return self.key == key and (
            self.start <= offset < self.end
            or (self.possibly_from is not None and self.possibly_from <= offset)
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """Observations beside the history."""

    losses: tuple[LossReport, ...] = ()
    commits_lost: bool = False
    """True if the cluster reports losses of committed offsets."""
    died: tuple[str, ...] = ()
    no_progress: str = ""
    incomplete: str = ""
    """The reason why no verdict can be given; empty if one can."""


@dataclass(frozen=True, slots=True)
class LiveVerdict:
    check: CheckResult
    groups: GroupResult
    anomalies: dict[str, Anomaly] = field(default_factory=dict)
    """All kinds, in the order of ALL_ANOMALIES."""
    sends: Counter[str] = field(default_factory=Counter)
    """The events of all sends by type; `check` counts those that are judged in full."""
    reported_lost: int = 0
    """Acknowledged records that are gone with permission, and are reported."""
    incomplete: str = ""

    @property
    def acknowledged(self) -> int:
        return self.sends["ok"]

    @property
    def broken(self) -> list[str]:
        return [name for name, anomaly in self.anomalies.items() if anomaly.count > 0]

    @property
    def word(self) -> str:
        if self.broken:
            return "broken"
        return "incomplete" if self.incomplete or not self.check.complete else "sound"

    @property
    def why(self) -> str:
        """The kinds of anomalies with their counts, or the reason for no verdict."""
        counts = [f"{self.anomalies[name].count} {name}" for name in self.broken]
        return (
            ", ".join(counts)
            or self.incomplete
            or ("" if self.check.complete else "nothing was acknowledged, or nothing read back")
        )


def judge(events: Sequence[Event], found: Findings) -> LiveVerdict:
    """Judges a history whose notes tell the faults."""
    over = [event for event in events if event.f == LOSS_OVER]
    excuses: dict[int, Excuse] = {}
    unreported, reported = Anomaly(), 0
    if over:
        end = over[-1].index
        lossy = {report.key for report in found.losses}
        highest = _highest(events, end)
        excuses = {key: Excuse(end, highest.get(key, 0)) for key in sorted(lossy)}
        reported = _check_reports(events, end, lossy, found.losses, unreported)
    kept = without(events, excuses)
    lost_until = {key: excuse.over or 0 for key, excuse in excuses.items()}
    if over and found.commits_lost:
        lost_until = dict.fromkeys(_keys(events), over[-1].index)
    checked = check(kept)
    groups = check_groups(events, may_be_old=_Isolations(events).overlap, lost_until=lost_until)
    died, stuck = Anomaly(), Anomaly()
    for each in found.died:
        died.add(each)
    if found.no_progress:
        stuck.add(found.no_progress)
    anomalies = {
        **checked.anomalies,
        **groups.anomalies,
        "unreported": unreported,
        "died": died,
        "no_progress": stuck,
    }
    sends = Counter(str(event.type) for event in events if event.f == "send")
    return LiveVerdict(checked, groups, anomalies, sends, reported, found.incomplete)


def _keys(events: Sequence[Event]) -> set[int]:
    return {event.value[0][1] for event in events if event.f == "send"}


def _highest(events: Sequence[Event], until: int) -> dict[int, int]:
    """The first offset of each key that no answer or reading before `until` had named."""
    highest: dict[int, int] = {}
    for event in events[:until]:
        if event.type != "ok":
            continue
        if event.f == "send":
            _, key, (offset, _) = event.value[0]
            pairs = [] if offset is None else [(key, offset + 1)]
        elif event.f == "poll":
            pairs = [(key, run[-1][0] + 1) for key, run in event.value[0][1] if run]
        elif event.f == "ends":
            pairs = [(key, end) for key, end in event.value[0][1]]
        else:
            continue
        for key, end in pairs:
            highest[key] = max(end, highest.get(key, 0))
    return highest


def _check_reports(
    events: Sequence[Event],
    until: int,
    lossy: set[int],
    losses: Sequence[LossReport],
    unreported: Anomaly,
) -> int:
    """Every record of a lossy key that was acknowledged before `until` and is gone has a report.
    Returns how many do.
    """
    final = _final(events)
    reported = 0
    for event in events[:until]:
        if event.f != "send" or event.type != "ok":
            continue
        _, key, (offset, value) = event.value[0]
        if key not in lossy or value in final.get(key, frozenset()):
            continue
        if offset is not None and any(report.covers(key, offset) for report in losses):
            reported += 1
        else:
            unreported.add(f"key {key} value {value}, acknowledged at {offset}")
    return reported


def _final(events: Sequence[Event]) -> Mapping[int, set[int]]:
    processes: set[int] = set()
    final: dict[int, set[int]] = {}
    for event in events:
        if event.f == FINAL_READ:
            processes, final = set(event.value), {}
        elif event.f == "poll" and event.type == "ok" and event.process in processes:
            for key, pairs in event.value[0][1]:
                final.setdefault(key, set()).update(value for _, value in pairs)
    return final


class _Isolations:
    """The times in which a coordinator may not know that it was deposed."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._spans: dict[int, list[int]] = {}
        for event in events:
            if event.f == FAULT and event.value["kind"] in _ISOLATES:
                self._spans.setdefault(event.value["number"], []).append(event.time_ns)

    def overlap(self, begun_ns: int, ended_ns: int) -> bool:
        return any(
            begun_ns <= (span[1] + OLD_ANSWERS_S * 1e9 if len(span) > 1 else ended_ns)
            and span[0] <= ended_ns
            for span in self._spans.values()
        )

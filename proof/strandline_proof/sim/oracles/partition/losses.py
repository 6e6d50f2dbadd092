"""I-53 at the end of a run, when all replicas are level: every lost record is in a loss report.

The controller can only promise what a server could report. A replica that gives up records for
another leader's history knows them, and its high watermark. So does a leader whose checkpoint goes
further than its log. The report must have every such offset within a range, and count at least the
committed ones.

No server is held to what it cannot know: the number of lost records that no replica has any more
and that were below no checkpoint. A process that died before its heartbeat was answered held its
report in memory, and a restored copy of the controller's store has forgotten reports. But every
lost record that any leader has ever committed lies where a report says that records are lost, or
may be. More than REPORTS_MAX reports do not occur here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.core.controller.partitions.losses import LossReport
    from strandline_proof.sim.oracles.controller.control import Key
    from strandline_proof.sim.oracles.partition.committed import Committed
    from strandline_proof.sim.oracles.replica.log_view import Entry, Identity, LogView


def check_reported(
    state: ControllerState,
    key: Key,
    ghost: Committed,
    view: LogView,
    start: int,
    lives: Callable[[str, int], bool],
) -> str:
    """Checks the reports. `view` is a log of the partition, which begins at `start`. Committed
    records that it lacks were lost with the election of a leader that was not known to be in sync,
    and the controller has a report of it. The log may have another history before its start (I-4):
    its leader could no longer be asked there where the two diverge.

    `lives(node, life)`: whether that process of that node still runs. Returns the findings, in
    words.
    """
    committed = {entry.identity: entry for entry in (*ghost.entries, *ghost.lost.values())}
    start = max(start, ghost.begins)
    reports = [r for r in state.losses if (r.topic_id, r.partition) == key]
    if not ghost.given_up and not ghost.reports_forgotten:
        _check_covered(ghost, [*committed.values(), *ghost.promised.values()], view, start, reports)
    lost = {i: e for i, e in committed.items() if e.base >= start and not view.holds(e)}
    if not lost or ghost.given_up:
        return ""
    unexcused = next((e for e in ghost.entries if e.identity in lost), None)
    if not any(report.elected_uncleanly for report in reports):
        raise Violation(
            "I-53",
            f"{ghost.name}: committed offset {min(e.base for e in lost.values())} is lost, and no"
            f" election is reported that may have cost it: {_told(reports)}",
        )
    if unexcused is not None and ghost.excused is None:
        raise Violation(
            "I-17",
            f"{ghost.name}: committed offset {unexcused.base} of epoch {unexcused.epoch} is lost,"
            f" and nothing permits that: {_told(reports)}",
        )
    known = _check_ranges(ghost, lost, reports, lives)
    counted = sum(report.acknowledged for report in reports)
    if known > counted:
        raise Violation(
            "I-53",
            f"{ghost.name}: {known} of the lost offsets were known to be committed by who gave them"
            f" up, and {counted} are reported: {_told(reports)}",
        )
    return "loss reported with a count" if known else "loss reported"


def _check_covered(
    ghost: Committed, promised: list[Entry], view: LogView, start: int, reports: list[LossReport]
) -> None:
    """Every lost record lies where a report says so, or says that its extent is unknown."""
    for entry in promised:
        if entry.base < start or view.holds(entry):
            continue
        for r in reports:
            unknown = r.elected_uncleanly and entry.base >= r.unknown_from
            if unknown or (r.brokers and r.start <= entry.base < entry.end <= r.end):
                break
        else:
            raise Violation(
                "I-53",
                f"{ghost.name}: committed offset {entry.base} is lost, and no report says that it"
                f" is, or may be: {_told(reports)}",
            )


def _check_ranges(
    ghost: Committed,
    lost: dict[Identity, Entry],
    reports: list[LossReport],
    lives: Callable[[str, int], bool],
) -> int:
    """Returns how many lost offsets a server that could report them knew to be committed."""
    known: set[int] = (
        set()
    )  # a report counts offsets, however many records have stood there one after another
    for given_up in ghost.given_up_by:
        if not lives(given_up.by, given_up.life):
            continue
        for entry in given_up.entries:
            if entry.identity not in lost:
                continue
            if not any(r.brokers and r.start <= entry.base < entry.end <= r.end for r in reports):
                raise Violation(
                    "I-53",
                    f"{ghost.name}: {given_up.by} gave up committed offset {entry.base}, and it is"
                    f" in no range that is reported: {_told(reports)}",
                )
            known.update(range(entry.base, min(entry.end, given_up.believed)))
    return len(known)


def _told(reports: list[LossReport]) -> str:
    told = [
        f"epoch {r.leader_epoch}, offsets {r.start} to {r.end}, {r.acknowledged} acknowledged, said"
        f" by {', '.join(map(str, r.brokers)) or 'none'}, from {r.unknown_from} on unknown"
        for r in reports
    ]
    return "; ".join(told) or "no report"

"""Mutated histories: the judge of live runs finds each kind of wrong, and nothing in a good one.

Each mutation changes one fact of a good history.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_chaos.checkers import FINAL_READ
from strandline_chaos.faults.verdict import (
    ALL_ANOMALIES,
    FAULT,
    LOSS_OVER,
    Findings,
    LossReport,
    judge,
)
from strandline_chaos.group_checker import COMMIT, COMMITTED, GROUP_FINAL, GROUP_POLL
from support.live_history import GROUPS, KEYS, RECORDS, GoodRun, good_history, logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_chaos.history import Event


def broken(events: list[Event], **found: Any) -> set[str]:
    verdict = judge(events, Findings(**found))
    assert set(verdict.anomalies) == set(ALL_ANOMALIES)
    assert verdict.word == ("broken" if verdict.broken else "sound")
    return set(verdict.broken)


def changed(
    events: list[Event], f: str, kind: str, which: int, change: Callable[[Any], Any]
) -> list[Event]:
    """The history with another value in one event: of those of `f` and `kind`, number `which`."""
    found = [event for event in events if event.f == f and event.type == kind]
    target = found[which]
    return [replace(e, value=change(e.value)) if e is target else e for e in events]


def without_last(runs: list[Any]) -> list[Any]:
    """A poll in which key 0 lacks its last record."""
    [[name, polled]] = runs
    return [[name, [[key, pairs[:-1] if key == 0 else pairs] for key, pairs in polled]]]


def with_pair(number: int, pair: list[int]) -> Callable[[Any], Any]:
    """A poll in which one record of key 0 is another."""

    def change(runs: Any) -> Any:
        [[name, polled]] = runs
        pairs = [list(each) for each in polled[0][1]]
        pairs[number] = pair
        return [[name, [[polled[0][0], pairs], *polled[1:]]]]

    return change


def swapped(runs: Any) -> Any:
    [[name, polled]] = runs
    pairs = [list(each) for each in polled[0][1]]
    pairs[1][1], pairs[2][1] = pairs[2][1], pairs[1][1]
    return [[name, [[polled[0][0], pairs], *polled[1:]]]]


def test_the_good_history_is_sound() -> None:
    verdict = judge(good_history(), Findings())
    assert verdict.word == "sound"
    assert verdict.why == ""
    assert verdict.check.acknowledged == RECORDS * len(KEYS)
    assert (verdict.groups.groups, verdict.groups.commits, verdict.groups.judged) == (2, 4, 12)


def test_an_acknowledged_record_that_is_gone_at_the_end() -> None:
    found = broken(changed(good_history(), "poll", "ok", -1, without_last))
    # The groups have it, and stand behind it.
    assert found == {"lost", "taken_back", "group_short"}


def test_an_acknowledged_record_that_was_never_there() -> None:
    events = changed(good_history(), "poll", "ok", 1, without_last)
    events = changed(events, "poll", "ok", -1, without_last)
    for which in (-2, -1):
        events = changed(events, GROUP_POLL, "ok", which, without_last)
    assert broken(events) == {"lost", "undelivered", "group_short"}


def test_two_records_that_have_changed_places() -> None:
    found = broken(changed(good_history(), "poll", "ok", -1, swapped))
    assert found == {"reordered", "duplicated", "inconsistent", "misdelivered"}


def test_a_record_at_two_offsets() -> None:
    found = broken(changed(good_history(), "poll", "ok", -1, with_pair(5, [6, 4])))
    assert {"duplicated", "lost"} <= found


def test_a_record_at_another_offset_than_the_acknowledged_one() -> None:
    found = broken(changed(good_history(), "send", "ok", 0, lambda _: [["send", 0, [40, 0]]]))
    assert found == {"misplaced"}


def test_a_record_that_surely_was_not_written_and_is_there() -> None:
    events = [
        replace(e, type="fail", value=[["send", 0, 2]])
        if e.f == "send" and e.type == "ok" and e.value == [["send", 0, [2, 2]]]
        else e
        for e in good_history()
    ]
    assert broken(events) == {"phantom"}


def test_a_record_that_nobody_sent() -> None:
    found = broken(changed(good_history(), "poll", "ok", 0, with_pair(1, [1, 77])))
    assert {"phantom", "inconsistent", "taken_back"} <= found


def test_a_reader_that_passes_over_an_offset() -> None:
    found = broken(changed(good_history(), "poll", "ok", 0, without_last))
    assert found == {"skipped"}


def test_an_end_that_falls_and_bytes_that_are_not_what_was_sent() -> None:
    run = GoodRun()
    run.send(0, 0, 0)
    for end in (1, 0):
        op = run.history.invoke_ends(run.reader)
        run.history.ended(run.reader, op, {0: end})
    run.history.note("corrupt", "key 0 offset 0: other bytes")
    run.consume("first", {0: [(0, 0)]})
    run.consume("second", {0: [(0, 0)]})
    run.last_reading({0: [(0, 0)]})
    run.last_queries({0: 1})
    assert broken(run.history.events) == {"end_fell", "corrupt"}


def test_a_commit_that_goes_back() -> None:
    mid_run = changed(good_history(), COMMITTED, "ok", 0, lambda _: [[0, -1], [1, 3]])
    assert broken(mid_run) == {"commit_fell"}
    at_the_end = changed(good_history(), COMMITTED, "ok", -1, lambda _: [[0, 3], [1, 6]])
    assert broken(at_the_end) == {"commit_fell", "group_short"}


def test_an_old_answer_that_the_next_one_corrects_is_no_fall() -> None:
    def ends_with(*answers: int) -> set[str]:
        run = GoodRun()
        for value in range(4):
            run.send(0, value, value)
        for group in GROUPS:
            run.consume(group, {0: [(0, 0), (1, 1)]})
        run.members["first"] = run.join("first")
        for answer in answers:
            run.query("first", {0: answer})
        for group in GROUPS:
            run.consume(group, {0: [(2, 2), (3, 3)]})
        run.query("first", {0: 4})
        run.last_reading({0: [(n, n) for n in range(4)]})
        run.last_queries({0: 4})
        return broken(run.history.events)

    assert ends_with(2) == ends_with(-1, 2) == set()
    assert ends_with(-1) == ends_with(-1, -1) == ends_with(2, -1) == {"commit_fell"}


def test_a_commit_that_no_member_asked_for() -> None:
    assert broken(changed(good_history(), COMMITTED, "ok", 0, lambda _: [[0, 5], [1, 3]])) == {
        "commit_invented"
    }


def test_an_old_commit_is_excused_only_while_a_coordinator_may_be_cut_off() -> None:
    events = changed(good_history(), COMMITTED, "ok", 0, lambda _: [[0, -1], [1, 3]])

    def during(kind: str) -> list[Event]:
        return [replace(e, value={**e.value, "kind": kind}) if e.f == FAULT else e for e in events]

    assert broken(during("clock")) == {"commit_fell"}
    assert broken(during("partition")) == set()
    end = max(e.index for e in events if e.f == FAULT)
    later = [
        replace(e, time_ns=e.time_ns + 60_000_000_000) if e.index > end else e
        for e in during("partition")
    ]
    assert broken(later) == {"commit_fell"}, "15 seconds after the end it is no excuse any more"


def test_a_record_that_a_group_never_got() -> None:
    events = changed(good_history(), GROUP_POLL, "ok", 0, without_last)
    assert broken(events) == {"undelivered"}


def test_another_record_than_the_one_that_is_there() -> None:
    events = changed(good_history(), GROUP_POLL, "ok", 0, with_pair(0, [0, 1]))
    assert broken(events) == {"misdelivered", "undelivered"}


def test_a_group_without_a_last_answer_did_not_reach_the_end() -> None:
    events = [event for event in good_history() if event.f != GROUP_FINAL]
    assert broken(events) == {"group_short"}


def test_what_the_run_itself_has_seen_counts() -> None:
    assert broken(good_history(), died=("broker-2: ended with exit status 70",)) == {"died"}
    assert broken(good_history(), no_progress="broker 2 is not in service") == {"no_progress"}
    verdict = judge(good_history(), Findings(incomplete="the workload did not end"))
    assert (verdict.word, verdict.why) == ("incomplete", "the workload did not end")
    unread = [event for event in good_history() if event.f != FINAL_READ]
    assert judge(unread, Findings()).word == "broken", "everything is missing then"
    assert judge([], Findings()).word == "incomplete"


# Loss with permission.


def power_cut(*, gone_from: int = 4, over: bool = True) -> list[Event]:
    """All brokers lose their power after six records; key 0 keeps those below `gone_from`. Both
    keys get three more afterwards, key 0 at the offsets of the lost ones.
    """
    run = GoodRun()
    for offset in range(RECORDS):
        for key in KEYS:
            run.send(key, offset, offset)
    run.read(logs(0, RECORDS))
    for group in GROUPS:
        run.consume(group, logs(0, RECORDS))
    run.fault(1, "power", "begin")
    run.fault(1, "power", "end")
    if over:
        run.history.note(LOSS_OVER, 1)
    run.writer, run.reader = (run.history.new_process() for _ in range(2))
    kept = {0: [(o, o) for o in range(gone_from)], 1: [(o, o) for o in range(RECORDS)]}
    for value in range(RECORDS, RECORDS + 3):
        for key in KEYS:
            kept[key].append((len(kept[key]), value))
            run.send(key, value, kept[key][-1][0])
    for group in GROUPS:
        run.members[group] = run.join(group)
        run.consume(group, {key: pairs[-3:] for key, pairs in kept.items()})
    run.last_reading(kept)
    run.last_queries({key: len(pairs) for key, pairs in kept.items()})
    return run.history.events


REPORT = LossReport(key=0, start=4, end=6, possibly_from=None)


def test_a_permitted_loss_that_is_reported_whole_is_sound() -> None:
    verdict = judge(power_cut(), Findings(losses=(REPORT,)))
    assert verdict.word == "sound", verdict.why
    assert verdict.reported_lost == 2
    assert verdict.acknowledged == 2 * (RECORDS + 3)
    assert verdict.check.acknowledged < verdict.acknowledged, "key 0 is judged from then on"
    open_ended = replace(REPORT, end=4, possibly_from=4)
    assert broken(power_cut(), losses=(open_ended,)) == set()


@pytest.mark.parametrize(
    "report",
    [replace(REPORT, start=5), replace(REPORT, end=5), replace(REPORT, possibly_from=6, end=4)],
)
def test_a_record_that_no_report_covers(report: LossReport) -> None:
    assert broken(power_cut(), losses=(report,)) == {"unreported"}


def test_a_partition_without_any_report_is_judged_in_full() -> None:
    assert "lost" in broken(power_cut())
    assert "lost" in broken(power_cut(), losses=(replace(REPORT, key=1),))


def test_a_report_excuses_nothing_where_no_loss_was_permitted() -> None:
    assert "lost" in broken(power_cut(over=False), losses=(REPORT,))


def test_what_is_acknowledged_after_a_permitted_loss_is_judged_again() -> None:
    events = changed(power_cut(), "poll", "ok", -1, without_last)
    assert "lost" in broken(events, losses=(REPORT,))


def test_commits_may_go_back_only_where_their_loss_is_reported() -> None:
    run = changed(power_cut(), COMMITTED, "ok", -1, lambda _: [[0, 7], [1, 6]])
    assert broken(run, losses=(REPORT,), commits_lost=True) == {"commit_fell", "group_short"}
    earlier = [e for e in power_cut(gone_from=6) if e.f != COMMIT or e.index < 40]
    assert broken(earlier, losses=(), commits_lost=False) >= {"commit_invented"}

"""What a coordinator says is held against its log: sound talk passes, each lie is named."""

from __future__ import annotations

import pytest

from strandline_proof.sim.oracles.groups.admission import Who
from strandline_proof.sim.oracles.groups.conversation import Conversation, Epochs
from strandline_proof.sim.oracles.groups.said import Beat, CommitWish, View
from strandline_proof.sim.oracles.violation import Violation
from support.group_log import (
    ASKED,
    HANDED_OVER,
    JOINED,
    SECOND,
    ScriptedLog,
    T,
    a,
    commit,
    current,
    group_epoch,
    removed,
    target,
    target_epoch,
)

M1_GONE = (*removed("m1"), group_epoch(3), target("m2", 0, 1), target_epoch(3))


def push(call: Conversation, number: int, view: View, log: ScriptedLog, of: int = 0) -> None:
    """The stream says this, in its push of that number."""
    call.receives(view, push=number)
    call.tells(of, view, log.standing(), at_once=True)


def who(member_id: str = "m1", epoch: int = 1) -> Who:
    return Who("g", member_id, epoch)


def talk() -> Conversation:
    return Conversation("broker-1", Epochs())


def named(rule: str) -> pytest.RaisesExc[Violation]:
    return pytest.raises(Violation, match=rule)


def test_what_is_committed_and_written_may_be_told() -> None:
    log, call = ScriptedLog(), talk()
    call.beats(1, Beat(who(epoch=0), a()), log.end)
    log.write(*JOINED)
    push(call, 1, View(1, a(0, 1)), log, of=1)
    log.write(*SECOND)
    log.write(*ASKED)
    push(call, 2, View(1, a(0)), log, of=0)
    call.beats(2, Beat(who(), a(0)), log.end, seen_push=2)
    log.write(*HANDED_OVER)
    push(call, 3, View(2, None), log, of=2)


def test_nothing_is_told_before_it_is_committed() -> None:
    log, call = ScriptedLog(JOINED), talk()
    call.beats(1, Beat(who(), a(0, 1)), log.end)
    with named("I-104"):
        call.tells(1, View(1, a(0, 1)), log.standing(0), at_once=True)


def test_what_was_parked_and_overtaken_is_not_told() -> None:
    log, call = ScriptedLog(JOINED, SECOND, ASKED), talk()
    call.beats(1, Beat(who(), None), log.end)
    with named("I-131"):
        call.tells(0, View(1, a(0, 1)), log.standing(), at_once=True)


def test_who_asked_one_by_one_may_be_told_what_held_since() -> None:
    log, call = ScriptedLog(JOINED), talk()
    call.beats(1, Beat(who(), None), log.end)
    log.write(*SECOND)
    log.write(*ASKED)
    call.tells(1, View(1, a(0, 1)), log.standing(), at_once=False)
    call.beats(1, Beat(who(), None), log.end)
    with named("I-131"):
        call.tells(1, View(1, a(0, 1)), log.standing(), at_once=False)


def test_who_is_told_that_it_has_left_has() -> None:
    log, call = ScriptedLog(JOINED, SECOND, ASKED, HANDED_OVER), talk()
    call.beats(1, Beat(who(epoch=-1), None), log.end)
    with named("I-104"):
        call.tells(1, View(-1, None), log.standing(), at_once=True)
    call.beats(1, Beat(who(epoch=-1), None), log.end)
    log.write(*M1_GONE)
    call.tells(1, View(-1, None), log.standing(), at_once=True)


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (2, a(0), 0),
        (1, a(0), 0),  # the answer with the newer one was lost
        (1, a(0, 1), 110),
        (1, None, 110),
        (3, a(0), 110),
    ],
)
def test_who_is_a_member_follows_from_the_records(
    epoch: int, owned: frozenset[tuple[str, int]] | None, error: int
) -> None:
    log = ScriptedLog(JOINED, SECOND, ASKED, HANDED_OVER)
    call = talk()
    call.beats(1, Beat(who(epoch=epoch), owned), log.end)
    told = View(2, None) if error == 0 else View(0, None, error)
    call.tells(1, told, log.standing(), at_once=True)
    call = talk()
    call.beats(1, Beat(who(epoch=epoch), owned), log.end)
    lie = View(0, None, 110) if error == 0 else View(2, None)
    with named("I-135"):
        call.tells(1, lie, log.standing(), at_once=True)


def test_what_a_member_said_in_another_call_is_its_newest_until_it_is_told_another() -> None:
    log, epochs = ScriptedLog(JOINED), Epochs()
    before = Conversation("broker-1", epochs)
    before.beats(1, Beat(who(), a(0, 1)), log.end)  # taken without a word
    for decision in (SECOND, ASKED, HANDED_OVER):
        log.write(*decision)
    now = Conversation("broker-1", epochs)
    now.beats(1, Beat(who(), None), log.end)
    push(now, 1, View(2, a(0)), log, of=1)
    later = Conversation("broker-1", epochs)
    later.beats(1, Beat(who(), None), log.end)
    with named("I-135"):
        push(later, 1, View(2, a(0)), log, of=1)


@pytest.mark.parametrize(("owned", "is_sound"), [(a(), True), (a(0, 1), False)])
def test_what_a_member_said_holds_where_what_it_was_told_since_was_lost(
    owned: frozenset[tuple[str, int]], is_sound: bool
) -> None:
    """However many epochs ago that was: what it owns is still assigned to it, and nothing else."""
    log, epochs = ScriptedLog(JOINED), Epochs()
    before = Conversation("broker-1", epochs)
    before.beats(1, Beat(who(), a()), log.end)
    for decision in (SECOND, ASKED, HANDED_OVER):
        log.write(*decision)
    push(before, 1, View(2, a(0)), log, of=0)
    log.write(group_epoch(3), target_epoch(3), current("m1", 3, (0,), previous=2, since=1))
    now = Conversation("broker-1", epochs)
    now.beats(1, Beat(who(), owned), log.end)
    if is_sound:
        push(now, 1, View(3, a(0)), log, of=1)
        return
    with named("I-135"):
        push(now, 1, View(3, a(0)), log, of=1)


def test_a_beat_that_crossed_the_news_is_accepted() -> None:
    log, call = ScriptedLog(JOINED), talk()
    call.beats(1, Beat(who(), a(0, 1)), log.end)
    push(call, 1, View(1, a(0, 1)), log, of=1)
    for decision in (SECOND, ASKED, HANDED_OVER):
        log.write(*decision)
    push(call, 2, View(2, a(0)), log, of=0)
    call.beats(2, Beat(who(), a(0, 1)), log.end, seen_push=1)
    push(call, 3, View(2, None), log, of=2)


def test_a_member_is_not_told_that_it_is_none() -> None:
    log, call = ScriptedLog(JOINED), talk()
    call.beats(1, Beat(who(), None), log.end)
    call.tells(1, View(1, None), log.standing(), at_once=True)
    with named("I-135"):
        call.tells(0, View(0, None, 25), log.standing(), at_once=True)


def wish(by: Who, offset: int, partition: int = 0) -> CommitWish:
    return CommitWish(by, {(T, partition): (offset, -1, "")})


def committed_by(by: Who, *before: tuple[object, ...], partition: int = 0) -> None:
    """A commit that is written whatever is to be said against it, and acknowledged."""
    log, call = ScriptedLog(*before), talk()  # type: ignore[arg-type]
    call.commits(1, wish(by, 5, partition), log.end)
    log.write(commit(5, partition=partition))
    call.acknowledges(1, [(T, partition)], log.standing())


def test_an_acknowledged_commit_is_in_the_log_by_who_may() -> None:
    committed_by(who(), JOINED)
    committed_by(Who("g", "", -1))
    committed_by(who("m1", 1), JOINED, SECOND, ASKED, HANDED_OVER)  # kept since epoch 1


@pytest.mark.parametrize(
    ("by", "rule"),
    [
        (who("m3"), "I-144"),
        (who("m1", 9), "I-144"),
        (Who("g", "", -1), "I-144"),
        (who("m2", 1), "I-144"),
        (who("m2", 2), "I-132"),
    ],
)
def test_a_commit_of_somebody_else_is_named(by: Who, rule: str) -> None:
    with named(rule):
        committed_by(by, JOINED, SECOND, ASKED, HANDED_OVER)


def test_an_epoch_that_came_again_after_a_loss_is_as_good_as_any() -> None:
    log, call = ScriptedLog(JOINED, SECOND, ASKED, HANDED_OVER), talk()
    call.commits(1, wish(who("m2", 2), 5), log.end)
    log.write(commit(5))
    call.acknowledges(1, [(T, 0)], log.standing(), is_whole=False)


def test_a_commit_is_not_acknowledged_before_it_is_committed() -> None:
    log, call = ScriptedLog(JOINED), talk()
    call.commits(1, wish(who(), 5), log.end)
    begun = log.end
    log.write(commit(5))
    with named("I-142"):
        call.acknowledges(1, [(T, 0)], log.standing(begun))


def test_an_earlier_commit_of_the_same_offset_is_another() -> None:
    log, call = ScriptedLog(JOINED, (commit(5),)), talk()
    call.commits(1, wish(who(), 5), log.end)
    with named("I-142"):
        call.acknowledges(1, [(T, 0)], log.standing())


def test_an_offset_is_told_as_it_was_since_somebody_asked() -> None:
    log, call = ScriptedLog(JOINED, (commit(5),)), talk()
    call.reads("g", log.end)
    log.write(commit(7))
    for offset in (5, 7):
        call.tells_offsets("g", {(T, 0): (offset, -1, "")}, log.standing())
    call.tells_offsets("g", {(T, 1): (-1, -1, "")}, log.standing())


@pytest.mark.parametrize(("offset", "mark"), [(3, None), (-1, None), (7, -1)])
def test_an_offset_that_was_not_is_named(offset: int, mark: int | None) -> None:
    """Of before somebody asked, none, one that is not committed yet."""
    log, call = ScriptedLog((commit(3),), (commit(5),)), talk()
    call.reads("g", log.end)
    log.write(commit(7))
    standing = log.standing(None if mark is None else log.end + mark)
    with named("I-106"):
        call.tells_offsets("g", {(T, 0): (offset, -1, "")}, standing)


def test_the_offsets_of_a_grant_are_the_committed_ones() -> None:
    log, call = ScriptedLog(JOINED, (commit(3),), (commit(5),)), talk()
    call.beats(1, Beat(who(), None), log.end)
    call.tells(1, View(1, a(0, 1), 0, {(T, 0): (5, -1, "")}), log.standing(), at_once=True)
    with named("I-106"):
        call.tells(0, View(1, None, 0, {(T, 0): (3, -1, "")}), log.standing(), at_once=True)

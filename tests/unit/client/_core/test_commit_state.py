"""What a consumer may commit by itself, and what answers mean to a commit."""

from __future__ import annotations

import pytest

from strandline._core.commit_state import (
    COMMITS_MAX,
    GONE,
    Commit,
    CommitOffset,
    CommitState,
    Fate,
)
from strandline_proto import errors as wire

A, B = (b"t" * 16, 0), (b"t" * 16, 1)
FINE = (0, "")


def at(offset: int) -> CommitOffset:
    return CommitOffset(offset, 1)


def commit(offset: int = 5, *, by_itself: bool = False) -> Commit:
    return Commit({A: at(offset), B: at(offset)}, 1000.0, by_itself)


def answered(
    state: CommitState, one: Commit, a: int, b: int | None, whole: int = 0, *, owned: bool = True
) -> Fate | None:
    results = {A: (a, "why")} | ({} if b is None else {B: (b, "why")})
    return state.on_answer(
        one,
        results,
        (whole, "all"),
        retriable=lambda code: wire.from_code(code).retriable,
        owned={A, B} if owned else {B},
    )


def test_it_commits_by_itself_what_was_handed_over_before_the_last_poll() -> None:
    state = CommitState()
    assert state.due() == {}
    state.on_poll({A: at(3), B: CommitOffset(-1)})
    assert state.due() == {A: at(3)}
    assert state.due([B]) == {}
    state.on_poll({A: at(7)})
    one = Commit(state.due(), 0, by_itself=True)
    state.add(one)
    assert state.next() is one
    assert state.commits_by_itself
    assert answered(state, one, 0, 0) is None
    state.settle(one)
    assert state.due() == {}, "it is committed"
    state.on_poll({A: at(9)})
    state.forget([A])
    assert state.due() == {}


def test_what_the_application_commits_itself_is_not_taken_back() -> None:
    state = CommitState()
    state.on_poll({A: at(3), B: at(4)})
    state.add(Commit({A: at(6)}, 0))
    assert state.due() == {B: at(4)}
    state.on_poll({A: at(6)})
    assert state.due() == {A: at(6), B: at(4)}, "until it is known to be committed"
    one = state.next()
    assert one is not None
    answered(state, one, 0, None)
    state.settle(one)
    assert state.due() == {B: at(4)}


def test_what_is_given_up_is_committed_by_no_try_of_before() -> None:
    state, under_way, waiting = CommitState(), commit(5), commit(6)
    state.add(under_way)
    state.add(waiting)
    assert state.next() is under_way
    state.forget([A])
    for one in (under_way, waiting):
        assert one.offsets.keys() == {B}
        assert one.refused == {A: (GONE, "")}
    assert (under_way.in_doubt, waiting.in_doubt) == (True, False), "a try may be carried out yet"
    assert answered(state, under_way, 0, 0) is None
    state.settle(under_way)
    assert under_way.committed.keys() == {B}


def test_a_commit_of_what_is_kept_goes_on() -> None:
    state, one = CommitState(), Commit({A: at(5)}, 1000.0)
    state.add(one)
    state.next()
    state.forget([B])
    assert one.offsets.keys() == {A}
    assert one.refused == {}
    assert not one.in_doubt


def test_a_sought_position_counts_from_the_next_poll_on() -> None:
    state = CommitState()
    state.on_poll({A: at(3)})
    state.on_sought(A)
    assert state.due() == {}
    state.on_poll({A: at(1)})
    assert state.due() == {A: at(1)}
    state.on_committed_elsewhere(A, at(1))
    assert state.due() == {}


def test_what_a_commit_in_doubt_has_left_is_not_taken_for_what_was_known_before() -> None:
    """It may be carried out yet, ahead of where the application has gone back to."""
    state, one = CommitState(), Commit({A: at(9)}, 1000.0)
    state.on_committed_elsewhere(A, at(3))
    state.add(one)
    state.on_sought(A)
    state.on_poll({A: at(3)})
    assert state.due() == {A: at(3)}, "it waits for its turn"
    state.next()
    assert state.due() == {A: at(3)}, "it is under way"
    state.settle(one)
    assert state.due() == {A: at(3)}, "nobody has said what became of it"
    state.add(again := Commit(state.due(), 1000.0, by_itself=True))
    state.next()
    answered(state, again, 0, None)
    state.settle(again)
    assert state.due() == {}


def test_what_others_have_committed_since_counts_when_a_commit_of_before_ends() -> None:
    state, one = CommitState(), commit(5)
    state.add(one)
    state.next()
    assert answered(state, one, 0, wire.NotCoordinator.code) is Fate.AGAIN
    state.forget([A])
    state.on_committed_elsewhere(A, at(8))
    assert answered(state, one, 0, 0) is None
    state.settle(one)
    state.on_poll({A: at(5)})
    assert state.due() == {A: at(5)}, "the application has gone back"


def test_one_commit_is_under_way_at_a_time_in_their_order() -> None:
    state = CommitState()
    first, second = commit(1), commit(2)
    state.add(first)
    state.add(second)
    assert state.next() is first
    assert state.next() is first
    assert answered(state, first, wire.NotCoordinator.code, 0) is Fate.AGAIN
    assert state.next() is first, "until nobody repeats it any more"
    assert (first.offsets, first.committed) == ({A: at(1)}, {B: at(1)})
    state.settle(first)
    assert state.next() is second
    third = commit(3)
    state.add(third)
    assert state.drain() == [second, third]
    assert state.next() is None


def test_too_many_are_refused() -> None:
    state = CommitState()
    for _ in range(COMMITS_MAX):
        assert not state.is_full
        state.add(commit())
    assert state.is_full


@pytest.mark.parametrize("code", [7, 14, 15, 16])
def test_what_nobody_knows_is_repeated(code: int) -> None:
    state, one = CommitState(), commit()
    state.add(one)
    state.next()
    assert answered(state, one, 0, 0, code) is Fate.AGAIN
    assert (one.is_settled, one.obstacle) == (False, (code, "all"))
    assert answered(state, one, 0, None) is Fate.AGAIN, "left out, nobody knows"


@pytest.mark.parametrize("code", [wire.StaleMemberEpoch.code, wire.RebalanceInProgress.code])
def test_a_stale_epoch_is_repeated_for_what_is_owned(code: int) -> None:
    state, one = CommitState(), commit()
    state.add(one)
    state.next()
    assert answered(state, one, 0, 0, code, owned=False) is Fate.STALE
    assert (list(one.offsets), one.refused) == ([B], {A: (code, "all")})
    assert state.on_answer(one, {}, (code, ""), retriable=lambda _: False, owned=None) is None, (
        "who is no member has no newer epoch"
    )
    assert one.is_settled


@pytest.mark.parametrize(
    "code",
    [
        wire.UnknownMemberId.code,
        wire.FencedMemberEpoch.code,
        wire.IllegalGeneration.code,
        wire.FencedInstanceId.code,
        wire.OffsetMetadataTooLarge.code,
        wire.InvalidCommitOffsetSize.code,
    ],
)
def test_what_is_refused_for_good_is_not_repeated(code: int) -> None:
    state, one = CommitState(), commit()
    state.add(one)
    state.next()
    assert answered(state, one, code, 0) is None
    assert (one.refused, one.committed) == ({A: (code, "why")}, {B: at(5)})


@pytest.mark.parametrize(
    ("error", "in_doubt"),
    [
        (wire.NotCoordinator, True),
        (wire.RequestTimedOut, True),
        (wire.CoordinatorLoadInProgress, False),
        (wire.StaleMemberEpoch, False),
    ],
)
def test_a_try_that_a_deposed_coordinator_has_written_may_be_carried_out_yet(
    error: type[wire.WireError], in_doubt: bool
) -> None:
    state = CommitState()
    one = commit()
    state.add(one)
    assert state.next() is one
    assert answered(state, one, error.code, 0) is not None
    assert answered(state, one, wire.UnknownMemberId.code, None) is None
    assert one.in_doubt is in_doubt


def test_a_topic_that_was_deleted_is_refused_and_the_rest_goes_on() -> None:
    state = CommitState()
    gone, kept = (b"g" * 16, 0), (b"k" * 16, 0)
    state.on_poll({gone: CommitOffset(3), kept: CommitOffset(4)})
    commit = Commit({gone: CommitOffset(3), kept: CommitOffset(4)}, 1000)
    state.add(commit)
    state.on_poll({gone: CommitOffset(5), kept: CommitOffset(6)})
    state.on_deleted(gone[0])
    assert commit.offsets == {kept: CommitOffset(4)}
    assert commit.refused == {gone: (wire.UnknownTopicId.code, "the topic was deleted")}
    assert not commit.in_doubt
    assert state.due() == {kept: CommitOffset(6)}

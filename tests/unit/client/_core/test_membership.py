"""A member's states, its heartbeats, and what answers mean to it."""

from __future__ import annotations

import pytest

from strandline._core.membership import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Beat,
    Heard,
    Membership,
    State,
    Subscription,
)
from strandline_proto import errors as wire

A, B, C = (b"t" * 16, 0), (b"t" * 16, 1), (b"t" * 16, 2)
TOPICS = Subscription(("t",))


def joining(*, static: bool = False) -> Membership:
    member = Membership(static=static)
    assert member.subscribe(TOPICS)
    member.on_stream_opened(0)
    return member


def state(member: Membership) -> State:
    return member.state


def said(member: Membership, now_ms: float = 0) -> Beat:
    beat = member.next_beat(now_ms)
    assert beat is not None
    return beat


def told(member: Membership, push: int, epoch: int, *keys: tuple[bytes, int]) -> Heard:
    return member.on_answer(
        member.generation, push, epoch=epoch, interval_ms=1000, assignment=frozenset(keys)
    )


def assigned(member: Membership) -> None:
    """The application hears of what was granted, and gives up what was taken."""
    core = member.reconciling
    while (step := core.next_step()) is not None:
        if step.partitions <= core.assigned:
            core.on_told(step.partitions)
        else:
            core.on_assigned(step.partitions)
        member.on_given_up()


def stable(*keys: tuple[bytes, int], static: bool = False) -> Membership:
    member = joining(static=static)
    said(member)
    assert told(member, 1, 3, *keys) is Heard.FINE
    assigned(member)
    said(member)
    assert state(member) is State.STABLE
    return member


def test_an_answer_to_the_membership_before_means_nothing_to_the_next() -> None:
    """It was out by its own word, and is back before it has heard that it had left."""
    member = stable(A)
    member.on_poll_overdue()
    assert said(member).epoch == LEAVE_EPOCH
    assert member.on_poll()
    assert told(member, 0, LEAVE_EPOCH) is Heard.DROPPED
    assert member.on_error(1, wire.UnknownMemberId.code, retriable=False) is Heard.DROPPED
    member.on_stream_opened(0)
    assert said(member).epoch == 0


def test_who_joins_says_so_once_and_waits_for_the_answer() -> None:
    """A second heartbeat would join too, without what who joins has to say."""
    member = joining()
    said(member)
    assert member.next_beat(60_000) is None
    other = Subscription(("t", "u"))
    member.subscribe(other)
    assert member.next_beat(60_000) is None
    assert told(member, 1, 3) is Heard.FINE
    assert said(member, 60_000).subscription == other


def test_it_joins_with_all_that_it_is_and_acknowledges_what_it_is_given() -> None:
    member = joining()
    assert state(member) is State.JOINING
    first = said(member)
    assert (first.generation, first.seq, first.seen_push, first.epoch) == (1, 1, 0, 0)
    assert (first.full, first.subscription, first.owned) == (True, TOPICS, frozenset())
    assert member.next_beat(0) is None
    assert told(member, 1, 3, A, B) is Heard.FINE
    assert (member.state, member.epoch) == (State.ACKNOWLEDGING, 3)
    second = said(member)
    assert (second.seq, second.seen_push, second.epoch) == (2, 1, 3)
    assert (second.full, second.subscription, second.owned) == (False, None, frozenset({A, B}))
    assert state(member) is State.STABLE
    assert member.next_beat(999) is None
    third = said(member, 1000)
    assert (third.seq, third.subscription, third.owned) == (3, None, None)


def test_what_is_taken_away_is_acknowledged_once_it_is_given_up_not_before() -> None:
    member = stable(A, B)
    told(member, 2, 3, A)
    assert state(member) is State.RECONCILING
    assert member.next_beat(0) is None
    beat = said(member, 5000)
    assert (beat.seen_push, beat.owned) == (2, None), "alive, and still the owner"
    assigned(member)
    assert state(member) is State.ACKNOWLEDGING
    assert said(member, 5000).owned == frozenset({A})


def test_what_was_granted_and_taken_back_at_once_is_acknowledged_without_a_step() -> None:
    member = stable(A)
    told(member, 2, 4, A, B)
    told(member, 3, 4, A)
    assert state(member) is State.ACKNOWLEDGING
    assert said(member).owned == frozenset({A})


def test_a_new_stream_begins_with_everything_and_older_answers_mean_nothing() -> None:
    member = stable(A, B)
    told(member, 2, 3, A)
    assert member.on_stream_opened(7000) == 2
    beat = said(member, 7000)
    assert (beat.generation, beat.seq, beat.seen_push, beat.epoch) == (2, 1, 0, 3)
    assert (beat.full, beat.subscription) == (True, TOPICS)
    assert beat.owned == frozenset({A, B}), "B is being given up still"
    none = member.on_answer(1, 9, epoch=9, interval_ms=1, assignment=frozenset())
    assert none is Heard.DROPPED
    code = wire.UnknownMemberId.code
    assert member.on_error(1, code, retriable=False) is Heard.DROPPED
    assert not member.on_heard(1, 8000)
    assert (member.epoch, member.reconciling.granted) == (3, frozenset({A}))


def test_silence_counts_from_the_last_message_of_this_stream() -> None:
    member = stable(A)
    assert member.silent_at_ms() == 2000
    assert member.on_heard(1, 500)
    assert member.silent_at_ms() == 2500
    member.on_stream_opened(3000)
    assert member.silent_at_ms() == 5000


@pytest.mark.parametrize(
    "code",
    [
        wire.UnknownMemberId.code,
        wire.FencedMemberEpoch.code,
        wire.GroupIdNotFound.code,
        wire.IllegalGeneration.code,
    ],
)
def test_a_member_that_was_forgotten_loses_everything_and_joins_anew(code: int) -> None:
    member = stable(A)
    assert member.on_error(1, code, retriable=False) is Heard.LOST
    assert (member.state, member.reconciling.lost) == (State.FENCED, frozenset({A}))
    assert member.reconciling.owned == frozenset()
    assert told(member, 5, 9, B) is Heard.DROPPED
    member.on_stream_opened(0)
    assert state(member) is State.JOINING
    beat = said(member)
    assert (beat.epoch, beat.full, beat.owned) == (0, True, frozenset())


@pytest.mark.parametrize(
    "code",
    [
        wire.InvalidGroupId.code,
        wire.GroupIdNotFound.code,
        wire.GroupMaxSizeReached.code,
        wire.FencedInstanceId.code,
        wire.UnreleasedInstanceId.code,
        wire.UnsupportedAssignor.code,
        wire.InvalidRegularExpression.code,
        wire.InvalidRequest.code,
    ],
)
def test_what_nothing_mends_is_fatal(code: int) -> None:
    member = joining()
    said(member)
    assert member.on_error(1, code, retriable=False) is Heard.FATAL
    assert state(member) is State.FATAL
    assert not member.wants_stream
    member.leave()
    assert state(member) is State.UNSUBSCRIBED


def held(member: Membership, now_ms: float) -> Heard:
    code = wire.UnreleasedInstanceId.code
    return member.on_error(member.generation, code, retriable=False, now_ms=now_ms)


def asked_again(member: Membership, now_ms: float) -> Heard:
    """On its next stream."""
    member.on_stream_opened(now_ms)
    assert member.next_beat(now_ms) is not None
    return held(member, now_ms)


def test_a_held_instance_id_is_asked_for_until_a_session_is_over() -> None:
    member = joining(static=True)
    member.session_ms = 45_000
    said(member)
    assert held(member, 1_000) is Heard.RETRY
    assert state(member) is State.JOINING
    assert asked_again(member, 46_000) is Heard.RETRY
    assert asked_again(member, 48_999) is Heard.RETRY
    assert asked_again(member, 49_000) is Heard.FATAL


def test_with_another_coordinator_the_wait_begins_again() -> None:
    member = joining(static=True)
    member.session_ms = 10_000
    said(member)
    assert held(member, 0) is Heard.RETRY
    member.on_stream_opened(5_000)
    assert member.next_beat(5_000) is not None
    not_here = wire.NotCoordinator.code
    assert member.on_error(member.generation, not_here, retriable=True) is Heard.RETRY
    assert asked_again(member, 12_000) is Heard.RETRY
    assert asked_again(member, 24_999) is Heard.RETRY
    assert asked_again(member, 25_000) is Heard.FATAL


def test_each_join_has_its_own_wait() -> None:
    member = joining(static=True)
    member.session_ms = 10_000
    said(member)
    assert held(member, 0) is Heard.RETRY
    member.on_stream_opened(1_000)
    assert member.next_beat(1_000) is not None
    told(member, member.generation, 3, A)
    member.on_member_lost()
    assert asked_again(member, 60_000) is Heard.RETRY


@pytest.mark.parametrize("code", [14, 15, 16])
def test_what_passes_changes_nothing(code: int) -> None:
    member = stable(A)
    assert member.on_error(1, code, retriable=True) is Heard.RETRY
    assert (member.state, member.epoch) == (State.STABLE, 3)
    assert member.reconciling.owned == {A}


@pytest.mark.parametrize(("static", "epoch"), [(False, LEAVE_EPOCH), (True, LEAVE_STATIC_EPOCH)])
def test_it_says_once_a_stream_that_it_leaves(static: bool, epoch: int) -> None:
    member = stable(A, static=static)
    member.leave()
    assert state(member) is State.LEAVING
    beat = said(member)
    assert (beat.epoch, beat.subscription, beat.owned) == (epoch, None, None)
    assert member.next_beat(99_000) is None
    assert told(member, 2, 4, A, B) is Heard.DROPPED, "it crossed the word to leave"
    assert member.reconciling.granted == frozenset()
    member.on_stream_opened(0)
    assert said(member).epoch == epoch
    member.on_answer(2, 1, epoch=epoch, interval_ms=0, assignment=None)
    assert (member.state, member.wants_stream) == (State.UNSUBSCRIBED, False)


def test_whoever_was_never_heard_of_leaves_without_a_word() -> None:
    member = joining()
    member.leave()
    assert (member.state, member.wants_stream) == (State.UNSUBSCRIBED, False)


def test_without_polls_it_leaves_until_the_next_one() -> None:
    member = stable(A)
    member.on_poll_overdue()
    assert (member.state, member.reconciling.lost) == (State.STALE, frozenset({A}))
    assert said(member).epoch == LEAVE_EPOCH
    member.on_error(1, wire.UnknownMemberId.code, retriable=False)
    assert (member.state, member.wants_stream) == (State.STALE, False)
    member.on_poll_overdue()
    assert not member.wants_stream, "it has left already"
    assert member.on_poll()
    assert not member.on_poll()
    member.on_stream_opened(0)
    assert (said(member).epoch, member.state) == (0, State.JOINING)


def test_a_changed_subscription_is_said_at_once() -> None:
    member = stable(A)
    assert not member.subscribe(Subscription((), "t.*"))
    beat = said(member)
    assert (beat.full, beat.subscription) == (False, Subscription((), "t.*"))
    assert not beat.clears_pattern
    assert not member.subscribe(TOPICS)
    assert said(member).clears_pattern
    assert not member.subscribe(TOPICS)
    assert member.next_beat(0) is None
    member.on_stream_opened(0)
    assert said(member).clears_pattern, "the last word of it may have been lost"


def test_a_subscription_while_leaving_joins_on_a_new_stream() -> None:
    member = stable(A)
    member.leave()
    said(member)
    assert member.subscribe(TOPICS)
    member.on_stream_opened(0)
    assert (said(member).epoch, member.state) == (0, State.JOINING)

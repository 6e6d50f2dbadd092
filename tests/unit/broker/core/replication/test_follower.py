"""The follower machine, one behaviour per test: what to fetch, what to do with the answer."""

import pytest

from strandline_broker.core.replication.follower import (
    AdvanceHighWatermark,
    Append,
    Backoff,
    Discard,
    DropUntilNewEpoch,
    Effect,
    FetchAnswer,
    FetchPosition,
    Follower,
    IncarnationEnded,
    RaiseLogStart,
    RefuseTruncation,
    TruncateFully,
    TruncateTo,
)
from strandline_proto.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
    UnknownTopicId,
    WireError,
)
from strandline_proto.ids import NO_LEADER, BrokerId, LeaderEpoch, Offset
from support.partition_states import A, B, partition_state
from support.replica_log import Entry, ReplicaLog


def log(*epochs: int, start: int = 0, committed: int = 0) -> ReplicaLog:
    made = ReplicaLog(log_start_offset=Offset(start), high_watermark=Offset(committed))
    for epoch in epochs:
        made.append(Entry(epoch, "x"))
    return made


def follower(
    *, truncate_to_high_watermark: bool = False, unclean_epoch: int = -1, leader: BrokerId = A
) -> Follower:
    state = partition_state(A, B, leader=leader, unclean_epoch=unclean_epoch)
    return Follower(state, truncate_to_high_watermark=truncate_to_high_watermark)


def asked(f: Follower, own: ReplicaLog) -> FetchPosition:
    return f.next_fetch(own.log_end_offset, own.latest())


def answered(
    f: Follower, own: ReplicaLog, answer: FetchAnswer, request: FetchPosition | None = None
) -> list[Effect]:
    return f.on_answer(
        asked(f, own) if request is None else request,
        answer,
        log_start_offset=own.log_start_offset,
        log_end_offset=own.log_end_offset,
        high_watermark=own.high_watermark,
        history=own,
    )


def records(*, committed: int = 0, log_start: int = 0) -> FetchAnswer:
    return FetchAnswer(0, committed, log_start, has_records=True)


def error(kind: type[WireError], *, committed: int = -1, log_start: int = -1) -> FetchAnswer:
    return FetchAnswer(kind.code, committed, log_start)


def diverging(epoch: int, end: int) -> FetchAnswer:
    return FetchAnswer(0, high_watermark=100, log_start_offset=3, diverging=(epoch, end))


def test_fetches_from_its_end_and_names_the_latest_epoch_it_holds() -> None:
    own = log(1, 1, 2)
    assert asked(follower(), own) == FetchPosition(Offset(3), LeaderEpoch(2), LeaderEpoch(5))
    own.assign_epoch(4)
    assert asked(follower(), own).last_fetched_epoch == 4, "even one without records (I-47)"


def test_a_follower_of_nobody_does_not_fetch() -> None:
    assert not follower(leader=NO_LEADER).may_fetch
    assert follower().may_fetch


def test_appends_then_raises_the_watermark_then_the_log_start() -> None:
    effects = answered(follower(), log(1), records(committed=7, log_start=3))
    assert effects == [Append(), AdvanceHighWatermark(Offset(7)), RaiseLogStart(Offset(3))]


def test_an_answer_without_records_still_carries_the_watermark() -> None:
    assert answered(follower(), log(1), FetchAnswer(0, 1, 0)) == [AdvanceHighWatermark(Offset(1))]


def test_a_log_start_behind_its_own_is_not_taken() -> None:
    effects = answered(follower(), log(1, start=4, committed=4), records(committed=5, log_start=4))
    assert effects == [Append(), AdvanceHighWatermark(Offset(5))]


def test_a_diverging_answer_cuts_and_does_nothing_else() -> None:
    assert answered(follower(), log(1, 1, 1), diverging(1, 2)) == [TruncateTo(Offset(2))], "P-14"


def test_what_it_knows_to_be_committed_it_cuts_for_an_unclean_election_alone() -> None:
    own = log(1, 1, 1, committed=3)
    f = follower()
    assert answered(f, own, diverging(1, 2)) == [RefuseTruncation(Offset(2))], "I-41"
    assert f.refuses_truncation
    assert not f.may_fetch
    quiet = TruncateTo(Offset(2), in_recovery=True)
    assert answered(follower(unclean_epoch=5), own, diverging(1, 2)) == [quiet]
    own = log(1, 1, 1, committed=2)
    assert answered(follower(), own, diverging(1, 2)) == [TruncateTo(Offset(2))]


def test_a_history_that_parts_before_the_log_start_is_refused_as_any_cut() -> None:
    own = log(5, 5, start=10, committed=10)
    f = follower()
    assert answered(f, own, diverging(3, 7)) == [RefuseTruncation(Offset(7))]
    assert not f.may_fetch


def test_a_follower_that_has_refused_stays_stopped_in_the_next_epoch() -> None:
    state = partition_state(A, B, leader=A)
    assert not Follower(state, refuses_truncation=True).may_fetch


def test_an_operators_word_holds_until_the_histories_agree() -> None:
    own = log(1, 1, 2, 2, committed=4)
    f = follower()
    assert answered(f, own, diverging(1, 1)) == [RefuseTruncation(Offset(1))]
    f.allow_truncation()
    assert answered(f, own, diverging(1, 1)) == [TruncateTo(Offset(1), below_high_watermark=True)]
    again = TruncateTo(Offset(1), below_high_watermark=True)
    assert answered(f, log(1, 1, committed=2), diverging(1, 1)) == [again], "it takes two rounds"
    own = log(1, committed=1)
    assert answered(f, own, records(committed=9)) == [Append(), AdvanceHighWatermark(Offset(9))]
    assert answered(f, log(1, 1, committed=2), diverging(1, 1)) == [RefuseTruncation(Offset(1))]


def test_who_goes_by_high_watermarks_refuses_nothing() -> None:
    f = follower(truncate_to_high_watermark=True)
    own = log(1, 1, 1, committed=3)
    answer = FetchAnswer(0, 2, 0, diverging=(1, 2))
    assert answered(f, own, answer) == [TruncateTo(Offset(2), below_high_watermark=True)]


def test_what_an_unclean_election_costs_is_told_by_whoever_comes_back_later() -> None:
    """I-53: its leader has recovered, and others may have led since."""
    own = log(1, 1, 1)
    lost = [TruncateTo(Offset(2), in_recovery=True)]
    assert answered(follower(unclean_epoch=5), own, diverging(1, 2)) == lost
    assert answered(follower(unclean_epoch=3), own, diverging(1, 2)) == lost
    assert answered(follower(unclean_epoch=2), own, diverging(1, 2)) == lost
    own = log(1, 1, 1, start=4)
    assert answered(follower(unclean_epoch=2), own, diverging(1, 2)) == [
        TruncateFully(Offset(2), in_recovery=True)
    ]


def test_who_has_taken_over_the_history_of_an_unclean_election_loses_nothing_for_it() -> None:
    own = log(1, 2, 2)
    assert answered(follower(unclean_epoch=2), own, diverging(2, 2)) == [TruncateTo(Offset(2))]


def test_a_newer_decision_in_the_same_epoch_is_taken_over() -> None:
    f = follower()
    f.on_state(partition_state(A, B, partition_epoch=4))
    f.on_state(partition_state(A, B, partition_epoch=3))
    assert f.partition_epoch == 4
    with pytest.raises(AssertionError, match="new machine"):
        f.on_state(partition_state(A, B, leader_epoch=6, partition_epoch=5))


def test_an_epoch_without_records_is_dropped() -> None:
    own = log(1, 1)
    own.assign_epoch(3)
    assert answered(follower(), own, diverging(2, 9)) == [TruncateTo(Offset(2))]


def test_a_history_that_parts_before_the_log_start_leaves_nothing() -> None:
    own = log(5, 5, start=10, committed=10)
    assert answered(follower(unclean_epoch=6), own, diverging(3, 7)) == [
        TruncateFully(Offset(7), in_recovery=True)
    ]
    assert answered(follower(), own, diverging(3, 10)) == [
        TruncateTo(Offset(10), below_high_watermark=False)
    ]


def test_nothing_is_cut_if_the_leader_does_not_know_the_epoch() -> None:
    (effect,) = answered(follower(), log(1, 1), diverging(-1, -1))
    assert isinstance(effect, Backoff)


def test_nothing_is_cut_by_a_divergence_that_parts_with_nothing() -> None:
    (effect,) = answered(follower(), log(1, 1), diverging(1, 2))
    assert isinstance(effect, Backoff)


@pytest.mark.parametrize(
    "request_",
    [
        FetchPosition(Offset(3), LeaderEpoch(2), LeaderEpoch(4)),
        FetchPosition(Offset(3), LeaderEpoch(2), LeaderEpoch(6)),
        FetchPosition(Offset(2), LeaderEpoch(2), LeaderEpoch(5)),
        FetchPosition(Offset(4), LeaderEpoch(2), LeaderEpoch(5)),
        FetchPosition(Offset(3), LeaderEpoch(1), LeaderEpoch(5)),
    ],
    ids=["older epoch", "newer epoch", "lower offset", "higher offset", "other last epoch"],
)
@pytest.mark.parametrize(
    "answer", [records(committed=9), diverging(1, 1), error(OffsetOutOfRange, log_start=50)]
)
def test_an_answer_to_another_question_is_forgotten(
    request_: FetchPosition, answer: FetchAnswer
) -> None:
    (effect,) = answered(follower(), log(1, 1, 2), answer, request_)
    assert isinstance(effect, Discard), "I-42"


def test_a_leader_that_dropped_what_is_needed_makes_it_start_anew() -> None:
    own = log(1, 1)
    start_anew = [TruncateFully(Offset(3))]
    assert answered(follower(), own, error(OffsetOutOfRange, log_start=3)) == start_anew, "I-45"


@pytest.mark.parametrize("log_start", [-1, 0, 2])
def test_a_leader_whose_log_ends_earlier_does_not_make_it_cut(log_start: int) -> None:
    answer = error(OffsetOutOfRange, log_start=log_start, committed=1)
    (effect,) = answered(follower(), log(1, 1), answer)
    assert isinstance(effect, Backoff), "epochs decide (I-45)"


def test_a_log_without_an_epoch_beyond_the_leaders_end_begins_where_the_leaders_begins() -> None:
    """Its leader was elected without what was deleted here: no divergence could ever say so."""
    answer, own = error(OffsetOutOfRange, log_start=3, committed=8), log(start=9, committed=9)
    anew = TruncateFully(Offset(3), in_recovery=True)
    assert answered(follower(unclean_epoch=4), own, answer) == [anew], "I-45, I-88"
    f = follower()
    assert answered(f, own, answer) == [RefuseTruncation(Offset(3))], "I-41"
    f.allow_truncation()
    assert answered(f, own, answer) == [TruncateFully(Offset(3))]
    (effect,) = answered(follower(unclean_epoch=4), own, error(OffsetOutOfRange))
    assert isinstance(effect, Backoff), "the leader has not said where its log begins"


def test_a_leader_epoch_that_is_over_is_not_fetched_from_again() -> None:
    f, own = follower(), log(1)
    request = asked(f, own)
    assert answered(f, own, error(FencedLeaderEpoch), request) == [DropUntilNewEpoch()]
    assert not f.may_fetch
    (effect,) = answered(f, own, records(committed=1), request)
    assert isinstance(effect, Discard)


def test_only_an_error_leaves_unsaid_where_its_log_is_the_head_of_the_leaders() -> None:
    """I-15: a heal waits for that, or for a leader that can tell."""
    for answer in (records(), diverging(1, 2), error(OffsetOutOfRange)):
        f = follower()
        answered(f, log(1, 1, 1), error(NotLeaderOrFollower))
        assert not f.is_answered
        answered(f, log(1, 1, 1), answer)
        assert f.is_answered


def test_an_incarnation_that_has_been_replaced_stops() -> None:
    f, own = follower(), log(1)
    (effect,) = answered(f, own, error(StaleBrokerEpoch))
    assert isinstance(effect, IncarnationEnded), "P-73"
    assert not f.may_fetch


@pytest.mark.parametrize(
    "kind", [UnknownLeaderEpoch, NotLeaderOrFollower, UnknownTopicId, KafkaStorageError]
)
def test_after_any_other_error_it_tries_again(kind: type[WireError]) -> None:
    f = follower()
    (effect,) = answered(f, log(1), error(kind))
    assert isinstance(effect, Backoff)
    assert kind.__name__ in effect.reason
    assert f.may_fetch


def test_with_epochs_becoming_a_follower_cuts_nothing() -> None:
    start = follower().on_become_follower(log_end_offset=Offset(9), high_watermark=Offset(4))
    assert start == []


class TestTruncationToTheHighWatermark:
    """replica.truncation=high-watermark: wrong on purpose, as before KIP-101."""

    def test_becoming_a_follower_cuts_to_the_own_watermark(self) -> None:
        f = follower(truncate_to_high_watermark=True)
        cut = f.on_become_follower(log_end_offset=Offset(9), high_watermark=Offset(4))
        assert cut == [TruncateTo(Offset(4))]
        assert f.on_become_follower(log_end_offset=Offset(4), high_watermark=Offset(4)) == []

    def test_names_no_epoch_so_that_no_divergence_is_found(self) -> None:
        f = follower(truncate_to_high_watermark=True)
        assert asked(f, log(1, 2)) == FetchPosition(Offset(2), LeaderEpoch(-1), LeaderEpoch(5))
        effects = answered(f, log(1, 2), records(committed=2))
        assert effects == [Append(), AdvanceHighWatermark(Offset(2))]

    def test_out_of_range_cuts_to_what_the_leader_has(self) -> None:
        f = follower(truncate_to_high_watermark=True)
        answer = error(OffsetOutOfRange, committed=1, log_start=0)
        assert answered(f, log(1, 2), answer) == [TruncateTo(Offset(1))]
        (effect,) = answered(f, log(1, 2), error(OffsetOutOfRange, committed=2, log_start=0))
        assert isinstance(effect, Backoff)
        (effect,) = answered(f, log(1, 2), error(OffsetOutOfRange))
        assert isinstance(effect, Backoff)

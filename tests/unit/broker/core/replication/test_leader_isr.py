"""The leader machine, one behaviour per test: who joins the ISR, who is dropped, proposals."""

import pytest

from strandline_broker.core.replication.leader import Leader, ProposeIsr
from strandline_proto.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    NetworkException,
    NewLeaderElected,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, Offset
from support.leader_machine import LAG_MS, fetch, leader, proposal, raised, without
from support.partition_states import (
    FIRST_EPOCHS,
    A,
    B,
    C,
    isr_answer,
    isr_of,
    member,
    partition_state,
)


class TestJoining:
    def test_a_replica_that_has_caught_up_is_proposed_under_the_incarnation_that_fetched(
        self,
    ) -> None:
        p = leader(A, B, end=10, committed=10)
        asked = proposal(fetch(p, C, 10))
        assert asked.isr == isr_of(A, B, C)
        assert (asked.leader_epoch, asked.partition_epoch) == (5, 0)
        assert p.proposed == asked.isr
        assert p.isr == isr_of(A, B)

    def test_a_joining_replica_counts_before_the_controller_has_answered(self) -> None:
        p = leader(A, B, end=10, committed=10)
        fetch(p, B, 10)
        asked = proposal(fetch(p, C, 10))
        p.on_append(Offset(11))
        assert p.maximal_isr == isr_of(A, B, C)
        assert fetch(p, B, 11) == [], "C may already be in the ISR, and lacks 10 (P-5)"
        assert p.on_isr_answer(asked.request_id, isr_answer(A, B, C, partition_epoch=1)) == []
        assert fetch(p, C, 11) == [raised(11)]

    def test_a_replica_counts_from_the_very_fetch_by_which_it_joins(self) -> None:
        p = leader(A, B, eligible=without(C))
        p.on_append(Offset(10))
        fetch(p, C, 0, now_ms=0)
        fetch(p, B, 5)
        p.on_eligible(FIRST_EPOCHS)
        fetch(p, C, 7, now_ms=0)
        assert p.maximal_isr == isr_of(A, B, C)
        assert fetch(p, B, 10) == [raised(7)]

    def test_a_replica_behind_the_start_of_the_epoch_may_not_join(self) -> None:
        p = leader(A, B, end=10, committed=4)
        assert fetch(p, C, 9) == [], "its records from 4 to 9 may be another leader's (P-10)"
        assert fetch(p, C, 10) != []

    def test_a_replica_behind_the_high_watermark_may_not_join(self) -> None:
        p = leader(A, B, eligible=without(C))
        p.on_append(Offset(10))
        fetch(p, B, 10)
        p.on_eligible(FIRST_EPOCHS)
        assert fetch(p, C, 9) == []
        assert proposal(fetch(p, C, 10)).isr == isr_of(A, B, C)

    def test_a_replica_joins_a_leader_that_is_below_its_minimum(self) -> None:
        p = leader(A, end=10, committed=4)
        asked = proposal(fetch(p, B, 10))
        assert p.on_isr_answer(asked.request_id, isr_answer(A, B, partition_epoch=1)) == [
            raised(10)
        ], "P-74: the watermark need not have passed the start of the epoch"

    def test_a_fenced_replica_joins_once_it_is_eligible(self) -> None:
        p = leader(A, B, end=10, committed=10, eligible=without(C))
        assert fetch(p, C, 10) == []
        assert p.on_eligible(FIRST_EPOCHS) == [], "only a fetch shows that it is still there"
        assert proposal(fetch(p, C, 10)).isr == isr_of(A, B, C)

    def test_a_replica_whose_fetches_are_of_another_incarnation_may_not_join(self) -> None:
        p = leader(A, B, end=10, committed=10, eligible=without(C))
        fetch(p, C, 10, broker_epoch=13)
        p.on_eligible(FIRST_EPOCHS | {C: BrokerEpoch(30)})
        with pytest.raises(StaleBrokerEpoch):
            fetch(p, C, 10, broker_epoch=13)
        assert p.proposed is None, "P-7"
        assert proposal(fetch(p, C, 10, broker_epoch=30)).isr == isr_of(A, B, member(C, 30))

    def test_replicas_join_one_at_a_time(self) -> None:
        p = leader(A, min_isr=1)
        asked = proposal(fetch(p, B, 0))
        assert fetch(p, C, 0) == []
        answer = isr_answer(A, B, partition_epoch=1, min_isr=1)
        p.on_isr_answer(asked.request_id, answer)
        assert fetch(p, C, 0) == [], "who may not join in epoch 1 comes with its push"
        p.on_state(partition_state(A, B, partition_epoch=1, min_isr=1), 0)
        assert proposal(fetch(p, C, 0)).isr == isr_of(A, B, C)

    def shrunk_by_the_controller_first(self) -> Leader:
        """C left the ISR in epoch 1 and the leader asked for just that in epoch 0: its answer
        comes before the push, and C holds everything again.
        """
        p = leader(A, B, C)
        p.on_append(Offset(1))
        fetch(p, B, 1)
        asked = proposal(p.on_tick(LAG_MS + 1))
        answer = isr_answer(A, B, partition_epoch=1)
        assert p.on_isr_answer(asked.request_id, answer) == [raised(1)]
        assert fetch(p, C, 1) == [], "C may be barred in epoch 1 (I-15, I-16)"
        assert not p.may_grow
        return p

    def test_nobody_joins_in_an_epoch_that_the_answer_told_before_its_push_bars_it(self) -> None:
        p = self.shrunk_by_the_controller_first()
        p.on_eligible(FIRST_EPOCHS, offline=(C,))
        assert fetch(p, C, 1) == []
        p.on_state(partition_state(A, B, partition_epoch=1), 0)
        assert fetch(p, C, 1) == []
        assert not p.may_grow

    def test_a_replica_joins_in_an_epoch_that_the_answer_told_once_it_is_pushed(self) -> None:
        p = self.shrunk_by_the_controller_first()
        p.on_eligible(FIRST_EPOCHS)
        assert fetch(p, C, 1) == []
        p.on_state(partition_state(A, B, C, partition_epoch=0), 0)
        assert fetch(p, C, 1) == [], "a push of an older epoch"
        p.on_state(partition_state(A, B, partition_epoch=1), 0)
        assert p.may_grow
        asked = proposal(fetch(p, C, 1))
        assert (asked.isr, asked.partition_epoch) == (isr_of(A, B, C), 1)

    def test_a_replica_joins_once_a_newer_epoch_than_the_answer_told_is_pushed(self) -> None:
        p = self.shrunk_by_the_controller_first()
        p.on_state(partition_state(A, B, partition_epoch=2), 0)
        assert proposal(fetch(p, C, 1)).partition_epoch == 2

    def test_an_answer_that_comes_after_the_push_of_its_epoch_takes_nothing_back(self) -> None:
        p = leader(A, B, C)
        p.on_append(Offset(1))
        asked = proposal(p.on_tick(LAG_MS + 1))
        p.on_state(partition_state(A, partition_epoch=1), 0)
        p.on_isr_answer(asked.request_id, isr_answer(A, partition_epoch=1))
        assert proposal(fetch(p, C, 1)).isr == isr_of(A, C)

    def test_a_replica_that_was_added_in_an_epoch_that_the_answer_told_is_known_once_it_is_pushed(
        self,
    ) -> None:
        p, added = leader(A, B, min_isr=1, replicas=(A, B)), (A, B, C)
        p.on_append(Offset(1))
        asked = proposal(p.on_tick(LAG_MS + 1))
        answer = isr_answer(A, partition_epoch=2, min_isr=1)
        assert p.on_isr_answer(asked.request_id, answer) == [raised(1)]
        p.on_append(Offset(2))
        p.on_state(partition_state(A, partition_epoch=1, min_isr=1, replicas=(A, B)), 0)
        p.on_state(partition_state(A, partition_epoch=2, min_isr=1, replicas=added), 0)
        assert proposal(fetch(p, C, 2)).isr == isr_of(A, C)

    def test_a_push_of_an_epoch_that_the_answer_told_leaves_the_proposal_open(self) -> None:
        p = leader(A, B, C, min_isr=1)
        p.on_append(Offset(1))
        fetch(p, B, 1, now_ms=50)
        p.on_append(Offset(2))
        asked = proposal(p.on_tick(LAG_MS + 1))
        p.on_isr_answer(asked.request_id, isr_answer(A, B, partition_epoch=1, min_isr=1))
        proposal(p.on_tick(LAG_MS + 51))
        p.on_state(partition_state(A, B, partition_epoch=1, min_isr=1), LAG_MS + 51)
        assert p.proposed == isr_of(A), "P-79: its commit may be under way"

    def test_a_member_is_dropped_in_an_epoch_that_is_not_pushed_yet(self) -> None:
        p = leader(A, B, C, min_isr=1)
        p.on_append(Offset(1))
        fetch(p, B, 1, now_ms=50)
        p.on_append(Offset(2))
        asked = proposal(p.on_tick(LAG_MS + 1))
        assert asked.isr == isr_of(A, B)
        p.on_isr_answer(asked.request_id, isr_answer(A, B, partition_epoch=1, min_isr=1))
        assert proposal(p.on_tick(LAG_MS + 51)).isr == isr_of(A)

    def test_nobody_joins_a_leader_that_has_not_recovered(self) -> None:
        p = leader(A, min_isr=1, recovering=True)
        assert fetch(p, B, 0) == [], "I-49"
        asked = proposal(p.on_tick(0))
        assert asked.isr == isr_of(A), "it asks to be recorded as recovered"
        answer = isr_answer(A, partition_epoch=1, min_isr=1)
        p.on_isr_answer(asked.request_id, answer)
        p.on_state(partition_state(A, partition_epoch=1, min_isr=1), 0)
        assert proposal(fetch(p, B, 0)).isr == isr_of(A, B)

    def test_a_leader_that_has_not_recovered_waits_for_nobody(self) -> None:
        p = leader(A, min_isr=1, recovering=True)
        fetch(p, B, 0)
        assert p.on_append(Offset(1)) == [raised(1)]


class TestDroppingLaggards:
    def test_a_silent_replica_blocks_commits_until_the_controller_agrees_to_drop_it(self) -> None:
        p = leader(A, B, C)
        p.on_append(Offset(10))
        fetch(p, B, 10, now_ms=101)
        asked = proposal(p.on_tick(101))
        assert asked.isr == isr_of(A, B)
        p.on_append(Offset(11))
        assert fetch(p, B, 11, now_ms=102) == [], "still the old ISR: C may yet be elected"
        assert p.on_tick(102) == [], "one proposal at a time (I-28)"
        assert p.on_isr_answer(asked.request_id, isr_answer(A, B, partition_epoch=1)) == [
            raised(11)
        ]

    def test_the_lag_allowance_runs_from_the_moment_a_replica_was_level(self) -> None:
        p = leader(A, B, eligible=without(C))
        p.on_append(Offset(1))
        fetch(p, B, 1, now_ms=100)
        p.on_append(Offset(2))
        assert p.on_tick(200) == []
        assert proposal(p.on_tick(201)).isr == isr_of(A)

    def test_a_member_that_never_fetches_has_a_full_allowance_from_the_election(self) -> None:
        p = leader(A, B, now_ms=1000, eligible=without(C))
        assert p.on_tick(1100) == []
        assert proposal(p.on_tick(1101)).isr == isr_of(A)

    def test_a_replica_that_keeps_pace_with_steady_appends_stays_in_sync(self) -> None:
        p = leader(A, B, eligible=without(C))
        for t in range(0, 400, 40):  # always one append behind, never level (P-56)
            p.on_append(Offset(t + 40))
            fetch(p, B, t, now_ms=t)
        assert p.on_tick(400) == []

    def test_a_replica_that_fetches_but_keeps_falling_behind_is_dropped(self) -> None:
        p = leader(A, B, eligible=without(C))
        for t in range(0, 400, 40):  # ten new records for each one that it copies
            p.on_append(Offset(10 * (t + 40)))
            fetch(p, B, t, now_ms=t)
        assert proposal(p.on_tick(400)).isr == isr_of(A)

    def test_a_silent_replica_that_holds_everything_stays_in_sync(self) -> None:
        p = leader(A, B, eligible=without(C))
        p.on_append(Offset(1))
        fetch(p, B, 1)
        assert p.on_tick(10_000) == []

    def test_a_level_replica_that_is_heard_was_caught_up_then(self) -> None:
        p = leader(A, B, eligible=without(C))
        fetch(p, B, 0)
        p.on_still_level(B, broker_epoch=FIRST_EPOCHS[B], at_ms=500)
        p.on_append(Offset(1))
        assert p.on_tick(600) == []
        assert proposal(p.on_tick(601)).isr == isr_of(A)

    def test_an_incarnation_that_is_over_says_nothing_for_the_next(self) -> None:
        p = leader(A, B, eligible=without(C))
        fetch(p, B, 0)
        p.on_still_level(B, broker_epoch=BrokerEpoch(FIRST_EPOCHS[B] - 1), at_ms=500)
        p.on_append(Offset(1))
        assert proposal(p.on_tick(501)).isr == isr_of(A), "P-73"

    def test_time_matters_while_a_member_is_behind(self) -> None:
        p = leader(A, B, end=10, committed=10, eligible=without(C))
        assert p.awaits_time, "nobody has fetched yet"
        fetch(p, B, 10)
        assert not p.awaits_time
        p.on_append(Offset(11))
        assert p.awaits_time
        fetch(p, B, 11)
        assert not p.awaits_time

    def test_time_matters_while_one_that_kept_pace_is_waited_for(self) -> None:
        p = leader(A, B, eligible=without(C))
        fetch(p, C, 0)
        p.on_append(Offset(1))
        fetch(p, B, 1)
        p.on_eligible(FIRST_EPOCHS)
        p.on_append(Offset(2))
        assert fetch(p, B, 2) == [], "P-58"
        assert p.awaits_time
        assert p.on_tick(LAG_MS + 1) == [raised(2)]
        assert not p.awaits_time

    def test_a_replica_that_was_refused_may_be_asked_for_when_time_has_passed(self) -> None:
        p = leader(A, end=10, committed=10)
        p.on_append(Offset(11))
        p.on_isr_refused(proposal(fetch(p, C, 10)).request_id, IneligibleReplica(), 0)
        assert p.awaits_time
        assert not p.may_grow
        p.on_tick(50)
        assert p.may_grow

    def test_a_replica_is_judged_by_the_end_of_the_log_when_its_fetch_arrived(self) -> None:
        p = leader(A, B, eligible=without(C))
        p.on_append(Offset(5))
        p.on_append(Offset(6))
        fetch(p, B, 5, now_ms=90, end_at_read=5)
        assert p.on_tick(190) == [], "P-57: our slow disk is not its lag"
        assert proposal(p.on_tick(191)).isr == isr_of(A)

    def test_a_replica_that_has_just_joined_gets_a_full_lag_allowance(self) -> None:
        p = leader(A, B, end=10, committed=10)
        p.on_append(Offset(11))
        asked = proposal(fetch(p, C, 10, now_ms=500))
        p.on_isr_answer(asked.request_id, isr_answer(A, B, C, partition_epoch=1))
        fetch(p, B, 11, now_ms=600)
        assert p.on_tick(600) == []
        assert proposal(p.on_tick(601)).isr == isr_of(A, B)

    def test_a_push_that_leaves_a_member_in_does_not_renew_its_allowance(self) -> None:
        p = leader(A, B, C)
        p.on_append(Offset(1))
        p.on_state(partition_state(A, B, partition_epoch=1), 90)
        assert proposal(p.on_tick(101)).isr == isr_of(A)

    def test_the_last_member_never_proposes_to_drop_itself(self) -> None:
        p = leader(A, min_isr=1, eligible={})
        p.on_append(Offset(1))
        assert p.on_tick(10_000) == []
        assert p.proposed is None, "I-26"

    def test_a_fetch_that_arrived_before_the_last_tick_does_not_turn_back_the_clock(self) -> None:
        p = leader(A, B, end=10, committed=10)
        p.on_isr_refused(proposal(fetch(p, C, 10)).request_id, IneligibleReplica(), 0)
        fetch(p, B, 10)
        p.on_append(Offset(11))
        p.on_tick(LAG_MS + 1)
        assert fetch(p, B, 11, now_ms=LAG_MS) == [raised(11)], "C has fallen out of pace already"


class TestProposals:
    def joining(self) -> tuple[Leader, ProposeIsr]:
        """C is proposed to join A and B, and lacks the record at 10."""
        p = leader(A, B, end=10, committed=10)
        fetch(p, B, 10)
        asked = proposal(fetch(p, C, 10))
        p.on_append(Offset(11))
        fetch(p, B, 11)
        assert p.high_watermark == 10
        return p, asked

    def test_a_refusal_returns_to_the_committed_isr(self) -> None:
        p, asked = self.joining()
        p.on_eligible(without(C))
        assert p.on_isr_refused(asked.request_id, IneligibleReplica(), 0) == [raised(11)]
        assert p.proposed is None

    def test_a_replica_that_was_refused_is_proposed_again_a_little_later(self) -> None:
        p, asked = self.joining()
        p.on_isr_refused(asked.request_id, IneligibleReplica(), 0)
        assert fetch(p, C, 11, now_ms=49) == [raised(11)]
        again = proposal(fetch(p, C, 11, now_ms=50))
        assert again.isr == isr_of(A, B, C)
        assert again.request_id != asked.request_id

    @pytest.mark.parametrize("error", [RequestTimedOut(), NetworkException(), NotController()])
    def test_a_proposal_of_unknown_outcome_goes_on_counting_and_is_asked_again(
        self, error: WireError
    ) -> None:
        p, asked = self.joining()
        assert p.on_isr_refused(asked.request_id, error, 0) == []
        assert p.high_watermark == 10, "P-6: the controller may have committed it"
        assert p.on_tick(49) == []
        again = proposal(p.on_tick(50))
        assert (again.isr, again.partition_epoch) == (asked.isr, asked.partition_epoch)
        assert again.request_id != asked.request_id
        assert p.on_tick(5000) == [], "an answer to it is awaited"

    def test_asks_again_less_and_less_often_but_at_least_once_a_second(self) -> None:
        p, asked = self.joining()
        now_ms, waits = 0, []
        for _ in range(7):
            p.on_isr_refused(asked.request_id, RequestTimedOut(), now_ms)
            before = now_ms
            while not (effects := p.on_tick(now_ms)):
                now_ms += 10
            asked = proposal(effects)
            waits.append(now_ms - before)
        assert waits == [50, 100, 200, 400, 800, 1000, 1000]

    @pytest.mark.parametrize(
        "error",
        [FencedLeaderEpoch(), InvalidUpdateVersion(), NewLeaderElected(), StaleBrokerEpoch()],
    )
    def test_a_proposal_that_newer_metadata_will_settle_waits_for_it(
        self, error: WireError
    ) -> None:
        p, asked = self.joining()
        assert p.on_isr_refused(asked.request_id, error, 0) == []
        assert p.on_tick(10_000) == []
        assert p.maximal_isr == isr_of(A, B, C)
        assert p.on_state(partition_state(A, B, partition_epoch=1), 10_000) == [raised(11)]
        assert p.proposed is None

    def test_a_late_refusal_of_an_earlier_attempt_means_nothing(self) -> None:
        p, asked = self.joining()
        p.on_isr_refused(asked.request_id, RequestTimedOut(), 0)
        proposal(p.on_tick(50))
        assert p.on_isr_refused(asked.request_id, IneligibleReplica(), 60) == []
        assert p.maximal_isr == isr_of(A, B, C)

    def test_a_refusal_after_an_attempt_of_unknown_outcome_does_not_take_the_member_back(
        self,
    ) -> None:
        p, asked = self.joining()
        p.on_isr_refused(asked.request_id, RequestTimedOut(), 0)
        again = proposal(p.on_tick(50))
        assert p.on_isr_refused(again.request_id, IneligibleReplica(), 60) == []
        assert p.maximal_isr == isr_of(A, B, C), "the first attempt may yet arrive"
        third = proposal(p.on_tick(160))
        assert p.on_eligible(without(C)) == [raised(11)], "now it could not be applied"
        assert p.on_isr_refused(third.request_id, IneligibleReplica(), 170) == []

    def test_a_refusal_settles_an_unsure_proposal_if_its_member_is_fenced_already(self) -> None:
        p, asked = self.joining()
        p.on_isr_refused(asked.request_id, RequestTimedOut(), 0)
        again = proposal(p.on_tick(50))
        assert p.on_eligible(without(C)) == []
        assert p.maximal_isr == isr_of(A, B, C), "not refused yet: it may have been applied"
        assert p.on_isr_refused(again.request_id, IneligibleReplica(), 60) == [raised(11)]

    def test_a_refused_shrink_leaves_everyone_in(self) -> None:
        p = leader(A, B, C, min_isr=1)
        p.on_append(Offset(1))
        asked = proposal(p.on_tick(101))
        p.on_isr_refused(asked.request_id, RequestTimedOut(), 101)
        asked = proposal(p.on_tick(151))
        assert p.on_isr_refused(asked.request_id, IneligibleReplica(), 151) == []
        assert p.proposed is None
        assert p.maximal_isr == isr_of(A, B, C)

    def test_a_push_with_the_same_partition_epoch_leaves_the_proposal_open(self) -> None:
        p, asked = self.joining()
        assert p.on_state(partition_state(A, B, partition_epoch=0), 0) == []
        assert p.proposed == asked.isr, "P-79: its commit may be under way"

    def test_a_newer_push_supersedes_the_proposal(self) -> None:
        p, asked = self.joining()
        p.on_state(partition_state(A, B, C, partition_epoch=1), 0)
        assert p.proposed is None
        assert p.isr == isr_of(A, B, C)
        late = isr_answer(A, B, C, partition_epoch=1)
        assert p.on_isr_answer(asked.request_id, late) == []
        assert p.partition_epoch == 1

    def test_an_older_push_or_answer_changes_nothing(self) -> None:
        p = leader(A, B, C)
        p.on_state(partition_state(A, B, partition_epoch=3), 0)
        assert p.on_state(partition_state(A, B, C, partition_epoch=2), 0) == []
        assert p.on_state(partition_state(A, C, partition_epoch=9, leader_epoch=4), 0) == []
        assert p.on_isr_answer(7, isr_answer(A, B, C, partition_epoch=2)) == []
        assert p.on_isr_answer(7, isr_answer(A, C, partition_epoch=9, leader_epoch=4)) == []
        assert p.isr == isr_of(A, B)

    def test_a_newer_leader_epoch_is_not_for_this_machine(self) -> None:
        p = leader(A, B)
        with pytest.raises(AssertionError, match="new machine"):
            p.on_state(partition_state(A, B, partition_epoch=1, leader_epoch=6), 0)

    def test_the_committed_word_counts_even_as_the_answer_to_an_earlier_attempt(self) -> None:
        p, asked = self.joining()
        p.on_isr_refused(asked.request_id, RequestTimedOut(), 0)
        p.on_tick(50)
        p.on_isr_answer(asked.request_id, isr_answer(A, B, C, partition_epoch=1))
        assert p.isr == isr_of(A, B, C)
        assert p.proposed is None

    def test_an_answer_that_changes_nothing_closes_the_proposal_it_answers(self) -> None:
        p = leader(A, min_isr=1, recovering=True, eligible={})
        asked = proposal(p.on_tick(0))
        same = isr_answer(A, partition_epoch=0, min_isr=1)
        p.on_isr_answer(asked.request_id + 1, same)
        assert p.proposed is not None
        p.on_isr_answer(asked.request_id, same)
        assert p.proposed is None

    def test_request_ids_of_different_leader_epochs_differ(self) -> None:
        _, first = self.joining()
        q = Leader(
            A,
            FIRST_EPOCHS[A],
            partition_state(A, B, leader_epoch=6, partition_epoch=1),
            log_end_offset=Offset(0),
            log_start_offset=Offset(0),
            high_watermark=Offset(0),
            durable_offset=Offset(0),
            eligible=FIRST_EPOCHS,
            offline=(),
            lag_ms_max=LAG_MS,
            flush_always=False,
            now_ms=0,
        )
        assert proposal(fetch(q, C, 0, leader_epoch=6)).request_id != first.request_id

    def test_the_leader_names_itself_by_its_own_incarnation(self) -> None:
        p = leader(member(A, 3), B, end=1)
        assert proposal(fetch(p, C, 1)).isr == isr_of(A, B, C)

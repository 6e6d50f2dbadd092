"""The leader machine, one behaviour per test: commits, and who is refused."""

from dataclasses import replace

import pytest

from strandline_proto.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    NotEnoughReplicas,
    OffsetOutOfRange,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from support.leader_machine import LAG_MS, fetch, leader, proposal, raised, without
from support.partition_states import (
    FIRST_EPOCHS,
    A,
    B,
    C,
    isr_of,
    member,
    partition_state,
)


class TestCommitting:
    def test_commits_what_the_slowest_in_sync_replica_holds(self) -> None:
        p = leader(A, B, C)
        assert p.on_append(Offset(10)) == []
        assert fetch(p, B, 10) == []
        assert fetch(p, C, 7) == [raised(7)]
        assert fetch(p, C, 10) == [raised(10)]
        assert p.high_watermark == 10

    def test_commits_nothing_before_every_member_has_fetched_in_this_epoch(self) -> None:
        p = leader(A, B, C, end=10, committed=4)
        assert p.on_tick(0) == []
        assert fetch(p, B, 10) == []
        assert fetch(p, C, 10) == [raised(10)]

    def test_commits_alone_if_one_in_sync_replica_is_enough(self) -> None:
        p = leader(A, min_isr=1, end=10, eligible={})
        assert p.on_tick(0) == [raised(10)], "a sole member commits what it finds"
        assert p.on_append(Offset(12)) == [raised(12)]

    def test_commits_nothing_below_the_minimum_of_in_sync_replicas(self) -> None:
        p = leader(A, end=10, committed=4, eligible={})
        assert p.on_append(Offset(11)) == []
        assert p.on_tick(0) == []
        assert p.high_watermark == 4, "I-9: the last replica standing may lose its tail (P-9)"

    def test_a_member_that_only_might_be_in_sync_does_not_make_up_the_minimum(self) -> None:
        p = leader(A, end=10, committed=4)
        assert proposal(fetch(p, B, 10)).isr == isr_of(A, B)
        assert p.high_watermark == 4
        assert p.below_min_isr()

    def test_a_replica_that_lost_its_log_does_not_take_commits_back(self) -> None:
        p = leader(A, B, end=10, committed=10, eligible=without(C))
        assert fetch(p, B, 0) == []
        assert p.high_watermark == 10

    def test_counts_only_what_is_on_disk_if_every_write_is_flushed(self) -> None:
        p = leader(A, B, flush_always=True, eligible=without(C))
        p.on_append(Offset(10))
        assert fetch(p, B, 10) == [], "I-93: this log's own records are not durable yet"
        assert p.on_durable(Offset(6)) == [raised(6)]
        assert p.on_durable(Offset(10)) == [raised(10)]

    def test_a_flush_that_is_reported_late_takes_nothing_back(self) -> None:
        p = leader(A, B, flush_always=True, eligible=without(C))
        p.on_append(Offset(10))
        p.on_durable(Offset(8))
        p.on_durable(Offset(5))
        assert fetch(p, B, 10) == [raised(8)]

    def test_does_not_wait_for_the_disk_if_replication_is_the_policy(self) -> None:
        p = leader(A, B, eligible=without(C))
        p.on_append(Offset(10))
        assert fetch(p, B, 10) == [raised(10)]
        assert p.on_durable(Offset(10)) == []

    def test_waits_for_a_replica_that_keeps_pace_and_is_about_to_join(self) -> None:
        p = leader(A, B, end=10, committed=10)
        p.on_isr_refused(proposal(fetch(p, C, 10)).request_id, IneligibleReplica(), 0)
        fetch(p, B, 10)
        p.on_append(Offset(11))
        assert fetch(p, B, 11, now_ms=LAG_MS) == []
        assert p.on_tick(LAG_MS + 1) == [raised(11)], "it no longer keeps pace"

    def test_does_not_wait_for_a_replica_that_may_not_join(self) -> None:
        p = leader(A, B, end=10, committed=10, eligible=without(C))
        fetch(p, C, 10)
        p.on_append(Offset(11))
        assert fetch(p, B, 11) == [raised(11)], "P-58"

    def test_stops_waiting_for_a_replica_when_it_hears_that_it_may_not_join(self) -> None:
        p = leader(A, B, end=10, committed=10)
        p.on_isr_refused(proposal(fetch(p, C, 10)).request_id, IneligibleReplica(), 0)
        fetch(p, B, 10)
        p.on_append(Offset(11))
        assert fetch(p, B, 11) == []
        assert p.on_eligible(FIRST_EPOCHS, offline=(C,)) == [raised(11)], "P-58: a dead directory"

    def test_a_replica_that_is_offline_is_asked_for_when_it_is_back(self) -> None:
        p = leader(A, B, end=10, committed=10, offline=(C,))
        assert fetch(p, C, 10) == []
        assert p.on_eligible(FIRST_EPOCHS) == []
        assert proposal(fetch(p, C, 10)).isr == isr_of(A, B, C)

    def test_an_open_request_counts_until_the_controller_has_ended_it(self) -> None:
        p = leader(A, B, end=10, committed=10)
        asked = proposal(fetch(p, C, 10))
        fetch(p, B, 10)
        p.on_append(Offset(11))
        p.on_isr_refused(asked.request_id, RequestTimedOut(), 0)
        assert fetch(p, B, 11) == []
        assert p.on_eligible(FIRST_EPOCHS, offline=(C,)) == [], "I-16: it may have been applied"
        ended = replace(
            partition_state(A, B), partition_epoch=PartitionEpoch(p.partition_epoch + 1)
        )
        assert p.on_state(ended, 0) == [raised(11)]

    def test_a_member_that_is_offline_is_still_asked_for_its_log_start(self) -> None:
        p = leader(A, B, end=10, committed=10, log_start=4, offline=(B,))
        fetch(p, B, 10, log_start=2)
        assert p.low_watermark() == 2, "I-75: it is in the ISR and alive"

    def test_knows_the_end_offset_once_the_watermark_passes_the_start_of_the_epoch(self) -> None:
        p = leader(A, B, end=10, committed=4, eligible=without(C))
        assert p.epoch_start == 10
        p.on_append(Offset(12))
        fetch(p, B, 9)
        assert not p.end_offset_known, "I-11"
        fetch(p, B, 10)
        assert p.end_offset_known

    def test_refuses_writes_that_could_not_commit(self) -> None:
        leader(A, B).check_can_append_all()
        p = leader(A)
        with pytest.raises(NotEnoughReplicas, match=r"orders:0 has ISR \{1\}, needs 2"):
            p.check_can_append_all()

    def test_a_change_of_the_minimum_is_acted_upon_at_once(self) -> None:
        p = leader(A, end=10, eligible={})
        assert p.on_state(partition_state(A, partition_epoch=1, min_isr=1), 0) == [raised(10)]

    def test_the_log_start_moves_below_the_watermark(self) -> None:
        p = leader(A, B, end=10, committed=10)
        assert p.on_log_start(Offset(10)) == []
        assert p.log_start_offset == 10
        with pytest.raises(AssertionError):
            p.on_log_start(Offset(11))

    def test_the_low_watermark_is_the_lowest_log_start_of_live_members(self) -> None:
        p = leader(A, B, end=10, committed=10)
        p.on_log_start(Offset(8))
        assert p.low_watermark() == -1, "B has not fetched yet"
        fetch(p, B, 10, log_start=3)
        fetch(p, C, 5, log_start=0)
        assert p.low_watermark() == 3, "C is in no ISR"
        fetch(p, B, 10, log_start=9)
        assert p.low_watermark() == 8, "its own counts too"

    def test_the_low_watermark_waits_for_nobody_that_is_dead(self) -> None:
        p = leader(A, B, C, end=10, committed=10)
        p.on_log_start(Offset(8))
        fetch(p, B, 10, log_start=8)
        assert p.low_watermark() == -1
        p.on_eligible(without(C))
        assert p.low_watermark() == 8
        p.on_eligible({**FIRST_EPOCHS, C: BrokerEpoch(FIRST_EPOCHS[C] + 1)})
        assert p.low_watermark() == 8, "its new incarnation is no member"


class TestFencing:
    @pytest.mark.parametrize(
        ("broker", "leader_epoch", "offset", "error"),
        [
            (B, 4, 1, FencedLeaderEpoch),
            (B, -1, 1, FencedLeaderEpoch),
            (B, 6, 1, UnknownLeaderEpoch),
            (B, 5, 2, OffsetOutOfRange),
            (BrokerId(9), 5, 1, UnknownLeaderEpoch),
            (BrokerId(9), 4, 1, FencedLeaderEpoch),
            (A, 5, 1, UnknownLeaderEpoch),
        ],
    )
    def test_a_fetch_that_is_refused_proves_nothing(
        self, broker: BrokerId, leader_epoch: int, offset: int, error: type[WireError]
    ) -> None:
        p = leader(A, B)
        p.on_append(Offset(1))
        with pytest.raises(error):
            fetch(p, broker, offset, leader_epoch=leader_epoch)
        assert p.high_watermark == 0
        assert p.followers[B].log_end_offset is None

    def test_a_fetch_of_an_earlier_incarnation_is_told_that_it_is_over(self) -> None:
        p = leader(A, member(B, 20), end=10, eligible=FIRST_EPOCHS | {B: BrokerEpoch(20)})
        with pytest.raises(StaleBrokerEpoch, match=r"orders:0: broker 2 of epoch 12"):
            fetch(p, B, 10)
        assert p.high_watermark == 0, "P-73"
        assert fetch(p, B, 10, broker_epoch=20) == [raised(10)]

    def test_a_fetch_of_an_incarnation_that_is_not_known_yet_is_told_to_retry(self) -> None:
        p = leader(A, B, end=10)
        with pytest.raises(UnknownLeaderEpoch, match=r"newer than epoch 12"):
            fetch(p, B, 10, broker_epoch=20)
        with pytest.raises(UnknownLeaderEpoch, match=r"newer than epoch 13"):
            fetch(p, C, 10, broker_epoch=20)
        assert p.high_watermark == 0

    def test_a_member_whose_new_incarnation_is_eligible_counts_in_neither(self) -> None:
        p = leader(A, B, end=10, eligible=FIRST_EPOCHS | {B: BrokerEpoch(20)})
        with pytest.raises(StaleBrokerEpoch):
            fetch(p, B, 10)
        with pytest.raises(UnknownLeaderEpoch):
            fetch(p, B, 10, broker_epoch=20)
        assert p.high_watermark == 0

    def test_a_fenced_replica_may_copy_but_never_goes_back_to_an_earlier_incarnation(self) -> None:
        p = leader(A, B, end=10, eligible=without(C))
        fetch(p, C, 4, broker_epoch=30)
        assert p.followers[C].log_end_offset == 4
        with pytest.raises(StaleBrokerEpoch):
            fetch(p, C, 10, broker_epoch=13)

    def test_what_a_former_incarnation_held_does_not_count_for_the_new_one(self) -> None:
        p = leader(A, B, C, end=10)
        fetch(p, B, 10)
        effects = p.on_state(partition_state(A, member(B, 20), partition_epoch=1), 0)
        assert effects == []
        assert p.followers[B].log_end_offset is None, "I-90"

    def test_a_replica_that_is_not_assigned_any_more_is_forgotten(self) -> None:
        p = leader(A, B, C)
        p.on_state(partition_state(A, B, partition_epoch=1, replicas=(A, B)), 0)
        assert set(p.followers) == {B}
        with pytest.raises(UnknownLeaderEpoch):
            fetch(p, C, 0)

    def test_checks_a_fetch_before_the_read_by_the_same_rules(self) -> None:
        p = leader(A, B)
        p.check_fetch(B, broker_epoch=FIRST_EPOCHS[B], leader_epoch=LeaderEpoch(5))
        with pytest.raises(FencedLeaderEpoch):
            p.check_fetch(B, broker_epoch=FIRST_EPOCHS[B], leader_epoch=LeaderEpoch(4))

"""Reassignment: what begins it, what ends it, and what may not (I-85, I-86)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from strandline_broker.core.controller.brokers.fencing import decide_replica_failed
from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.log.records import OfflineReplica
from strandline_broker.core.controller.log.state import PartitionRegistration
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    ProposalResult,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.leadership import (
    ElectionType,
    ElectionWish,
    decide_elect_leaders,
)
from strandline_broker.core.controller.partitions.offline_replicas import decide_offline_replicas
from strandline_broker.core.controller.partitions.reassignment import (
    REPLICAS_MAX,
    WISHES_MAX,
    Wish,
    check_count,
    decide_reassignments,
)
from strandline_broker.core.controller.push import RemovedReplicas
from strandline_broker.core.controller.topics.topics import decide_delete_topic
from strandline_proto.errors import (
    FencedLeaderEpoch,
    InvalidReplicaAssignment,
    InvalidRequest,
    NewLeaderElected,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import NO_LEADER, BrokerId, LeaderEpoch, MetadataOffset, PartitionEpoch
from support.controller_cluster import B1, B2, B3, Cluster

B4, B5, B6 = BrokerId(4), BrokerId(5), BrokerId(6)


class Moving:
    """Brokers 1 to 6; a partition on 1, 2 and 3, led by 1, all in sync."""

    def __init__(self, *replicas: BrokerId, min_insync: int = 2) -> None:
        self.cluster = Cluster([B1, B2, B3, B4, B5, B6], min_insync=min_insync)
        self.topic = self.cluster.topic("t", replicas or (B1, B2, B3))

    def now(self) -> PartitionRegistration:
        return self.cluster.partition(self.topic)

    def error(self, *target: BrokerId, cancel: bool = False) -> WireError | None:
        wish = Wish("t", 0, None if cancel else target)
        (outcome,) = self.cluster.commit(decide_reassignments(self.cluster.state, [wish]))
        return outcome.error

    def to(self, *target: BrokerId) -> None:
        assert self.error(*target) is None

    def cancel(self) -> None:
        assert self.error(cancel=True) is None

    def propose(self, *members: BrokerId) -> ProposalResult:
        state, partition = self.cluster.state, self.now()
        proposal = Proposal(
            topic_id=self.topic,
            partition=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=tuple((b, state.brokers[b].epoch) for b in members),
            leader_recovery_state=0,
        )
        leader = partition.leader
        epoch = state.brokers[leader].epoch
        (verdict,) = self.cluster.commit(decide_alter_partition(state, leader, epoch, [proposal]))
        return verdict

    def serves(self, broker_id: BrokerId, does: bool) -> None:
        state = self.cluster.state
        offline = () if does else (OfflineReplica(self.topic, 0),)
        heartbeat = Heartbeat(
            broker_id,
            state.brokers[broker_id].epoch,
            MetadataOffset(state.last_offset),
            want_fence=False,
            want_shut_down=False,
            offline_replicas=frozenset(offline),
        )
        self.cluster.commit(decide_offline_replicas(state, heartbeat))

    def join(self, *joiners: BrokerId) -> ProposalResult:
        return self.propose(*self.now().isr, *joiners)

    @property
    def effective_min_isr(self) -> int:
        state = self.cluster.state
        return state.effective_min_isr(state.topics[self.topic], self.now())

    @property
    def removed(self) -> tuple[RemovedReplicas, ...]:
        return self.cluster.envelopes[-1].removed_replicas


def test_a_reassignment_adds_the_target_and_keeps_the_old_replicas() -> None:
    at = Moving()
    before = at.now()
    at.to(B4, B2, B5)
    assert at.now() == replace(
        before,
        replicas=(B4, B2, B5, B1, B3),
        directories=("dir-4", "dir-2", "dir-5", "dir-1", "dir-3"),
        isr=(B2, B1, B3),
        adding=(B4, B5),
        removing=(B1, B3),
        original=(B1, B2, B3),
        partition_epoch=PartitionEpoch(before.partition_epoch + 1),
        changed_at=at.now().changed_at,
    )
    assert at.now().target == (B4, B2, B5)
    assert at.removed == ()


def test_it_completes_with_the_last_of_the_target_in_the_isr_and_not_before() -> None:
    at = Moving()
    at.to(B4, B5, B6)
    assert at.join(B4).error is None
    assert at.join(B5).error is None
    before = at.now()
    assert before.adding == (B4, B5, B6)
    assert isinstance(at.join(B6).error, NewLeaderElected)
    assert at.now() == replace(
        before,
        replicas=(B4, B5, B6),
        directories=("dir-4", "dir-5", "dir-6"),
        isr=(B4, B5, B6),
        leader=B4,
        adding=(),
        removing=(),
        original=(),
        leader_epoch=LeaderEpoch(before.leader_epoch + 1),
        partition_epoch=PartitionEpoch(before.partition_epoch + 2),
        changed_at=at.now().changed_at,
        elected_at=at.now().elected_at,
        led_epoch=at.now().leader_epoch,
    )
    assert at.removed == (RemovedReplicas(at.topic, 0, at.now().leader_epoch, (B1, B2, B3)),)


def test_a_target_replica_that_left_the_isr_is_waited_for_again() -> None:
    """P-68: the new ones alone are not the target."""
    at = Moving()
    at.to(B2, B3, B4)
    assert at.propose(B1, B2).error is None  # broker 3 lags
    assert at.join(B4).error is None
    assert at.now().original == (B1, B2, B3)
    assert isinstance(at.join(B3).error, NewLeaderElected)
    assert at.now().replicas == at.now().isr == (B2, B3, B4)


def test_a_leader_that_stays_gets_a_new_epoch_when_another_replica_goes() -> None:
    """P-26: or it would go on counting what it knew of that replica."""
    at = Moving()
    at.to(B1, B2, B4)
    before = at.now()
    assert isinstance(at.join(B4).error, FencedLeaderEpoch)
    assert (at.now().leader, at.now().leader_epoch) == (B1, before.leader_epoch + 1)
    assert at.now().replicas == (B1, B2, B4)


def test_more_replicas_need_no_new_epoch() -> None:
    at = Moving()
    before = at.now()
    at.to(B1, B2, B3, B4)
    verdict = at.join(B4)
    assert verdict.error is None
    assert verdict.committed is not None
    assert verdict.committed.partition == at.now()
    assert at.now().original == ()
    assert at.now().leader_epoch == before.leader_epoch
    assert at.now().isr == (B1, B2, B3, B4)
    assert at.removed == ()


def test_fewer_replicas_that_are_in_sync_are_there_at_once() -> None:
    at = Moving()
    before = at.now()
    at.to(B3, B2)
    assert (at.now().replicas, at.now().isr, at.now().leader) == ((B3, B2), (B3, B2), B3)
    assert at.now().leader_epoch == before.leader_epoch + 1
    assert at.removed == (RemovedReplicas(at.topic, 0, at.now().leader_epoch, (B1,)),)


def test_fewer_replicas_wait_for_one_that_lags() -> None:
    at = Moving()
    assert at.propose(B1, B2).error is None
    at.to(B3, B2)
    assert at.now().replicas == (B3, B2, B1)
    at.join(B3)
    assert at.now().replicas == (B3, B2)


def test_another_order_is_there_at_once_and_ends_no_epoch() -> None:
    at = Moving()
    before = at.now()
    at.to(B3, B1, B2)
    assert (at.now().replicas, at.now().original) == ((B3, B1, B2), ())
    assert (at.now().leader, at.now().leader_epoch) == (before.leader, before.leader_epoch)


def test_what_is_so_already_changes_nothing() -> None:
    at = Moving()
    offset = at.cluster.state.last_offset
    at.to(B1, B2, B3)
    assert at.cluster.state.last_offset == offset
    at.to(B4, B2, B3)
    offset = at.cluster.state.last_offset
    at.to(B4, B2, B3)
    assert at.cluster.state.last_offset == offset


def test_a_cancel_restores_the_original_order() -> None:
    at = Moving(B2, B1, B3)
    before = at.now()
    at.to(B3, B4, B5)
    at.join(B4)
    at.cancel()
    assert at.now() == replace(
        before,
        leader_epoch=LeaderEpoch(before.leader_epoch + 1),
        partition_epoch=PartitionEpoch(before.partition_epoch + 3),
        changed_at=at.now().changed_at,
        elected_at=at.now().elected_at,
        led_epoch=at.now().leader_epoch,
    )
    assert at.removed == (RemovedReplicas(at.topic, 0, at.now().leader_epoch, (B4, B5)),)


def test_a_cancel_moves_leadership_off_a_replica_that_goes() -> None:
    at = Moving()
    at.to(B4, B5, B6)
    at.join(B4)
    for broker_id in (B2, B3, B1):
        at.cluster.fence(broker_id)
    assert at.now().leader == B4
    for broker_id in (B2, B3):
        at.cluster.unfence(broker_id)
    assert at.now().isr == (B4,)
    at.join(B3)
    at.cancel()
    assert (at.now().leader, at.now().isr, at.now().replicas) == (B3, (B3,), (B1, B2, B3))


def test_a_cancel_is_refused_without_a_live_original_in_the_isr() -> None:
    """I-86."""
    at = Moving()
    at.to(B4, B5, B6)
    at.join(B4)
    for broker_id in (B1, B2, B3):
        at.cluster.fence(broker_id)
    before = at.now()
    assert isinstance(at.error(cancel=True), InvalidReplicaAssignment)
    assert at.now() == before


def test_a_cancel_needs_something_to_cancel() -> None:
    at = Moving()
    assert isinstance(at.error(cancel=True), NoReassignmentInProgress)


def test_another_target_counts_from_the_original() -> None:
    at = Moving(B2, B1, B3)
    at.to(B4, B5, B1)
    at.join(B4)
    epoch = at.now().leader_epoch
    at.to(B6, B1, B3)
    assert at.now().replicas == (B6, B1, B3, B2)
    assert (at.now().adding, at.now().removing) == ((B6,), (B2,))
    assert at.now().original == (B2, B1, B3)
    assert at.now().isr == (B1, B3, B2)
    assert at.now().leader_epoch == epoch + 1
    assert at.removed == (RemovedReplicas(at.topic, 0, at.now().leader_epoch, (B4, B5)),)
    at.cancel()
    assert at.now().replicas == (B2, B1, B3)


def test_another_target_that_keeps_all_ends_no_epoch() -> None:
    at = Moving()
    at.to(B4, B2, B3)
    epoch = at.now().leader_epoch
    at.to(B4, B5, B3)
    assert at.now().leader_epoch == epoch
    assert at.now().replicas == (B4, B5, B3, B1, B2)


def test_the_original_as_another_target_is_a_cancel() -> None:
    at = Moving()
    at.to(B4, B2, B3)
    at.to(B1, B2, B3)
    assert (at.now().replicas, at.now().original) == ((B1, B2, B3), ())


def test_another_target_may_be_complete_at_once() -> None:
    at = Moving()
    at.to(B4, B5, B3)
    at.join(B4)
    at.to(B4, B3)
    assert (at.now().replicas, at.now().isr, at.now().original) == ((B4, B3), (B4, B3), ())
    (removed,) = at.removed
    assert set(removed.brokers) == {B1, B2, B5}


def test_the_minimum_in_sync_is_that_of_the_original_until_the_end() -> None:
    """I-91: copies that are not made yet are not asked for, nor are fewer enough too early."""
    at = Moving(B1, B2, min_insync=4)
    assert at.effective_min_isr == 2
    at.to(B1, B2, B3, B4)
    assert at.effective_min_isr == 2
    at.join(B3, B4)
    assert at.effective_min_isr == 4
    at.to(B5)
    assert at.effective_min_isr == 4
    at.join(B5)
    assert (at.now().replicas, at.effective_min_isr) == ((B5,), 1)


def test_another_minimum_that_does_not_count_yet_leaves_the_eligible_ones_alone() -> None:
    """I-50: nothing has changed for who has left the ISR."""
    at = Moving(B1, B2)
    at.propose(B1)
    assert at.now().elr == (B2,)
    at.to(B1, B2, B3)
    at.cluster.alter("", {"min.insync.replicas": "3"}, topic="t")
    assert (at.effective_min_isr, at.now().elr) == (2, (B2,))


def test_it_waits_for_a_target_that_can_lead() -> None:
    """Nobody is in the ISR while its last member is away: it must be back before others go."""
    at = Moving(B1, B2)
    at.cluster.alter("", {"min.insync.replicas": "1"}, topic="t")
    at.propose(B1)
    at.cluster.fence(B1)
    at.to(B1)
    assert at.now().replicas == (B1, B2)
    at.cluster.unfence(B1)
    assert (at.now().replicas, at.now().leader, at.now().original) == ((B1,), B1, ())


def fails(at: Moving, leader: BrokerId) -> None:
    state = at.cluster.state
    epoch, as_of = state.brokers[leader].epoch, state.last_offset
    failed = partial(decide_replica_failed, state, leader, epoch, topic_id=at.topic, partition=0)
    at.cluster.commit(failed(as_of=as_of))


@pytest.mark.parametrize(
    "leave",
    [
        lambda at: at.cluster.fence(B1),
        lambda at: at.cluster.shut_down(B1),
        lambda at: at.cluster.register(B1),
        lambda at: fails(at, B1),
    ],
)
def test_it_completes_where_the_target_is_elected_from_the_elr(
    leave: Callable[[Moving], object],
) -> None:
    """I-85, I-88: the broker that it moves away from may never come back."""
    at = Moving(B1, B2)
    at.propose(B1)
    at.to(B2)
    assert (at.now().elr, at.now().replicas) == ((B2,), (B2, B1))
    leave(at)
    seen = at.now()
    assert (seen.leader, seen.isr, seen.replicas, seen.original) == (B2, (B2,), (B2,), ())
    assert at.removed == (RemovedReplicas(at.topic, 0, seen.leader_epoch, (B1,)),)
    assert at.cluster.replayed() == at.cluster.state


def test_it_completes_where_an_operator_has_the_target_elected() -> None:
    at = Moving(B1, B2)
    at.cluster.fence(B1)
    fails(at, B2)
    at.to(B2)
    assert (at.now().leader, at.now().replicas) == (NO_LEADER, (B2, B1))
    wish = ElectionWish("t", 0)
    at.cluster.commit(decide_elect_leaders(at.cluster.state, ElectionType.UNCLEAN, [wish]))
    assert (at.now().leader, at.now().replicas, at.now().original) == (B2, (B2,), ())


def test_it_waits_for_a_target_whose_replica_serves() -> None:
    at = Moving(B1, B2)
    at.cluster.alter("", {"min.insync.replicas": "1"}, topic="t")
    at.propose(B1)
    at.serves(B1, False)
    assert at.now().leader == NO_LEADER
    at.to(B1)
    assert at.now().replicas == (B1, B2)
    at.serves(B1, True)
    assert (at.now().replicas, at.now().leader) == ((B1,), B1)


def test_a_fenced_replica_in_the_target_may_stay_but_not_be_added() -> None:
    at = Moving()
    at.cluster.fence(B3)
    at.to(B1, B3)
    at.cluster.fence(B4)
    error = at.error(B1, B4)
    assert isinstance(error, InvalidReplicaAssignment)
    assert "broker 4" in str(error)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ((), "none"),
        ((B1, B1), "repeat"),
        ((B1, BrokerId(9)), "broker 9"),
        (tuple(BrokerId(b) for b in range(1, REPLICAS_MAX + 2)), "possible"),
    ],
)
def test_a_target_that_makes_no_sense(target: tuple[BrokerId, ...], said: str) -> None:
    at = Moving()
    before = at.now()
    error = at.error(*target)
    assert isinstance(error, InvalidReplicaAssignment)
    assert said in str(error)
    assert at.now() == before


def test_each_partition_is_judged_by_itself() -> None:
    at = Moving()
    wishes = [
        Wish("t", 0, (B4, B2, B3)),
        Wish("t", 0, None),
        Wish("t", 1, (B4,)),
        Wish("nowhere", 0, (B4,)),
    ]
    outcomes = at.cluster.commit(decide_reassignments(at.cluster.state, wishes))
    assert [o.wish for o in outcomes] == wishes
    assert outcomes[0].error is None
    kinds = [type(o.error) for o in outcomes[1:]]
    assert kinds == [InvalidRequest, UnknownTopicOrPartition, UnknownTopicOrPartition]
    assert at.now().adding == (B4,)
    with pytest.raises(InvalidRequest):
        check_count([Wish("t", 0, None)] * (WISHES_MAX + 1))


def test_eligible_leader_replicas_that_go_are_forgotten() -> None:
    at = Moving()
    with_elr = replace(at.now(), isr=(B1,), elr=(B2,), last_known_elr=(B3,))
    at.cluster.state.put(with_elr)
    at.to(B1, B2)
    assert (at.now().elr, at.now().last_known_elr) == ((B2,), (B3,))
    assert at.now().replicas == (B1, B2, B3)
    at.join(B2)
    assert (at.now().elr, at.now().last_known_elr, at.now().replicas) == ((), (), (B1, B2))


def test_a_restarted_controller_goes_on_with_it() -> None:
    at = Moving()
    at.to(B4, B2, B5)
    assert at.cluster.replayed().partition(at.topic, 0) == at.now()


def test_a_deleted_topic_is_deleted_on_the_new_replicas_too() -> None:
    at = Moving()
    at.to(B4, B2, B5)
    at.cluster.commit(decide_delete_topic(at.cluster.state, name="t", topic_id=b""))
    (removed,) = at.cluster.envelopes[-1].removed_topics
    assert removed.replicas == ((0, (B4, B2, B5, B1, B3)),)

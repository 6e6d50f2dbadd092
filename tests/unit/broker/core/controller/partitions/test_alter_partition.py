"""AlterPartition: each check of 3.7 in its order, and what a commit answers."""

from dataclasses import replace

import pytest

from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    ProposalResult,
    decide_alter_partition,
)
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from support.controller_cluster import B1, B2, B3, SESSION_MS, Cluster


class Setting:
    """Broker 1 leads a partition of 1, 2 and 3 with the ISR {1, 2}."""

    def __init__(self) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.topic = self.cluster.topic("t", (B1, B2, B3))
        self.cluster.fence(B3)
        self.cluster.unfence(B3)
        assert self.cluster.partition(self.topic).isr == (B1, B2)

    def proposal(self, *members: BrokerId) -> Proposal:
        partition = self.cluster.partition(self.topic)
        return Proposal(
            topic_id=self.topic,
            partition=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=tuple((b, self.epoch(b)) for b in members),
            leader_recovery_state=0,
        )

    def epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        return self.cluster.state.brokers[broker_id].epoch

    def alter(self, *proposals: Proposal, sender: BrokerId = B1) -> list[ProposalResult]:
        decision = decide_alter_partition(self.cluster.state, sender, self.epoch(sender), proposals)
        return self.cluster.commit(decision)

    def error(self, proposal: Proposal, sender: BrokerId = B1) -> type[WireError] | None:
        before = self.cluster.state.last_offset
        (verdict,) = self.alter(proposal, sender=sender)
        if verdict.error is None:
            return None
        assert self.cluster.state.last_offset == before, "a refusal writes nothing"
        assert verdict.committed is None
        return type(verdict.error)


def test_an_isr_grows_and_shrinks_by_one_partition_epoch_each() -> None:
    at = Setting()
    before = at.cluster.partition(at.topic)
    for isr in [(B1, B2, B3), (B1,)]:
        (verdict,) = at.alter(at.proposal(*isr))
        assert verdict.error is None
        assert verdict.committed is not None
        committed = at.cluster.partition(at.topic)
        assert verdict.committed.partition == committed
        assert committed.isr == isr
        assert verdict.committed.isr_with_epochs == tuple((b, at.epoch(b)) for b in isr)
        assert verdict.committed.effective_min_isr == 2
        assert committed.partition_epoch == before.partition_epoch + 1
        assert committed.leader_epoch == before.leader_epoch
        before = committed


def test_a_sender_that_is_no_current_incarnation_is_refused_as_a_whole() -> None:
    at = Setting()
    state = at.cluster.state
    with pytest.raises(StaleBrokerEpoch):
        decide_alter_partition(state, B1, BrokerEpoch(at.epoch(B1) - 1), [at.proposal(B1)])
    with pytest.raises(BrokerIdNotRegistered):
        decide_alter_partition(state, BrokerId(9), BrokerEpoch(1), [at.proposal(B1)])


def test_an_unknown_topic_or_partition() -> None:
    at = Setting()
    unknown = replace(at.proposal(B1), topic_id=TopicId(bytes(16)))
    assert at.error(unknown) is UnknownTopicId
    assert at.error(replace(at.proposal(B1), partition=1)) is UnknownTopicOrPartition


def test_a_leader_that_is_ahead_of_this_controller_is_told_so_before_anything_else() -> None:
    at = Setting()
    plain = at.proposal(B1, B2)
    newer_leader = replace(plain, leader_epoch=LeaderEpoch(plain.leader_epoch + 1))
    newer_partition = replace(plain, partition_epoch=PartitionEpoch(plain.partition_epoch + 1))
    assert at.error(newer_leader, sender=B2) is NotController
    assert at.error(newer_partition) is NotController


def test_an_ended_leader_epoch_is_fenced_even_for_the_identical_state() -> None:
    at = Setting()
    plain = at.proposal(B1, B2)
    at.cluster.fence(B1)
    at.cluster.unfence(B1)
    assert at.error(plain, sender=B1) is FencedLeaderEpoch


def test_only_the_leader_may_propose() -> None:
    at = Setting()
    assert at.error(at.proposal(B1, B2), sender=B2) is InvalidRequest


def test_a_retry_of_what_is_committed_succeeds_with_a_stale_partition_epoch() -> None:
    at = Setting()
    proposal = at.proposal(B1, B2, B3)
    at.alter(proposal)
    offset = at.cluster.state.last_offset
    (again,) = at.alter(replace(proposal, isr=proposal.isr[::-1]))
    assert again.error is None
    assert again.committed is not None
    assert again.committed.partition == at.cluster.partition(at.topic)
    assert at.cluster.state.last_offset == offset


def test_another_isr_on_a_stale_partition_epoch_is_refused() -> None:
    at = Setting()
    stale = at.proposal(B1)
    at.alter(at.proposal(B1, B2, B3))
    assert at.error(stale) is InvalidUpdateVersion


@pytest.mark.parametrize("members", [(B2, B3), (B1, BrokerId(9)), (B1, B1, B2), ()])
def test_an_isr_is_a_set_of_replicas_with_the_leader_in_it(members: tuple[BrokerId, ...]) -> None:
    at = Setting()
    at.cluster.up(BrokerId(9))
    assert at.error(at.proposal(*members)) is InvalidRequest


def test_a_recovered_partition_does_not_begin_to_recover() -> None:
    at = Setting()
    for recovery_state in (1, 2):
        recovering = replace(at.proposal(B1), leader_recovery_state=recovery_state)
        assert at.error(recovering) is InvalidRequest


def test_a_fenced_a_stopping_and_an_unregistered_broker_are_ineligible() -> None:
    at = Setting()
    at.cluster.fence(B3)
    proposal = at.proposal(B1, B2, B3)
    assert at.error(proposal) is IneligibleReplica
    at.cluster.unfence(B3)
    at.cluster.shut_down(B3)
    assert at.error(proposal) is IneligibleReplica
    del at.cluster.state.brokers[B3]
    assert at.error(proposal) is IneligibleReplica


def test_an_attempt_that_outlives_the_fencing_of_who_was_to_join_is_refused() -> None:
    """The leader has stopped counting broker 3 when it learnt of its fencing, and has committed
    without it since (I-15).
    """
    at = Setting()
    late = at.proposal(B1, B2, B3)
    at.cluster.fence(B3)
    at.cluster.unfence(B3)
    assert late.isr[-1] == (B3, at.epoch(B3)), "the incarnation is the same"
    assert at.error(late) is InvalidUpdateVersion
    assert at.error(at.proposal(B1, B2, B3)) is None, "what is asked anew is not"


def test_a_member_measured_in_another_incarnation_is_ineligible() -> None:
    at = Setting()
    proposal = at.proposal(B1, B2, B3)
    at.cluster.now_ms += SESSION_MS
    at.cluster.up(B3, directory_id="reborn empty")
    assert at.error(proposal) is IneligibleReplica
    assert at.error(at.proposal(B1, B2, B3)) is None


def test_an_unmeasured_member_may_stay_but_not_join() -> None:
    at = Setting()
    plain = at.proposal(B1, B2, B3)
    unmeasured_new = (*plain.isr[:2], (B3, NO_BROKER_EPOCH))
    assert at.error(replace(plain, isr=unmeasured_new)) is IneligibleReplica
    unmeasured_old = (plain.isr[0], (B2, NO_BROKER_EPOCH), plain.isr[2])
    assert at.error(replace(plain, isr=unmeasured_old)) is None
    assert at.cluster.partition(at.topic).isr == (B1, B2, B3)


def test_a_member_that_joins_on_a_new_disk_is_in_sync_on_that_disk() -> None:
    at = Setting()
    at.cluster.now_ms += SESSION_MS
    at.cluster.up(B3, directory_id="new disk")
    at.alter(at.proposal(B1, B2, B3))
    assert at.cluster.partition(at.topic).directory_of(B3) == "new disk"
    at.cluster.fence(B1)
    at.cluster.fence(B2)
    assert at.cluster.partition(at.topic).leader == B3


def test_each_partition_is_judged_by_itself_and_the_good_ones_are_one_batch() -> None:
    at = Setting()
    good = at.proposal(B1, B2, B3)
    envelopes = len(at.cluster.envelopes)
    verdicts = at.alter(replace(good, partition=7), good, good)
    assert [type(v.error) for v in verdicts] == [
        UnknownTopicOrPartition,
        type(None),
        InvalidRequest,
    ]
    assert len(at.cluster.envelopes) == envelopes + 1
    assert at.cluster.partition(at.topic).isr == (B1, B2, B3)

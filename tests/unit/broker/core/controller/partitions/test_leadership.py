"""Elections by command: who may take over, and what is answered for whom it may not."""

import pytest

from strandline_broker.core.controller.brokers.fencing import decide_replica_failed
from strandline_broker.core.controller.log.records import (
    RECOVERED,
    RECOVERING,
    OfflineReplica,
    OfflineReplicasRecord,
)
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.leadership import (
    ElectionResult,
    ElectionType,
    ElectionWish,
    decide_elect_leaders,
    election_type,
    wishes_of_topic,
    wishes_where_needed,
)
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, Cluster

PREFERRED, DESIGNATED = ElectionType.PREFERRED, ElectionType.DESIGNATED


def elect(cluster: Cluster, kind: ElectionType, *wishes: ElectionWish) -> list[ElectionResult]:
    return cluster.commit(decide_elect_leaders(cluster.state, kind, wishes))


def rejoin(cluster: Cluster, topic: TopicId, *isr: BrokerId) -> None:
    """The leader's proposal of this ISR is accepted."""
    partition, brokers = cluster.partition(topic), cluster.state.brokers
    leader = partition.leader
    proposal = Proposal(
        topic_id=topic,
        partition=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple((b, brokers[b].epoch) for b in isr),
        leader_recovery_state=0,
    )
    (verdict,) = cluster.commit(
        decide_alter_partition(cluster.state, leader, brokers[leader].epoch, [proposal])
    )
    assert verdict.error is None


def moved_away() -> tuple[Cluster, TopicId]:
    """Broker 1 was away and is in sync again, broker 2 leads."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B1)
    cluster.unfence(B1)
    rejoin(cluster, topic, B2, B3, B1)
    assert cluster.partition(topic).leader == B2
    return cluster, topic


def test_the_preferred_leader_takes_over_in_a_higher_leader_epoch() -> None:
    cluster, topic = moved_away()
    before = cluster.partition(topic)
    assert elect(cluster, PREFERRED, ElectionWish("t", 0)) == [ElectionResult("t", 0, B1)]
    after = cluster.partition(topic)
    assert (after.leader, after.isr) == (B1, before.isr)
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_a_leader_that_leads_already_is_not_elected_again() -> None:
    cluster, topic = moved_away()
    (result,) = elect(cluster, DESIGNATED, ElectionWish("t", 0, B2))
    assert isinstance(result.error, ElectionNotNeeded)
    assert result.leader == B2
    before = cluster.partition(topic)
    elect(cluster, PREFERRED, ElectionWish("t", 0))
    (again,) = elect(cluster, PREFERRED, ElectionWish("t", 0))
    assert isinstance(again.error, ElectionNotNeeded)
    assert cluster.partition(topic).leader_epoch == before.leader_epoch + 1


def test_a_replica_of_ones_choice_leads_if_it_is_in_sync() -> None:
    cluster, topic = moved_away()
    assert elect(cluster, DESIGNATED, ElectionWish("t", 0, B3)) == [ElectionResult("t", 0, B3)]
    assert cluster.partition(topic).leader == B3


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [(PREFERRED, PreferredLeaderNotAvailable), (DESIGNATED, EligibleLeadersNotAvailable)],
)
def test_who_is_not_in_sync_alive_staying_and_sound_does_not_take_over(
    kind: ElectionType, refusal: type[WireError]
) -> None:
    def refused(cluster: Cluster, why: str) -> None:
        (result,) = elect(cluster, kind, ElectionWish("t", 0, B1))
        assert isinstance(result.error, refusal)
        assert why in str(result.error)
        assert result.leader == B2
        assert cluster.partition(TopicId((1).to_bytes(16, "big"))).leader == B2

    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2, B3))
    cluster.fence(B1)
    refused(cluster, "not alive")
    cluster.unfence(B1)
    refused(cluster, "not in sync: the ISR is [2, 3]")
    for condition in ReplicaCondition:
        if condition.is_sound:
            continue
        cluster, topic = moved_away()
        told = OfflineReplicasRecord(
            broker_id=B1,
            broker_epoch=cluster.state.brokers[B1].epoch,
            replicas=(OfflineReplica(topic, 0, condition),),
        )
        cluster.state.replay(told, cluster.state.next_offset)
        refused(cluster, condition.value)
    cluster, _ = moved_away()
    cluster.shut_down(B1)
    refused(cluster, "stopping")


def test_each_partition_is_answered_by_itself_in_order_and_in_one_batch() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), (B1, B2), (B2, B1))
    wishes = [
        ElectionWish("t", 2, B1),
        ElectionWish("t", 7, B1),
        ElectionWish("u", 0, B1),
        ElectionWish("t", 0, B3),
        ElectionWish("t", 1, B2),
        ElectionWish("t", 1, B1),
    ]
    decision = decide_elect_leaders(cluster.state, DESIGNATED, wishes)
    kinds = [type(result.error) for result in decision.answer]
    assert kinds == [
        type(None),
        UnknownTopicOrPartition,
        UnknownTopicOrPartition,
        InvalidReplicaAssignment,
        type(None),
        InvalidRequest,
    ]
    assert [result.leader for result in decision.answer] == [B1, NO_LEADER, NO_LEADER, B1, B2, B1]
    assert len(decision.records) == 2
    cluster.commit(decision)
    assert [cluster.partition(topic, i).leader for i in range(3)] == [B1, B2, B1]


def test_without_names_every_partition_with_another_leader_is_meant() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2), (B2, B1))
    cluster.topic("u", (B1, B2))
    assert wishes_where_needed(cluster.state) == []
    elect(cluster, DESIGNATED, ElectionWish("t", 1, B1), ElectionWish("u", 0, B2))
    assert wishes_where_needed(cluster.state) == [ElectionWish("t", 1), ElectionWish("u", 0)]
    assert wishes_of_topic(cluster.state, "t") == [ElectionWish("t", 0), ElectionWish("t", 1)]
    with pytest.raises(UnknownTopicOrPartition, match="'nope'"):
        wishes_of_topic(cluster.state, "nope")


def test_a_leaderless_partition_gets_no_leader_out_of_sync() -> None:
    cluster = Cluster([B1, B2], min_insync=1)
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B1)
    cluster.fence(B2)
    cluster.unfence(B1)
    (result,) = elect(cluster, PREFERRED, ElectionWish("t", 0))
    assert isinstance(result.error, PreferredLeaderNotAvailable)
    assert cluster.partition(topic).leader == NO_LEADER


def test_an_election_type_that_is_unknown_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="election type 7 is unknown"):
        election_type(7)
    assert election_type(0) is PREFERRED


UNCLEAN = ElectionType.UNCLEAN


def test_an_unclean_election_is_for_partitions_that_nobody_leads() -> None:
    """I-48."""
    cluster = Cluster([B1, B2], min_insync=1)
    topic = cluster.topic("t", (B1, B2), (B2, B1))
    (result,) = elect(cluster, UNCLEAN, ElectionWish("t", 0))
    assert isinstance(result.error, ElectionNotNeeded)
    cluster.fence(B2)
    cluster.fence(B1)
    assert wishes_where_needed(cluster.state, UNCLEAN) == [
        ElectionWish("t", 0),
        ElectionWish("t", 1),
    ]
    (result,) = elect(cluster, UNCLEAN, ElectionWish("t", 0))
    assert isinstance(result.error, EligibleLeadersNotAvailable), "nobody is alive"
    cluster.unfence(B2)
    assert cluster.partition(topic).leader == NO_LEADER, "it was not in sync last"
    (result,) = elect(cluster, UNCLEAN, ElectionWish("t", 0))
    assert (result.leader, result.error) == (B2, None)
    partition = cluster.partition(topic)
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((B2,), (), ())
    assert partition.leader_recovery_state == RECOVERING


def test_an_unclean_election_is_clean_where_it_can_be() -> None:
    cluster = Cluster([B1, B2], min_insync=1)
    topic = cluster.topic("t", (B1, B2))
    epoch = cluster.state.brokers[B1].epoch
    cluster.fence(B2)
    cluster.commit(
        decide_replica_failed(
            cluster.state, B1, epoch, topic_id=topic, partition=0, as_of=cluster.state.last_offset
        )
    )
    assert cluster.partition(topic).elr == (B1,)
    (result,) = elect(cluster, UNCLEAN, ElectionWish("t", 0))
    assert result.leader == B1
    assert cluster.partition(topic).leader_recovery_state == RECOVERED

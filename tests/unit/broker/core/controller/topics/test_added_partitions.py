"""More partitions for a topic: how many, where, and what is refused."""

from collections import Counter

import pytest

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.topics.added_partitions import (
    MorePartitions,
    decide_create_partitions,
)
from strandline_broker.core.controller.topics.topics import PARTITIONS_MAX
from strandline_proto.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import BrokerId
from support.controller_cluster import B1, B2, B3, Cluster


def more(
    cluster: Cluster,
    count: int,
    *assignments: tuple[BrokerId, ...],
    topic: str = "t",
    validate_only: bool = False,
) -> Decision[int]:
    wish = MorePartitions(topic, count, assignments)
    return decide_create_partitions(cluster.state, wish, validate_only=validate_only)


def test_new_partitions_come_in_one_batch_and_the_old_ones_stay_as_they_are() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2), (B1, B3))
    before = [cluster.partition(topic, index) for index in range(2)]
    envelopes = len(cluster.envelopes)
    assert cluster.commit(more(cluster, 5)) == 2
    assert len(cluster.envelopes) == envelopes + 1
    assert [cluster.partition(topic, index) for index in range(2)] == before
    added = [cluster.partition(topic, index) for index in range(2, 5)]
    for partition in added:
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert len(partition.replicas) == 2
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    leaders = Counter(p.leader for p in cluster.state.topics[topic].partitions.values())
    assert leaders[B1] == 2, "it leads its share already"
    assert sorted(leaders.values()) == [1, 2, 2]
    pushed = cluster.envelopes[-1].topics[0].partitions
    assert [(p.partition.index, p.is_new) for p in pushed] == [(2, True), (3, True), (4, True)]
    assert cluster.replayed() == cluster.state


def test_a_replica_on_a_dead_broker_is_not_in_sync() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B3)
    cluster.commit(more(cluster, 2, (B3, B2)))
    partition = cluster.partition(topic, 1)
    assert (partition.replicas, partition.isr, partition.leader) == ((B3, B2), (B2,), B2)


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (2, "it cannot have fewer"),
        (0, "it cannot have fewer"),
        (3, "has 3 partitions already"),
        (PARTITIONS_MAX + 1, "possible are up to"),
    ],
)
def test_a_count_that_cannot_be_is_refused_with_the_reason(count: int, why: str) -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,), (B1,), (B1,))
    with pytest.raises(InvalidPartitions, match=why):
        more(cluster, count)


def test_an_unknown_topic_is_refused() -> None:
    with pytest.raises(UnknownTopicOrPartition, match="'nope'"):
        more(Cluster([B1]), 2, topic="nope")


def test_more_replicas_than_live_brokers_are_refused() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    with pytest.raises(InvalidReplicationFactor, match="replication factor 2 is more than the 1"):
        more(cluster, 2)


@pytest.mark.parametrize(
    ("assignments", "why"),
    [
        ([(B1, B2)], "replicas of 1 partitions are given, 2 are new"),
        ([(B1, B2), (B1,)], "t:2: has 1 replicas, partition 0 has 2"),
        ([(B1, B2), (B1, B1)], "t:2: .* repeats a broker"),
        ([(B1, B2), (B1, BrokerId(9))], "t:2: broker 9 is not registered"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(
    assignments: list[tuple[BrokerId, ...]], why: str
) -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2))
    with pytest.raises(InvalidReplicaAssignment, match=why):
        more(cluster, 3, *assignments)


def test_validation_alone_writes_nothing() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", (B1,))
    decision = more(cluster, 4, validate_only=True)
    assert (list(decision.records), decision.answer) == ([], 1)

"""Creation and deletion of topics: names, numbers, assignments, configurations."""

import pytest

from strandline_broker.core.controller.topics.topics import (
    PARTITIONS_MAX,
    CreatedTopic,
    NewTopic,
    TopicDefaults,
    check_topic_name,
    decide_create_topic,
    decide_delete_topic,
)
from strandline_proto.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.ids import BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, DEFAULTS, Cluster

TOPIC = TopicId(b"\x09" * 16)


def create(
    cluster: Cluster,
    name: str = "t",
    partitions: int = 1,
    factor: int = 1,
    *,
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = (),
    configs: tuple[tuple[str, str], ...] = (),
    defaults: TopicDefaults = DEFAULTS,
    validate_only: bool = False,
) -> CreatedTopic:
    wish = NewTopic(name, partitions, factor, assignments, configs)
    decision = decide_create_topic(
        cluster.state, wish, defaults=defaults, topic_id=TOPIC, validate_only=validate_only
    )
    return cluster.commit(decision)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249])
def test_a_legal_name(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a/b", "a b", "é", "a\n", "__cluster_metadata"]
)
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopic):
        create(Cluster([B1]), name)


def test_a_new_topic_has_its_live_replicas_in_sync_and_the_first_of_them_leads() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.fence(B1)
    created = create(
        cluster, partitions=-1, factor=-1, assignments=((0, (B1, B2, B3)), (1, (B3, B1, B2)))
    )
    assert (created.partitions, created.replication_factor) == (2, 3)
    first, second = cluster.partition(TOPIC, 0), cluster.partition(TOPIC, 1)
    assert (first.replicas, first.isr, first.leader) == ((B1, B2, B3), (B2, B3), B2)
    assert (second.isr, second.leader) == ((B3, B2), B3)
    assert (first.leader_epoch, first.partition_epoch, first.leader_recovery_state) == (0, 0, 0)
    assert first.directories == ("dir-1", "dir-2", "dir-3")


def test_defaults_stand_in_for_minus_one() -> None:
    cluster = Cluster([B1, B2])
    created = create(
        cluster,
        partitions=-1,
        factor=-1,
        defaults=TopicDefaults(partitions=4, replication_factor=2),
    )
    assert (created.partitions, created.replication_factor) == (4, 2)


def test_leaders_spread_over_brokers_also_over_topics_of_one_partition() -> None:
    cluster = Cluster([B1, B2, B3])
    leaders = []
    for number in range(6):
        topic_id = TopicId(bytes([number]) * 16)
        wish = NewTopic(f"t{number}", 1, 3, (), ())
        cluster.commit(
            decide_create_topic(
                cluster.state, wish, defaults=DEFAULTS, topic_id=topic_id, validate_only=False
            )
        )
        leaders.append(cluster.partition(topic_id).leader)
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]


def test_a_deleted_topic_leaves_a_gap_that_the_next_one_fills() -> None:
    cluster = Cluster([B1, B2, B3])
    for name, leader in (("a", B1), ("b", B2), ("c", B3)):
        cluster.topic(name, (leader,))
    cluster.commit(decide_delete_topic(cluster.state, name="b", topic_id=b""))
    create(cluster, "d", partitions=1, factor=3)
    assert cluster.partition(TOPIC).replicas[0] == B2


def test_more_replicas_than_live_brokers_are_refused_with_both_numbers() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.fence(B3)
    with pytest.raises(InvalidReplicationFactor, match="factor 3 is more than the 2 live"):
        create(cluster, factor=3)
    cluster.shut_down(B2)
    with pytest.raises(InvalidReplicationFactor, match="factor 2 is more than the 1 live"):
        create(cluster, factor=2)
    with pytest.raises(InvalidReplicationFactor):
        create(cluster, factor=0)
    with pytest.raises(InvalidReplicationFactor):
        create(cluster, factor=-2)


@pytest.mark.parametrize("partitions", [0, -2, PARTITIONS_MAX + 1])
def test_a_number_of_partitions_out_of_range_is_refused(partitions: int) -> None:
    with pytest.raises(InvalidPartitions, match=str(partitions)):
        create(Cluster([B1]), partitions=partitions)


def test_a_name_exists_once() -> None:
    cluster = Cluster([B1])
    create(cluster)
    with pytest.raises(TopicAlreadyExists):
        create(cluster)


def test_validation_alone_writes_nothing_but_refuses_the_same() -> None:
    cluster = Cluster([B1])
    before = cluster.state.last_offset
    assert create(cluster, partitions=3, validate_only=True).partitions == 3
    assert cluster.state.last_offset == before
    with pytest.raises(InvalidReplicationFactor):
        create(cluster, factor=2, validate_only=True)


@pytest.mark.parametrize(
    "assignments",
    [
        ((0, (B1, B1)),),
        ((0, ()),),
        ((0, (BrokerId(9),)),),
        ((1, (B1,)),),
        ((0, (B1,)), (0, (B2,))),
        ((0, (B1, B2)), (1, (B1,))),
        ((0, (B3,)),),
    ],
)
def test_an_impossible_assignment_is_refused(
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...],
) -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.fence(B3)
    with pytest.raises(InvalidReplicaAssignment):
        create(cluster, partitions=-1, factor=-1, assignments=assignments)


def test_an_assignment_by_hand_excludes_numbers() -> None:
    with pytest.raises(InvalidRequest):
        create(Cluster([B1]), partitions=1, factor=-1, assignments=((0, (B1,)),))


def test_configurations_are_checked_and_kept() -> None:
    cluster = Cluster([B1])
    with pytest.raises(InvalidConfig, match=r"local\.retention\.ms"):
        create(cluster, configs=(("local.retention.ms", "1"),))
    with pytest.raises(InvalidConfig, match="twice"):
        create(cluster, configs=(("segment.bytes", "1000"), ("segment.bytes", "2000")))
    create(cluster, configs=(("segment.bytes", "1000"),))
    assert cluster.state.topics[TOPIC].configs == {"segment.bytes": "1000"}
    assert cluster.envelopes[-1].topics[0].configs == (("segment.bytes", "1000"),)


def test_a_topic_is_deleted_by_id_or_by_name_and_its_name_is_free_again() -> None:
    cluster = Cluster([B1, B2])
    for name, topic_id in [("", TOPIC), ("t", b"")]:
        create(cluster, partitions=2)
        deleted = cluster.commit(decide_delete_topic(cluster.state, name=name, topic_id=topic_id))
        assert (deleted.name, deleted.topic_id) == ("t", TOPIC)
        assert cluster.state.topics == {}
        assert cluster.state.topic_ids == {}
        (removed,) = cluster.envelopes[-1].removed_topics
        assert [index for index, _ in removed.replicas] == [0, 1]


def test_an_unknown_topic_is_not_deleted() -> None:
    cluster = Cluster([B1])
    create(cluster)
    with pytest.raises(UnknownTopicId):
        decide_delete_topic(cluster.state, name="t", topic_id=bytes(16))
    with pytest.raises(UnknownTopicOrPartition):
        decide_delete_topic(cluster.state, name="u", topic_id=b"")

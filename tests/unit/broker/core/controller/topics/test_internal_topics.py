"""The coordinators' topics: when one is made, as what, and what nobody may do to it."""

import pytest

from strandline_broker.core.controller.brokers.decommission import decide_decommission
from strandline_broker.core.controller.topics.added_partitions import (
    MorePartitions,
    decide_create_partitions,
)
from strandline_broker.core.controller.topics.configs import (
    DELETE,
    SET,
    TOPIC,
    Alteration,
    decide_alter_configs,
)
from strandline_broker.core.controller.topics.internal_topics import (
    InternalTopic,
    can_be_made,
    decide_internal_topic,
    exists,
)
from strandline_broker.core.controller.topics.topics import (
    CreatedTopic,
    NewTopic,
    decide_create_topic,
    decide_delete_topic,
)
from strandline_broker.core.internal_topics import (
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    TRANSACTION_STATE,
)
from strandline_broker.core.topic_config import check_topic_configs
from strandline_proto.errors import InvalidConfig, InvalidTopic
from strandline_proto.ids import BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, DEFAULTS, SERVER_KEYS, Cluster

B4 = BrokerId(4)
WANTED = InternalTopic(CONSUMER_OFFSETS, 5, replication_factor=3, segment_bytes=100 << 20)
TRANSACTIONS = InternalTopic(TRANSACTION_STATE, 2, 3, 1 << 20, min_insync_replicas=3)
ID = TopicId(b"\x09" * 16)


def make(cluster: Cluster, wanted: InternalTopic = WANTED) -> CreatedTopic | None:
    return cluster.commit(decide_internal_topic(cluster.state, wanted, topic_id=ID))


def made() -> Cluster:
    cluster = Cluster([B1, B2, B3])
    assert make(cluster) == CreatedTopic(CONSUMER_OFFSETS, ID, 5, 3)
    return cluster


def test_it_is_made_once_as_many_brokers_live_as_it_has_replicas() -> None:
    cluster = Cluster([B1, B2])
    assert not can_be_made(cluster.state, WANTED)
    assert make(cluster) is None
    cluster.register(B3)
    assert make(cluster) is None, "registered, and fenced yet"
    cluster.unfence(B3)
    assert make(cluster) is not None
    assert exists(cluster.state, WANTED)
    assert make(cluster) is None, "once"
    for index in range(5):
        assert sorted(cluster.partition(ID, index).replicas) == [B1, B2, B3]
    assert cluster.replayed() == cluster.state


def test_the_topic_of_transactions_has_its_own_minimum_of_replicas_in_sync() -> None:
    cluster = made()
    topic_id = TopicId(b"\x08" * 16)
    decided = decide_internal_topic(cluster.state, TRANSACTIONS, topic_id=topic_id)
    assert cluster.commit(decided) == CreatedTopic(TRANSACTION_STATE, topic_id, 2, 3)
    assert cluster.state.topics[topic_id].configs["min.insync.replicas"] == "3"


def test_a_broker_that_takes_no_replicas_does_not_count() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.commit(decide_decommission(cluster.state, B3, undo=False))
    assert make(cluster) is None
    cluster.up(B4)
    assert make(cluster) is not None


@pytest.mark.parametrize(("replicas", "minimum"), [(1, "1"), (2, "2"), (3, "2"), (5, "2")])
def test_it_is_compacted_elected_cleanly_and_has_room_for_a_whole_decision(
    replicas: int, minimum: str
) -> None:
    configs = dict(InternalTopic(CONSUMER_OFFSETS, 50, replicas, 100 << 20).configs)
    check_topic_configs(configs)
    assert configs == {
        "cleanup.policy": "compact",
        "max.message.bytes": "10485760",
        "min.insync.replicas": minimum,
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_it_has_these_configurations_itself() -> None:
    assert made().state.topics[ID].configs == dict(WANTED.configs)


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_nobody_else_makes_an_internal_topic(name: str) -> None:
    cluster = Cluster([B1])
    with pytest.raises(InvalidTopic, match=f"{name} is internal"):
        create(cluster, name)


def test_another_name_that_begins_like_one_is_anybodys() -> None:
    cluster = Cluster([B1])
    name = "__debezium-heartbeat.x"
    assert create(cluster, name).name == name
    more = MorePartitions(name, 2)
    cluster.commit(decide_create_partitions(cluster.state, more, validate_only=False))
    assert cluster.commit(decide_delete_topic(cluster.state, name=name, topic_id=b"")).name == name


def create(cluster: Cluster, name: str) -> CreatedTopic:
    wish = NewTopic(name, 1, 1, (), ())
    decision = decide_create_topic(
        cluster.state, wish, defaults=DEFAULTS, topic_id=ID, validate_only=False
    )
    return cluster.commit(decision)


def test_it_is_not_deleted_by_name_nor_by_id() -> None:
    cluster = made()
    for name, topic_id in ((CONSUMER_OFFSETS, b""), ("", ID)):
        with pytest.raises(InvalidTopic, match="cannot be deleted"):
            decide_delete_topic(cluster.state, name=name, topic_id=topic_id)


def test_it_keeps_its_partitions() -> None:
    more = MorePartitions(CONSUMER_OFFSETS, 6)
    with pytest.raises(InvalidTopic, match="keeps its 5 partitions"):
        decide_create_partitions(made().state, more, validate_only=False)


@pytest.mark.parametrize(
    ("operation", "value"), [(SET, "delete"), (SET, "compact,delete"), (DELETE, "")]
)
def test_it_stays_compacted(operation: int, value: str) -> None:
    cluster = made()
    with pytest.raises(InvalidConfig, match="always compacted"):
        alter(cluster, Alteration("cleanup.policy", operation, value))
    alter(cluster, Alteration("segment.ms", SET, "3600000"))
    assert cluster.state.topics[ID].configs["cleanup.policy"] == "compact"


def alter(cluster: Cluster, alteration: Alteration) -> None:
    cluster.commit(
        decide_alter_configs(
            cluster.state,
            kind=TOPIC,
            name=CONSUMER_OFFSETS,
            alterations=[alteration],
            keys=SERVER_KEYS,
            validate_only=False,
        )
    )

"""The admin clients of librdkafka and kafka-python against real brokers.

Each change is asked of one broker and read from the same broker at once: the answer leaves when
the broker has applied the result. kafka-python's client reads from any broker, which may apply it
later: what it reads is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from support.cluster import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.kafka_cluster import KafkaCluster

WAIT_S = 30.0


@pytest.fixture
def admin(kafka: KafkaCluster) -> AdminClient:
    """librdkafka's client; it asks one broker, named as the controller."""
    return AdminClient({"bootstrap.servers": kafka.address(1), "log_level": 0})


@pytest.fixture
def python_admin(kafka: KafkaCluster) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=kafka.address(1))
    yield made
    made.close()


def done(futures: dict[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(WAIT_S) for key, future in futures.items()}


def created(admin: AdminClient, name: str, partitions: int = 1, replicas: int = 3) -> None:
    done(admin.create_topics([NewTopic(name, partitions, replicas)]))


def topic_of(kafka: KafkaCluster, broker_id: int, name: str) -> dict[str, Any] | None:
    """The topic as that broker describes it, without creating it."""
    client = KafkaAdminClient(bootstrap_servers=kafka.address(broker_id))
    try:
        [found] = client.describe_topics([name])
        return None if found["error_code"] == 3 else found
    finally:
        client.close()


def test_a_topic_is_there_when_its_creation_is_answered(
    kafka: KafkaCluster, admin: AdminClient
) -> None:
    for number in range(5):
        name = f"created-{number}"
        topic = NewTopic(name, 3, 2, config={"retention.ms": "1000"})
        done(admin.create_topics([topic], operation_timeout=WAIT_S))
        found = admin.list_topics(name, timeout=WAIT_S).topics[name]
        assert found.error is None
        assert [len(p.replicas) for p in found.partitions.values()] == [2, 2, 2]
        assert all(p.leader >= 1 for p in found.partitions.values())
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        done(admin.create_topics([NewTopic("created-0", 1, 1)]))
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        done(admin.create_topics([NewTopic("too-many", 1, 7)]))
    done(admin.create_topics([NewTopic("only-checked", 1, 1)], validate_only=True))
    assert topic_of(kafka, 1, "only-checked") is None


def test_brokers_give_their_defaults_to_a_topic(admin: AdminClient) -> None:
    done(admin.create_topics([NewTopic("defaults")]))
    found = admin.list_topics("defaults", timeout=WAIT_S).topics["defaults"]
    assert [len(p.replicas) for p in found.partitions.values()] == [3]


def test_a_topic_is_gone_when_its_deletion_is_answered(
    admin: AdminClient, python_admin: KafkaAdminClient
) -> None:
    for number in range(3):
        name = f"deleted-{number}"
        created(admin, name)
        done(admin.delete_topics([name], operation_timeout=WAIT_S))
        assert name not in admin.list_topics(timeout=WAIT_S).topics
    created(admin, "by-id")
    eventually(
        lambda: python_admin.describe_topics(["by-id"])[0]["error_code"] == 0,
        "the broker that is asked has the topic",
    )
    python_admin.delete_topics(["by-id"])
    eventually(
        lambda: "by-id" not in python_admin.list_topics(), "the broker that is asked has it no more"
    )
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        done(admin.delete_topics(["deleted-0"]))


def test_partitions_are_there_when_their_creation_is_answered(admin: AdminClient) -> None:
    created(admin, "wider")
    for count in (2, 5):
        done(admin.create_partitions([NewPartitions("wider", count)], operation_timeout=WAIT_S))
        assert len(admin.list_topics("wider", timeout=WAIT_S).topics["wider"].partitions) == count
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        done(admin.create_partitions([NewPartitions("wider", 3)]))


def test_a_topic_is_created_by_a_request_for_its_metadata(
    kafka: KafkaCluster, admin: AdminClient
) -> None:
    found = admin.list_topics("made-by-itself", timeout=WAIT_S).topics["made-by-itself"]
    assert found.error is None
    assert [(len(p.replicas), p.leader > 0) for p in found.partitions.values()] == [(3, True)]
    assert topic_of(kafka, 1, "not-asked-for") is None
    illegal = admin.list_topics("no name", timeout=WAIT_S).topics["no name"]
    assert illegal.error.name() == "TOPIC_EXCEPTION"


def config_of(admin: AdminClient, kind: Any, name: str) -> dict[str, Any]:
    [found] = done(admin.describe_configs([ConfigResource(kind, name)])).values()
    return dict(found)


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_an_altered_configuration_is_described_at_once(admin: AdminClient) -> None:
    created(admin, "configured")
    entries = [
        ConfigEntry("retention.ms", "7000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ResourceType.TOPIC, "configured", incremental_configs=entries)
    done(admin.incremental_alter_configs([resource]))
    found = config_of(admin, ResourceType.TOPIC, "configured")
    assert found["retention.ms"].value == "7000"
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["min.insync.replicas"].value == "2"
    replaced = ConfigResource(ResourceType.TOPIC, "configured", set_config={"segment.ms": "9000"})
    done(admin.alter_configs([replaced]))
    found = config_of(admin, ResourceType.TOPIC, "configured")
    assert found["segment.ms"].value == "9000"
    assert found["retention.ms"].value == "604800000"
    assert found["cleanup.policy"].value == "delete"
    for wrong in ({"retention.ms": "soon"}, {"no.such.key": "1"}):
        with pytest.raises(KafkaException, match="INVALID_CONFIG"):
            done(
                admin.alter_configs(
                    [ConfigResource(ResourceType.TOPIC, "configured", set_config=wrong)]
                )
            )


def test_a_broker_describes_its_configuration(admin: AdminClient) -> None:
    found = config_of(admin, ResourceType.BROKER, "2")
    assert found["auto.create.topics.enable"].value == "true"
    assert found["offsets.topic.replication.factor"].value == "3"
    assert found["default.replication.factor"].value == "3"
    assert found["broker.rack"].value == "rack-2"
    assert found["log.message.timestamp.type"].value == "CreateTime"


def test_the_cluster_is_described(admin: AdminClient, python_admin: KafkaAdminClient) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(WAIT_S)
    assert sorted(node.id for node in found.nodes) == [1, 2, 3]
    assert found.controller.id in (1, 2, 3)
    assert len(found.authorized_operations) == 7
    described = python_admin.describe_cluster()
    assert sorted(each["rack"] for each in described["brokers"]) == ["rack-1", "rack-2", "rack-3"]
    dirs = python_admin.describe_log_dirs()
    assert dirs


def test_topics_are_described(admin: AdminClient) -> None:
    created(admin, "described", partitions=2)
    futures = admin.describe_topics(
        TopicCollection(["described"]), include_authorized_operations=True
    )
    [found] = done(futures).values()
    assert [len(each.isr) for each in found.partitions] == [3, 3]
    assert len(found.authorized_operations) == 8


def test_access_lists_are_disabled(admin: AdminClient) -> None:
    everyone = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException, match="SECURITY_DISABLED"):
        done(admin.create_acls([everyone]))


def test_leaders_and_replicas_move(
    kafka: KafkaCluster, admin: AdminClient, python_admin: KafkaAdminClient
) -> None:
    done(admin.create_topics([NewTopic("moved", 1, replica_assignment=[[1, 2]])]))
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("moved", 0)])
    [refused] = elected.result(WAIT_S).values()
    assert "not needed" in str(refused).lower() or "NOT_NEEDED" in str(refused)
    python_admin.alter_partition_reassignments({PythonPartition("moved", 0): [3, 1]})

    def has_moved() -> bool:
        found = topic_of(kafka, 1, "moved")
        return found is not None and sorted(found["partitions"][0]["replica_nodes"]) == [1, 3]

    def is_led_by_3() -> bool:
        found = topic_of(kafka, 1, "moved")
        return found is not None and found["partitions"][0]["leader_id"] == 3

    eventually(has_moved, "the partition is on brokers 1 and 3", poll_s=0.1)
    eventually(lambda: not python_admin.list_partition_reassignments(), "no reassignment is left")
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("moved", 0)]).result(WAIT_S)
    eventually(is_led_by_3, "the preferred leader leads")

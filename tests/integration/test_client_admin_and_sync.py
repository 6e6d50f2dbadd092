"""The administrator, and everything blocking, against scripted brokers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import (
    Admin,
    AlterConfigOpType,
    ConfigChange,
    ConfigSource,
    NewPartitions,
    NewTopic,
    TopicPartition,
    sync,
)
from strandline.errors import (
    BrokerUnreachable,
    ClientClosed,
    ConfigurationError,
    ElectionNotNeeded,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    NoBrokerReachable,
    OffsetOutOfRange,
    OperationTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline_proto import errors as wire
from strandline_proto.batch import build_batch
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(3) as scripted:
        yield scripted


async def test_topics_are_created_described_listed_and_deleted(cluster: ScriptedCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        [made] = await admin.create_topics([NewTopic("orders", 3, 3)])
        assert (made.name, made.partitions) == ("orders", 3)
        assert await admin.list_topics() == ["orders"]
        described = (await admin.describe_topics(["orders"]))["orders"]
        assert [p.leader for p in described.partitions] == [1, 2, 3]
        assert described.topic_id == made.topic_id
        with pytest.raises(TopicAlreadyExists):
            await admin.create_topics(["orders"])
        with pytest.raises(InvalidReplicationFactor):
            await admin.create_topics([NewTopic("t", 1, 9)])
        await admin.delete_topics(["orders"])
        assert await admin.list_topics() == []
        for call in (admin.delete_topics, admin.describe_topics):
            with pytest.raises(UnknownTopicOrPartition, match="'orders' does not exist"):
                await call(["orders"])


async def test_whoever_only_looks_is_not_held_up_by_brokers_that_are_silent(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.admin.LOOK_TIMEOUT_S", 0.1)
    cluster.create("orders")
    async with Admin(cluster.bootstrap, request_timeout_ms=3000) as admin:
        cluster.brokers[1].pause()
        cluster.brokers[2].pause()
        for call in (admin.list_topics, admin.describe_topics, admin.brokers):
            told = await asyncio.gather(*(call() for _ in range(5)), return_exceptions=True)
            assert not [each for each in told if isinstance(each, BaseException)]
        cluster.brokers[1].resume()
        cluster.brokers[2].resume()


async def test_a_coordinator_that_falls_silent_is_named_with_what_it_said_before(
    cluster: ScriptedCluster,
) -> None:
    coordinator = cluster.brokers[cluster.groups.coordinator]

    class RefusesOnce(deque[int]):
        def popleft(self) -> int:
            coordinator.awake.clear()
            return super().popleft()

    cluster.groups.refuse_fetches = RefusesOnce([wire.CoordinatorLoadInProgress.code])
    async with Admin(cluster.bootstrap, request_timeout_ms=500) as admin:
        with pytest.raises(OperationTimedOut, match=r"'shop'.*500 ms.*CoordinatorLoadInProgress"):
            await admin.list_group_offsets("shop")


async def test_groups_are_listed_by_states_and_types_that_there_are(
    cluster: ScriptedCluster,
) -> None:
    async with Admin(cluster.bootstrap) as admin:
        with pytest.raises(ConfigurationError, match=r"states: 'Running' .*Empty, Assigning"):
            await admin.list_groups(states=["stable", "Running"])
        with pytest.raises(ConfigurationError, match=r"types: 'share' .*Consumer, Classic"):
            await admin.list_groups(types=["share"])


async def test_a_topic_gets_more_partitions_and_never_fewer(cluster: ScriptedCluster) -> None:
    cluster.create("orders", 2)
    async with Admin(cluster.bootstrap) as admin:
        assert await admin.create_partitions({"orders": 3}, validate_only=True) == {"orders": 2}
        assert len((await admin.describe_topics(["orders"]))["orders"].partitions) == 2
        more = NewPartitions(4, [[1, 2], [2, 1]])
        assert await admin.create_partitions({"orders": more}) == {"orders": 2}
        assert len((await admin.describe_topics(["orders"]))["orders"].partitions) == 4
        with pytest.raises(InvalidPartitions, match="has 4 partitions already"):
            await admin.create_partitions({"orders": 4})
        with pytest.raises(UnknownTopicOrPartition):
            await admin.create_partitions({"nope": 4})


async def test_leaders_are_elected_and_moved_each_partition_by_itself(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders", 3)
    async with Admin(cluster.bootstrap) as admin:
        moved = await admin.move_leaders({("orders", 0): 2, ("orders", 1): 2})
        assert [(r.partition.partition, r.leader) for r in moved] == [(0, 2), (1, 2)]
        assert [type(r.error) for r in moved] == [type(None), ElectionNotNeeded]
        elected = await admin.elect_leaders(partitions=[("orders", 1), "nope"])
        assert [(r.partition, r.leader) for r in elected] == [
            (("orders", 1), 1),
            (("nope", -1), -1),
        ]
        assert [type(r.error) for r in elected] == [type(None), UnknownTopicOrPartition]
        whole = await admin.elect_leaders(partitions=["orders"])
        assert [type(r.error) for r in whole] == [type(None), ElectionNotNeeded, type(None)]
        assert await admin.elect_leaders(partitions=[]) == []
        assert await admin.move_leaders({}) == []


async def test_a_truncation_is_allowed_at_the_broker_that_holds_the_replica(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders", 2)
    async with Admin(cluster.bootstrap) as admin:
        await admin.allow_truncation(("orders", 1), broker=2, offset=3)
        with pytest.raises(OffsetOutOfRange, match="cut at offset 3, not 4"):
            await admin.allow_truncation(("orders", 1), broker=2, offset=4)
        with pytest.raises(BrokerUnreachable, match=r"broker 9 is not among the live brokers"):
            await admin.allow_truncation(("orders", 1), broker=9, offset=3)


async def test_cluster_replicas_configuration_and_offsets_are_described(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders", 2)
    async with Admin(cluster.bootstrap) as admin:
        described = await admin.describe_cluster()
        assert [b.id for b in described.brokers] == [1, 2, 3]
        assert [b.id for b in await admin.brokers()] == [1, 2, 3]
        replicas = await admin.describe_replicas(["orders"])
        assert [(r.partition, r.broker) for r in replicas] == [
            (p, b) for p in (0, 1) for b in (1, 2, 3)
        ]
        configs = await admin.describe_configs([("topic", "orders"), ("broker", 1)])
        assert configs["topic", "orders"]["min.insync.replicas"].value == "2"
        assert configs["broker", "1"]["min.insync.replicas"].source is ConfigSource.DEFAULT_CONFIG
        assert list(configs) == [("topic", "orders"), ("broker", "1")]
        with pytest.raises(ConfigurationError, match="not 'user'"):
            await admin.describe_configs([("user", "u")])
        with pytest.raises(
            BrokerUnreachable, match=r"broker 9 is not among the live brokers \(1, "
        ):
            await admin.describe_configs([("topic", "orders"), ("broker", 9)])
        assert [(o.start, o.end) for o in await admin.list_offsets("orders")] == [(0, 0), (0, 0)]
        await cluster.brokers[2].stop()
        left = {r.broker for r in await admin.describe_replicas()}
        assert left == {1, 3}, "a broker that is down is left out"
        assert await admin.list_topics() == ["orders"]


async def test_records_are_deleted_by_offset_at_the_leader_of_each_partition(
    cluster: ScriptedCluster,
) -> None:
    first, second = cluster.create("orders", 2)
    for partition in (first, second):
        for _ in range(3):
            partition.append(build_batch([(None, b"v")], timestamp_ms=1))
    async with Admin(cluster.bootstrap, request_timeout_ms=5000) as admin:
        found = await admin.delete_records({("orders", 1): -1, TopicPartition("orders", 0): 2})
        assert found == {TopicPartition("orders", 0): 2, TopicPartition("orders", 1): 3}
        assert [o.start for o in await admin.list_offsets("orders")] == [2, 3]
        with pytest.raises(OffsetOutOfRange, match="beyond 3"):
            await admin.delete_records({("orders", 0): 4})
        with pytest.raises(UnknownTopicOrPartition, match="no partition 2; it has 2"):
            await admin.delete_records({("orders", 2): 0})
        with pytest.raises(UnknownTopicOrPartition, match="'absent' does not exist"):
            await admin.delete_records({("absent", 0): 0})


async def test_a_deletion_follows_the_leadership_and_has_a_deadline(
    cluster: ScriptedCluster,
) -> None:
    (partition,) = cluster.create("orders")
    partition.append(build_batch([(None, b"v")], timestamp_ms=1))
    async with Admin(cluster.bootstrap, request_timeout_ms=5000) as admin:
        await admin.list_offsets("orders")
        partition.leader, partition.leader_epoch = 2, 1
        cluster.metadata_offset += 1
        assert await admin.delete_records({("orders", 0): 1}) == {("orders", 0): 1}
    async with Admin(cluster.bootstrap, request_timeout_ms=300) as admin:
        await admin.list_offsets("orders")
        partition.leader = -1
        cluster.metadata_offset += 1
        with pytest.raises(OperationTimedOut, match="not known to be deleted on every replica"):
            await admin.delete_records({("orders", 0): 1})


async def test_configuration_is_altered_key_by_key(cluster: ScriptedCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        pending = await admin.incremental_alter_configs(
            {
                ("topic", "orders"): [
                    ConfigChange("retention.ms", "5"),
                    ConfigChange("segment.bytes", operation=AlterConfigOpType.DELETE),
                    ConfigChange("cleanup.policy", "compact", AlterConfigOpType.APPEND),
                ],
                ("broker", 2): [ConfigChange("log.roll.ms", "7")],
            },
            validate_only=True,
        )
        assert pending == [3], "the answer's"
        [asked] = [request for broker in cluster.brokers.values() for request in broker.alterations]
        assert asked.validate_only
        assert [
            (r.type, r.name, [(c.name, c.operation, c.value) for c in r.configs])
            for r in asked.resources
        ] == [
            (
                2,
                "orders",
                [
                    ("retention.ms", 0, "5"),
                    ("segment.bytes", 1, ""),
                    ("cleanup.policy", 2, "compact"),
                ],
            ),
            (4, "2", [("log.roll.ms", 0, "7")]),
        ]
        with pytest.raises(InvalidConfig, match=r"unknown topic configuration key 'segment\.byte'"):
            await admin.incremental_alter_configs(
                {("topic", "orders"): [ConfigChange("segment.byte", "5")]}
            )
        with pytest.raises(ConfigurationError, match=r"retention\.ms: SET needs a value"):
            await admin.incremental_alter_configs({("broker", ""): [ConfigChange("retention.ms")]})


def test_everything_has_a_blocking_twin(threaded_cluster: ScriptedCluster) -> None:
    bootstrap = threaded_cluster.bootstrap
    with sync.Admin(bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2, 2)])
        assert admin.list_topics() == ["orders"]
    with sync.Producer(bootstrap) as producer:
        assert producer.send_and_wait("orders", b"a", partition=0).offset == 0
        assert producer.send("orders", b"b", partition=0).result(120).offset == 1
        assert producer.send_many("orders", [b"c"] * 10, partition=1).acknowledged == 10
        assert producer.partitions_for("orders") == {0, 1}
        producer.flush()
    with sync.Consumer(
        "orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        values = sorted(next(consumer).value or b"" for _ in range(12))
        assert values == [b"a", b"b", *[b"c"] * 10]
        assert consumer.end_offsets([("orders", 0)]) == {("orders", 0): 2}
        assert consumer.position(("orders", 1)) == 10
        with pytest.raises(ConfigurationError, match="group_id"):
            consumer.subscribe(["orders"])
    with pytest.raises(ClientClosed):
        producer.flush()


def test_a_blocking_start_that_fails_leaves_no_thread() -> None:
    with pytest.raises(NoBrokerReachable):
        sync.Producer("127.0.0.1:1", connect_timeout_ms=200).start()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("strandline")]


def test_importing_the_library_imports_nothing_heavy() -> None:
    code = (
        "import sys, strandline; dir(strandline); "
        "heavy = {'grpc', 'aiokafka', 'structlog', 'prometheus_client', 'asyncio'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules); "
        "strandline.Producer; "
        "assert not {'structlog', 'prometheus_client', 'typer'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

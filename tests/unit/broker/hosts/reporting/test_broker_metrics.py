"""A broker's metrics under Kafka's names, as a scrape shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.common.topic_counters import BrokerCounters
from strandline_broker.hosts.member.lifecycle import BrokerState
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.reporting.broker_metrics import BrokerMetrics
from strandline_broker.hosts.reporting.replica_metrics import ReplicaMetrics
from strandline_broker.hosts.serving.produce import ProduceService
from strandline_proto.batch import build_batch
from strandline_proto.errors import InvalidTopic, NotEnoughReplicas, NotLeaderOrFollower
from support.listening import Listening
from support.replica_nodes import TOPIC, TOPIC_ID, decide, eventually, run_node, state

if TYPE_CHECKING:
    from pathlib import Path

    from support.replica_nodes import Node

BATCH = build_batch([(None, b"v"), (None, b"w")], timestamp_ms=1)
REPLICAMANAGER = "kafka_server_replicamanager_"
TOPICS = "kafka_server_brokertopicmetrics_"


class Shown:
    """What a scrape of the node shows."""

    def __init__(self, node: Node) -> None:
        self.registry = node.runtime.metrics
        self.state = BrokerState.UNFENCED
        self.registry.register(BrokerMetrics(node.replicas, lambda: self.state))
        self.registry.register(ReplicaMetrics(node.replicas))

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def of(self, *names: str) -> list[float | None]:
        return [self(REPLICAMANAGER + name) for name in names]


def produce(
    node: Node, *, acks: int = 1, epoch: int | None = None, topic: bytes = TOPIC_ID
) -> None:
    service = ProduceService(node.replicas, node.metadata, None)  # type: ignore[arg-type]
    service.append(
        (topic, 0),
        BATCH,
        current_leader_epoch=epoch,
        acks=acks,
        verification=None,
        on_done=lambda _: None,
        looked=None,
    )


async def test_replicas_are_counted_by_their_role_and_their_isr(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        names = ("partitioncount", "leadercount", "underreplicatedpartitions")
        assert shown.of(*names) == [0, 0, 0]
        await decide(state(1, epoch=0, isr=(1, 2, 3)), node)
        assert shown.of(*names) == [1, 1, 0]
        least = ("underminisrpartitioncount", "atminisrpartitioncount")
        assert shown.of(*least) == [0, 0]
        await decide(state(1, epoch=0, isr=(1, 2), partition_epoch=1), node)
        assert shown.of(*names, *least) == [1, 1, 1, 0, 1]
        await decide(state(1, epoch=0, isr=(1,), partition_epoch=2), node)
        assert shown.of(*names, *least) == [1, 1, 1, 1, 0]
        assert shown.of("isrshrinks_total", "isrexpands_total") == [2, 0]
        await decide(state(1, epoch=0, isr=(1, 3), partition_epoch=3), node)
        assert shown.of("isrshrinks_total", "isrexpands_total") == [2, 1]
        await decide(state(2, epoch=1, isr=(2,)), node)
        assert shown.of(*names, *least) == [1, 0, 0, 0, 0]
        node.partition.put_out_of_service("the disk has failed")
        assert shown.of("offlinereplicacount") == [1]


async def test_appends_are_counted_by_topic_and_refusals_by_their_kind(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        await decide(state(1, epoch=0, isr=(1,)), node)
        produce(node)
        produce(node)
        with pytest.raises(NotEnoughReplicas):
            produce(node, acks=-1)
        await decide(state(2, epoch=1, isr=(2,)), node)
        with pytest.raises(NotLeaderOrFollower):
            produce(node)

        def topic(name: str) -> float | None:
            assert shown(f"{TOPICS}{name}_total") == shown(f"{TOPICS}{name}_total", topic=TOPIC)
            return shown(f"{TOPICS}{name}_total", topic=TOPIC)

        assert topic("bytesin") == 2 * len(BATCH)
        assert topic("messagesin") == 4
        assert topic("totalproducerequests") == 4
        assert topic("failedproducerequests") == 1, "a moved leadership is no failure"


async def test_bytes_are_counted_on_their_way_to_a_follower_and_there(tmp_path: Path) -> None:
    async with run_node(tmp_path / "1", 1) as leader, run_node(tmp_path / "2", 2) as follower:
        led, followed = Shown(leader), Shown(follower)
        await decide(
            state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), leader, follower, known=(leader,)
        )
        produce(leader)
        await eventually(lambda: follower.partition.log.log_end_offset == 2, "it is copied")
        out = led(f"{TOPICS}replicationbytesout_total")
        assert out is not None
        assert out >= len(BATCH)
        await eventually(
            lambda: followed(f"{TOPICS}replicationbytesin_total") == len(BATCH), "it is counted"
        )
        requests = led(f"{TOPICS}totalfetchrequests_total", topic=TOPIC)
        assert requests is not None
        assert requests > 0
        assert led(f"{TOPICS}bytesout_total", topic=TOPIC) == 0, "that is for consumers"
        await eventually(
            lambda: followed("strandline_replica_high_watermark", **FIRST) == 2, "it is committed"
        )
        assert followed("kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 0


FIRST = {"topic": TOPIC, "partition": "0"}


async def test_each_replica_shows_its_offsets_unless_they_are_switched_off(
    tmp_path: Path,
) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        await decide(state(1, epoch=7, isr=(1, 2)), node)
        produce(node)

        def replica() -> list[float | None]:
            names = ("log_end_offset", "high_watermark", "leader_epoch", "is_leader")
            return [shown(f"strandline_replica_{name}", **FIRST) for name in names]

        assert replica() == [2, 0, 7, 1]
        durable = shown("strandline_replica_durable_offset", **FIRST)
        assert durable in {0, 2}
        assert shown("kafka_log_log_size", **FIRST) == len(BATCH)
        assert shown("kafka_log_log_logendoffset", **FIRST) == 2
        assert shown("kafka_log_log_logstartoffset", **FIRST) == 0
        assert shown("kafka_log_log_numlogsegments", **FIRST) == 1
        assert shown("kafka_cluster_partition_underreplicated", **FIRST) == 1
        assert shown("kafka_cluster_partition_underminisr", **FIRST) == 0
        assert shown("kafka_cluster_partition_atminisr", **FIRST) == 1
        assert shown("kafka_cluster_partition_insyncreplicascount", **FIRST) == 2
        assert shown("kafka_cluster_partition_replicascount", **FIRST) == 3
        assert shown("kafka_topic_partition_current_offset", **FIRST) == 0
        assert shown("kafka_topic_partition_oldest_offset", **FIRST) == 0
        assert shown("kafka_topic_partition_in_sync_replica", **FIRST) == 2
        assert shown("kafka_topic_partition_under_replicated_partition", **FIRST) == 1
        assert shown("kafka_topic_partition_replicas", **FIRST) == 3
        assert shown("kafka_topic_partition_leader", **FIRST) == 1
        assert shown("kafka_topic_partition_leader_is_preferred", **FIRST) == 1
        node.replicas.config.alter({"metrics.replicas.enable": "false"})
        assert replica() == [None] * 4
        assert shown("kafka_log_log_size", **FIRST) is None
        assert shown("kafka_topic_partition_leader", **FIRST) is None
        assert shown(f"{REPLICAMANAGER}partitioncount") == 1


async def test_a_follower_does_not_show_what_the_leader_shows(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        await decide(state(2, epoch=0, isr=(1, 2)), node)
        assert shown("strandline_replica_is_leader", **FIRST) == 0
        assert shown("kafka_cluster_partition_underminisr", **FIRST) is None
        assert shown("kafka_topic_partition_leader", **FIRST) is None


async def test_the_state_and_the_directories_are_shown(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        assert shown("kafka_server_kafkaserver_brokerstate") == 3
        shown.state = BrokerState.SHUTTING_DOWN
        assert shown("kafka_server_kafkaserver_brokerstate") == 6
        assert shown("kafka_log_logmanager_offlinelogdirectorycount") == 0
        path = str(tmp_path)
        offline = "kafka_log_logmanager_logdirectoryoffline"
        assert shown(offline, logDirectory=path) == 0
        node.directory.failed[path] = "gone"
        assert shown("kafka_log_logmanager_offlinelogdirectorycount") == 1
        assert shown(offline, logDirectory=path) == 1


async def test_producers_that_wait_are_counted(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        appends = check_leader(node.partition, None).appends
        appends.append(BATCH, acks=-1, on_done=lambda _: None)
        purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
        assert shown(purgatory, delayedOperation="Produce") == 1
        assert shown(purgatory, delayedOperation="Fetch") == 0


async def test_fetches_that_wait_are_counted_once_each(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        shown = Shown(node)
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        role = check_leader(node.partition, None)
        waits, reads = Listening(is_waiting=True), Listening(is_waiting=False)
        for listeners, listener in (
            (role.consumer_listeners, waits),
            (role.replica_listeners, waits),
            (role.replica_listeners, reads),
        ):
            listeners[listener] = None
        purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
        assert shown(purgatory, delayedOperation="Fetch") == 1


def test_totals_keep_what_a_deleted_topic_has_counted() -> None:
    counters = BrokerCounters()
    first, again = counters.begin("orders"), counters.begin("orders")
    assert first is again
    first.bytes_in += 5
    counters.begin("users").bytes_in += 2
    counters.end("orders")
    assert counters.topics["orders"] is first
    counters.end("orders")
    assert "orders" not in counters.topics
    assert counters.totals().bytes_in == 7
    assert counters.begin("orders").bytes_in == 0


async def test_internal_topics_are_refused_to_clients_and_counted(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,)), node)
        node.partition.log.topic = "__consumer_offsets"
        with pytest.raises(InvalidTopic):
            produce(node)
        assert node.partition.counters.failed_produce_requests == 1
        node.partition.log.topic = TOPIC

"""The controller's metrics, as a scrape shows them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from strandline_broker.core.controller.log.records import (
    RECOVERING,
    PartitionChangeRecord,
    PartitionRecord,
)
from strandline_broker.hosts.controller.controller_metrics import (
    ControllerCounters,
    ControllerMetrics,
)
from strandline_proto.ids import NO_LEADER, LeaderEpoch, PartitionEpoch, TopicId
from support.controller_cluster import B1, B2, B3, Cluster

CONTROLLER = "kafka_controller_kafkacontroller_"


class Shown:
    """A controller without a log, and what a scrape of it shows."""

    def __init__(self) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.state, self.sessions = self.cluster.state, self.cluster.sessions
        self.counters = ControllerCounters()
        self.registry = CollectorRegistry()
        self.registry.register(ControllerMetrics(self))

    def now_ms(self) -> int:
        return self.cluster.now_ms

    def of(self, *names: str) -> list[float | None]:
        return [self.registry.get_sample_value(CONTROLLER + name) for name in names]

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def test_brokers_topics_and_partitions_are_counted() -> None:
    shown = Shown()
    cluster = shown.cluster
    brokers = ("activecontrollercount", "activebrokercount", "fencedbrokercount")
    assert shown.of(*brokers) == [1, 3, 0]
    cluster.topic("orders", (B1, B2), (B2, B3))
    cluster.topic("users", (B1,))
    partitions = ("globaltopiccount", "globalpartitioncount", "offlinepartitionscount")
    balance = "preferredreplicaimbalancecount"
    assert shown.of(*partitions, balance) == [2, 3, 0, 0]
    assert shown("kafka_topic_partitions", topic="orders") == 2
    assert shown("kafka_topic_partitions", topic="users") == 1
    cluster.fence(B1)
    assert shown.of(*brokers) == [1, 2, 1]
    assert shown("kafka_brokers") == 2
    assert shown.of(*partitions, balance) == [2, 3, 1, 2], "users-0 is offline, orders-0 moved"
    assert shown.of("lastappliedrecordoffset") == [cluster.state.last_offset]
    assert shown("strandline_controller_epoch") == cluster.state.controller_epoch
    assert shown("strandline_reassigning_partitions") == 0


def test_the_age_of_a_heartbeat_is_the_brokers_own() -> None:
    shown = Shown()
    shown.cluster.now_ms += 1_500
    shown.sessions.on_heard(B2, shown.state.brokers[B2].epoch, shown.cluster.now_ms)
    shown.cluster.now_ms += 250
    age = "strandline_broker_heartbeat_age_seconds"
    assert [shown(age, broker=str(b)) for b in (B1, B2)] == [1.75, 0.25]


def test_elections_are_counted_by_kind_and_new_partitions_are_none() -> None:
    shown, topic_id = Shown(), TopicId(bytes(16))
    counters = shown.counters
    for record in (
        PartitionRecord(
            topic_id=topic_id,
            partition=0,
            replicas=(B1,),
            directories=("d",),
            isr=(B1,),
            leader=B1,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
        ),
        PartitionChangeRecord(topic_id=topic_id, partition=0, isr=(B1, B2)),
        PartitionChangeRecord(topic_id=topic_id, partition=0, leader=NO_LEADER),
        PartitionChangeRecord(topic_id=topic_id, partition=0, leader=B2),
        PartitionChangeRecord(
            topic_id=topic_id, partition=0, leader=B1, leader_recovery_state=RECOVERING
        ),
    ):
        counters.on_commit(record)
    counters.sessions_ended += 1
    stats = "kafka_controller_controllerstats_"
    assert shown("strandline_leader_elections_total") == 2
    assert shown(f"{stats}leaderelectionrateandtimems_count") == 2
    assert shown(f"{stats}uncleanleaderelections_total") == 1
    assert shown.of("timedoutbrokerheartbeatcount") == [1]

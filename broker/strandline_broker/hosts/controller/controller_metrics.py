"""The metrics of the controller, under the names that the JMX exporter gives to Kafka's.

A scrape computes the gauges from the state. Counters begin with this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from strandline_broker.core.controller.log.records import RECOVERING, PartitionChangeRecord
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from strandline_broker.core.controller.brokers.sessions import Sessions
    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.core.controller.log.state import ControllerState


class ControllerCounters:
    """The number of decisions of the controller in this process."""

    def __init__(self) -> None:
        self.elections = 0
        """Elections of partitions that existed before."""
        self.unclean_elections = 0
        self.sessions_ended = 0
        """Brokers that were fenced because their session ended."""

    def on_commit(self, record: AnyRecord) -> None:
        if isinstance(record, PartitionChangeRecord) and record.leader not in (None, NO_LEADER):
            self.elections += 1
            self.unclean_elections += record.leader_recovery_state == RECOVERING


class Shown(Protocol):
    """The parts of a controller that its metrics show."""

    state: ControllerState
    sessions: Sessions
    counters: ControllerCounters

    def now_ms(self) -> int: ...


class ControllerMetrics:
    """A collector of the cluster's state and of the controller's decisions."""

    def __init__(self, controller: Shown) -> None:
        self._controller = controller

    def collect(self) -> Iterator[Metric]:
        yield from self._of_brokers()
        yield from _of_partitions(self._controller.state)
        yield from _of_log(self._controller.state)
        yield from _of_decisions(self._controller.counters)

    def _of_brokers(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        controller = self._controller
        brokers = list(controller.state.brokers.values())
        fenced = sum(broker.fenced for broker in brokers)
        yield GaugeMetricFamily(
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1: this process is the active controller.",
            value=1,
        )
        yield GaugeMetricFamily(
            "kafka_controller_kafkacontroller_activebrokercount",
            "Brokers in service.",
            value=len(brokers) - fenced,
        )
        yield GaugeMetricFamily(
            "kafka_controller_kafkacontroller_fencedbrokercount",
            "Registered brokers that are fenced.",
            value=fenced,
        )
        yield GaugeMetricFamily("kafka_brokers", "Brokers in service.", value=len(brokers) - fenced)
        ages = GaugeMetricFamily(
            "strandline_broker_heartbeat_age_seconds",
            "Time since the controller received the broker's last heartbeat.",
            labels=["broker"],
        )
        now_ms = controller.now_ms()
        for broker in brokers:
            heard_ms = controller.sessions.heard_ms(broker.broker_id)
            if heard_ms is not None:
                ages.add_metric([str(broker.broker_id)], (now_ms - heard_ms) / 1000)
        yield ages


def _of_partitions(state: ControllerState) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    topics = [(topic.name, len(topic.partitions)) for topic in state.topics.values()]
    yield GaugeMetricFamily(
        "kafka_controller_kafkacontroller_globaltopiccount", "Topics.", value=len(topics)
    )
    yield GaugeMetricFamily(
        "kafka_controller_kafkacontroller_globalpartitioncount",
        "Partitions of all topics.",
        value=sum(count for _, count in topics),
    )
    yield GaugeMetricFamily(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "Partitions without a leader.",
        value=len(state.index.leaderless),
    )
    yield GaugeMetricFamily(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "Partitions whose first replica does not lead, those without a leader included.",
        value=len(state.index.led_elsewhere),
    )
    yield GaugeMetricFamily(
        "strandline_reassigning_partitions",
        "Partitions with a reassignment under way.",
        value=len(state.index.moving),
    )
    partitions = GaugeMetricFamily(
        "kafka_topic_partitions", "Partitions of the topic.", labels=["topic"]
    )
    for name, count in sorted(topics):
        partitions.add_metric([name], count)
    yield partitions


def _of_log(state: ControllerState) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield GaugeMetricFamily(
        "kafka_controller_kafkacontroller_lastappliedrecordoffset",
        "Offset of the last record of the controller's log that is applied.",
        value=state.last_offset,
    )
    yield GaugeMetricFamily(
        "strandline_controller_epoch",
        "Epoch of the controller, which rises with each start.",
        value=state.controller_epoch,
    )


def _of_decisions(counters: ControllerCounters) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily(
        "strandline_leader_elections",
        "Elections of partitions that existed before, since the start of the process.",
        value=counters.elections,
    )
    # The JMX exporter's spelling of a timer's count, without its quantiles.
    yield GaugeMetricFamily(
        "kafka_controller_controllerstats_leaderelectionrateandtimems_count",
        "The same as strandline_leader_elections_total.",
        value=counters.elections,
    )
    yield CounterMetricFamily(
        "kafka_controller_controllerstats_uncleanleaderelections",
        "Elections of a replica that may lack committed records.",
        value=counters.unclean_elections,
    )
    yield GaugeMetricFamily(
        "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount",
        "Brokers that were fenced because their session ended, since the start of the process.",
        value=counters.sessions_ended,
    )

"""The metrics of a broker under the names that the JMX exporter gives to Kafka's.

A scrape computes them. Public dashboards for Kafka find them under `kafka_server_*` and
`kafka_log_*`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.member.lifecycle import BrokerState
from strandline_broker.hosts.replica.following import Following
from strandline_broker.hosts.replica.leading import Leading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import CounterMetricFamily, Metric

    from strandline_broker.hosts.common.topic_counters import BrokerCounters, TopicCounters
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.observers import FetchListener

KAFKA_STATES: Final = {
    BrokerState.STARTING: 1,
    BrokerState.FENCED: 2,
    BrokerState.UNFENCED: 3,
    BrokerState.SHUTTING_DOWN: 6,
}
"""The numbers of Kafka's broker states."""


class BrokerMetrics:
    """A collector of the broker's own state and of what its topics' clients did."""

    def __init__(self, replicas: ReplicaManager, state: Callable[[], BrokerState]) -> None:
        self._replicas = replicas
        self._state = state

    def collect(self) -> Iterator[Metric]:
        yield from self._of_broker()
        yield from self._of_replicas()
        yield from _of_isr(self._replicas.counters.totals())
        yield from _of_topics(self._replicas.counters)

    def _of_broker(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily(
            "kafka_server_kafkaserver_brokerstate",
            "State of the broker: 1 starting, 2 fenced, 3 in service, 6 shutting down.",
            value=KAFKA_STATES[self._state()],
        )
        directories = self._replicas.dirs.directories
        failed, online = directories.failed, [each.path for each in directories.online]
        yield GaugeMetricFamily(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Data directories that are out of service.",
            value=len(failed),
        )
        offline = GaugeMetricFamily(
            "kafka_log_logmanager_logdirectoryoffline",
            "1 if the data directory is out of service, otherwise 0.",
            labels=["logDirectory"],
        )
        for path in sorted({*online, *failed}):
            offline.add_metric([path], path in failed)
        yield offline

    def _of_replicas(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        count = _Count(self._replicas)
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_partitioncount",
            "Replicas on this broker.",
            value=count.replicas,
        )
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_leadercount",
            "Partitions that this broker leads.",
            value=count.leaders,
        )
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_underreplicatedpartitions",
            "Partitions that this broker leads and whose ISR lacks a replica.",
            value=count.under_replicated,
        )
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_underminisrpartitioncount",
            "Partitions that this broker leads and whose ISR is below min.insync.replicas.",
            value=count.under_min_isr,
        )
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_atminisrpartitioncount",
            "Partitions that this broker leads and whose ISR has just min.insync.replicas.",
            value=count.at_min_isr,
        )
        yield from _of_work(count)


def _of_work(count: _Count) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield GaugeMetricFamily(
        "kafka_server_replicamanager_reassigningpartitions",
        "Partitions that this broker leads and to which a reassignment adds a replica.",
        value=count.reassigning,
    )
    yield GaugeMetricFamily(
        "kafka_server_replicamanager_offlinereplicacount",
        "Replicas here that serve nothing.",
        value=count.offline,
    )
    yield GaugeMetricFamily(
        "kafka_server_replicamanager_produceridcount",
        "Producers whose state the replicas here keep.",
        value=count.producers,
    )
    purgatory = GaugeMetricFamily(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Appends whose producers wait for their acks (Produce), and fetch requests of consumers and"
        " followers that wait for records (Fetch).",
        labels=["delayedOperation"],
    )
    purgatory.add_metric(["Produce"], count.waiting)
    purgatory.add_metric(["Fetch"], len(count.fetching))
    yield purgatory
    lag = GaugeMetricFamily(
        "kafka_server_replicafetchermanager_maxlag",
        "The most records that a follower here lacks of those its leader calls committed.",
        labels=["clientId"],
    )
    lag.add_metric(["Replica"], count.lag_max)
    yield lag


class _Count:
    """The numbers of replicas of one moment."""

    def __init__(self, replicas: ReplicaManager) -> None:
        partitions = list(replicas.partitions.values())
        self.replicas = len(partitions)
        self.leaders = self.under_replicated = self.under_min_isr = self.at_min_isr = 0
        self.reassigning = self.producers = self.waiting = self.lag_max = 0
        self.offline = len(replicas.logs.refused)
        self.fetching: set[FetchListener] = set()
        for partition in partitions:
            self.producers += len(partition.producers)
            self.offline += partition.out_of_service is not None
            role, state = partition.role, partition.state
            if isinstance(role, Following):
                end = partition.log.log_end_offset
                self.lag_max = max(self.lag_max, role.leader_high_watermark - end)
            if not isinstance(role, Leading) or state is None:
                continue
            in_sync = len(role.machine.isr)
            self.leaders += 1
            self.under_replicated += in_sync < len(state.replicas)
            self.under_min_isr += in_sync < state.eff_min_insync
            self.at_min_isr += in_sync == state.eff_min_insync
            self.reassigning += bool(state.adding)
            self.waiting += len(role.appends.waiting())
            for listeners in (role.consumer_listeners, role.replica_listeners):
                self.fetching.update(each for each in listeners if each.is_waiting)


def _of_isr(totals: TopicCounters) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    yield CounterMetricFamily(
        "kafka_server_replicamanager_isrshrinks",
        "Changes of an ISR by which it lost a replica, as this broker learned of them as leader.",
        value=totals.isr_shrinks,
    )
    yield CounterMetricFamily(
        "kafka_server_replicamanager_isrexpands",
        "Changes of an ISR by which it got a replica, as this broker learned of them as leader.",
        value=totals.isr_expands,
    )
    yield CounterMetricFamily(
        "kafka_server_replicamanager_failedisrupdates",
        "Proposals of an ISR that were refused or got no answer.",
        value=totals.failed_isr_updates,
    )
    yield CounterMetricFamily(
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes of batches that followers here copied.",
        value=totals.replication_bytes_in,
    )
    yield CounterMetricFamily(
        "kafka_server_brokertopicmetrics_replicationbytesout",
        "Bytes of batches that followers elsewhere were sent.",
        value=totals.replication_bytes_out,
    )


def _of_topics(counters: BrokerCounters) -> Iterator[Metric]:
    topics, totals = sorted(counters.topics.items()), counters.totals()
    for name, family in {**_bytes_and_records(), **_requests()}.items():
        for topic, each in topics:
            family.add_metric([topic], getattr(each, name))
        # The sum without a label includes topics that were deleted, as Kafka's does.
        family.add_sample(f"{family.name}_total", {}, getattr(totals, name))
        yield family


def _bytes_and_records() -> dict[str, CounterMetricFamily]:
    """The families by the names of their counters."""
    from prometheus_client.core import CounterMetricFamily

    return {
        "bytes_in": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_bytesin",
            "Bytes of batches that were appended here by leaders.",
            labels=["topic"],
        ),
        "messages_in": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_messagesin",
            "Records that were appended here by leaders.",
            labels=["topic"],
        ),
        "bytes_out": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_bytesout",
            "Bytes of batches that consumers were sent.",
            labels=["topic"],
        ),
    }


def _requests() -> dict[str, CounterMetricFamily]:
    from prometheus_client.core import CounterMetricFamily

    return {
        "produce_requests": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_totalproducerequests",
            "Batches in the Produce requests of clients, refused ones included.",
            labels=["topic"],
        ),
        "failed_produce_requests": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_failedproducerequests",
            "Batches that were refused. A batch that is too large or corrupt, a moved leadership"
            " and a failed disk do not count.",
            labels=["topic"],
        ),
        "fetch_requests": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_totalfetchrequests",
            "Reads of a partition by consumers and followers, refused ones included.",
            labels=["topic"],
        ),
        "failed_fetch_requests": CounterMetricFamily(
            "kafka_server_brokertopicmetrics_failedfetchrequests",
            "Reads that were refused. An offset out of range, a moved leadership and a failed disk"
            " do not count.",
            labels=["topic"],
        ),
    }

"""The metrics of each replica: a series for each partition.

`metrics.replicas.enable` switches them off, for brokers with many partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.replica.leading import Leading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import GaugeMetricFamily, Metric

    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.partition import Partition

PARTITION: Final = ("topic", "partition")


class ReplicaMetrics:
    """A collector of the replicas' offsets, epochs and sizes."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def collect(self) -> Iterator[Metric]:
        if not self._replicas.config.current.metrics_replicas_enable:
            return
        partitions = list(self._replicas.partitions.values())
        yield from _of_replicas(partitions)
        yield from _of_logs(partitions)
        led = [
            (partition, partition.role, partition.state)
            for partition in partitions
            if isinstance(partition.role, Leading) and partition.state is not None
        ]
        yield from _of_isr(led)
        yield from _as_kafka_exporter(led)


Led = tuple["Partition", Leading, "PartitionState"]


def _of_replicas(partitions: list[Partition]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield _each(
        GaugeMetricFamily(
            "strandline_replica_log_end_offset",
            "Offset after the last record of the replica.",
            labels=PARTITION,
        ),
        partitions,
        lambda p: p.log.log_end_offset,
    )
    yield _each(
        GaugeMetricFamily(
            "strandline_replica_high_watermark",
            "Offset below which this replica knows every record to be committed.",
            labels=PARTITION,
        ),
        partitions,
        lambda p: p.high_watermark,
    )
    yield _each(
        GaugeMetricFamily(
            "strandline_replica_durable_offset",
            "Offset below which every record is on this replica's disk.",
            labels=PARTITION,
        ),
        partitions,
        lambda p: p.log.durable_offset,
    )
    yield _each(
        GaugeMetricFamily(
            "strandline_replica_leader_epoch",
            "Leader epoch of the replica's role; -1 before its first role.",
            labels=PARTITION,
        ),
        partitions,
        lambda p: p.leader_epoch,
    )
    yield _each(
        GaugeMetricFamily(
            "strandline_replica_is_leader",
            "1 if the replica leads, otherwise 0.",
            labels=PARTITION,
        ),
        partitions,
        lambda p: isinstance(p.role, Leading),
    )


def _of_logs(partitions: list[Partition]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield _each(
        GaugeMetricFamily("kafka_log_log_size", "Bytes of the log.", labels=PARTITION),
        partitions,
        lambda p: p.log.size_bytes,
    )
    yield _each(
        GaugeMetricFamily("kafka_log_log_numlogsegments", "Segments of the log.", labels=PARTITION),
        partitions,
        lambda p: len(p.log.segments),
    )
    yield _each(
        GaugeMetricFamily(
            "kafka_log_log_logstartoffset", "The log's first offset.", labels=PARTITION
        ),
        partitions,
        lambda p: p.log.log_start_offset,
    )
    yield _each(
        GaugeMetricFamily(
            "kafka_log_log_logendoffset",
            "Offset after the last record of the log.",
            labels=PARTITION,
        ),
        partitions,
        lambda p: p.log.log_end_offset,
    )


def _of_isr(led: list[Led]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield _each_led(
        GaugeMetricFamily(
            "kafka_cluster_partition_underreplicated",
            "1 if the ISR lacks a replica, otherwise 0; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, state: len(role.machine.isr) < len(state.replicas),
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_cluster_partition_underminisr",
            "1 if the ISR is below min.insync.replicas, otherwise 0; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, state: len(role.machine.isr) < state.eff_min_insync,
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_cluster_partition_atminisr",
            "1 if the ISR has just min.insync.replicas, otherwise 0; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, state: len(role.machine.isr) == state.eff_min_insync,
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_cluster_partition_insyncreplicascount",
            "Replicas in the ISR; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, _: len(role.machine.isr),
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_cluster_partition_replicascount",
            "Replicas of the partition; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda _, state: len(state.replicas),
    )


def _as_kafka_exporter(led: list[Led]) -> Iterator[Metric]:
    """The families of the separate exporter that reads Kafka's offsets as a client."""
    from prometheus_client.core import GaugeMetricFamily

    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_current_offset",
            "The partition's high watermark; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, _: role.machine.high_watermark,
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_oldest_offset",
            "The partition's first offset; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, _: role.machine.log_start_offset,
    )
    yield from _replicas_as_kafka_exporter(led)


def _replicas_as_kafka_exporter(led: list[Led]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_replicas",
            "Replicas of the partition; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda _, state: len(state.replicas),
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_in_sync_replica",
            "Replicas in the ISR; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, _: len(role.machine.isr),
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_leader",
            "Id of the leader; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda _, state: state.leader,
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_leader_is_preferred",
            "1 if the first of the replicas leads, otherwise 0; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda _, state: state.leader == state.replicas[0],
    )
    yield _each_led(
        GaugeMetricFamily(
            "kafka_topic_partition_under_replicated_partition",
            "1 if the ISR lacks a replica, otherwise 0; shown by the leader.",
            labels=PARTITION,
        ),
        led,
        lambda role, state: len(role.machine.isr) < len(state.replicas),
    )


def _each(
    family: GaugeMetricFamily, partitions: list[Partition], value: Callable[[Partition], float]
) -> GaugeMetricFamily:
    for partition in partitions:
        labels = (partition.log.topic, str(partition.log.partition))
        family.add_metric(labels, value(partition))
    return family


def _each_led(
    family: GaugeMetricFamily,
    led: list[Led],
    value: Callable[[Leading, PartitionState], float],
) -> GaugeMetricFamily:
    for partition, role, state in led:
        labels = (partition.log.topic, str(partition.log.partition))
        family.add_metric(labels, value(role, state))
    return family

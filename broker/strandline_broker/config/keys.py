"""The configuration keys of the two servers.

Keys are Kafka's, dotted. The declaration of a field gives the key, its accepted form, default and
meaning. The attribute is the key with underscores for dots. `strandline_broker.config.loading`
reads the keys from a file, the environment and `--set`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.config.addresses import (
    HostPort,
    Listener,
    WireProtocol,
    host_ports,
    listeners,
)
from strandline_broker.config.groups import GroupCoordinatorConfig
from strandline_broker.config.kafka import KafkaListenerConfig
from strandline_broker.config.key import Key
from strandline_broker.config.key import declared as _key
from strandline_broker.config.parsers import (
    byte_count,
    limit_ms,
    long_ms,
    ms,
)
from strandline_broker.config.server import ServerConfig
from strandline_broker.core.config_values import (
    boolean,
    cleanup_policy,
    fraction,
    integer,
    load_factor,
    one_of,
    positive,
    text,
)
from strandline_broker.core.topic_config import (
    DAY_MS,
    INT32_MAX,
    INT64_MAX,
    MESSAGE_BYTES_LIMIT,
    TOPIC_KEYS,
    TopicConfig,
)
from strandline_proto.decompression import DECOMPRESSED_BYTES_LIMIT, DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "BrokerConfig",
    "ControllerConfig",
    "GroupCoordinatorConfig",
    "HostPort",
    "Listener",
    "ServerConfig",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(KafkaListenerConfig):
    """A broker's configuration."""

    advertised_listeners: tuple[Listener, ...] = _key(
        listeners, "", "Addresses that clients and brokers connect to; empty: the listeners."
    )
    inter_broker_listener_name: str = _key(
        text,
        "",
        "Listener for the controller and other brokers, which use gRPC; empty: the first listener"
        " that speaks gRPC.",
    )
    controller_quorum_bootstrap_servers: tuple[HostPort, ...] = _key(
        host_ports, None, "HOST:PORT of the controller."
    )
    broker_rack: str = _key(
        text, "", "Failure domain of the broker; replicas are spread over racks."
    )
    broker_heartbeat_interval_ms: int = _key(ms(), "2000", "Time between two heartbeats.")
    controlled_shutdown_max_wait_ms: int = _key(
        ms(0), "5000", "Longest wait of a shutdown (SIGTERM) for its leaderships to move."
    )
    replica_lag_time_max_ms: int = _key(
        ms(), "30000", "Time without catching up after which a follower leaves the ISR."
    )
    replica_fetch_wait_max_ms: int = _key(
        ms(0), "500", "Longest time that a leader holds a follower's fetch without news."
    )
    replica_fetch_min_bytes: int = _key(
        byte_count(0), "1", "Bytes for which a follower's fetch waits."
    )
    replica_fetch_max_bytes: int = _key(
        byte_count(0, MESSAGE_BYTES_LIMIT),
        "1048576",
        "Limit of bytes of one partition in a follower's fetch.",
    )
    replica_fetch_response_max_bytes: int = _key(
        byte_count(0, MESSAGE_BYTES_LIMIT),
        "10485760",
        "Limit of bytes in one answer to a follower.",
    )
    replica_fetch_backoff_ms: int = _key(
        ms(0), "100", "First pause after a failed fetch; it doubles up to a second."
    )
    message_max_bytes: int = _key(
        byte_count(0, MESSAGE_BYTES_LIMIT), "1048588", "The largest record batch accepted."
    )
    message_max_decompressed_bytes: int = _key(
        integer(1, DECOMPRESSED_BYTES_LIMIT, "bytes"),
        str(DECOMPRESSED_BYTES_MAX),
        "Limit of the unpacked size of one compressed batch.",
    )
    log_segment_bytes: int = _key(byte_count(14), "1073741824", "Size of a segment file.")
    log_index_interval_bytes: int = _key(
        byte_count(0), "4096", "Bytes of log between two entries of the offset index."
    )
    log_index_size_max_bytes: int = _key(byte_count(12), "10485760", "Size of an index file.")
    log_cleanup_policy: tuple[str, ...] = _key(
        cleanup_policy, "delete", "delete, compact, or compact,delete."
    )
    log_cleaner_backoff_ms: int = _key(
        long_ms(10), "15000", "Pause of the cleaner when no log needs it.", dynamic=True
    )
    log_cleaner_dedupe_buffer_size: int = _key(
        integer(1 << 10, INT64_MAX, "bytes"),
        "33554432",
        "Memory of the key map, 24 bytes a key; keys that do not fit take another pass.",
        dynamic=True,
    )
    log_cleaner_delete_retention_ms: int = _key(
        long_ms(0), str(DAY_MS), "Time that a tombstone stays after its first cleaning."
    )
    log_cleaner_enable: bool = _key(
        boolean, "true", "True: this broker compacts logs with cleanup.policy=compact."
    )
    log_cleaner_io_buffer_load_factor: float = _key(
        load_factor, "0.9", "Largest fill level of the key map.", dynamic=True
    )
    log_cleaner_io_buffer_size: int = _key(
        byte_count(1), "524288", "Bytes that the cleaner reads and writes at a time.", dynamic=True
    )
    log_cleaner_io_max_bytes_per_second: float = _key(
        positive,
        "1.7976931348623157E308",
        "Limit of bytes a second that the cleaner reads and writes.",
        dynamic=True,
    )
    log_cleaner_max_compaction_lag_ms: int = _key(
        long_ms(1), str(INT64_MAX), "Age at which a record is compacted, at any dirty ratio."
    )
    log_cleaner_min_compaction_lag_ms: int = _key(
        long_ms(0), "0", "Shortest time that a record stays uncompacted."
    )
    log_cleaner_min_cleanable_ratio: float = _key(
        fraction, "0.5", "Share of a log that must be uncompacted before it is cleaned."
    )
    log_flush_interval_messages: int = _key(
        integer(1, INT64_MAX), str(INT64_MAX), "Records after which a log is flushed."
    )
    log_flush_interval_ms: int = _key(
        long_ms(1), "5000", "Time between background flushes under flush.policy=replicated."
    )
    log_message_timestamp_after_max_ms: int = _key(
        long_ms(0), "3600000", "Limit of a timestamp's lead over the leader's clock."
    )
    log_message_timestamp_before_max_ms: int = _key(
        long_ms(0), str(INT64_MAX), "Limit of a timestamp's lag behind the leader's clock."
    )
    log_message_timestamp_type: str = _key(
        one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        "Source of timestamps: the producer's clock or the leader's.",
    )
    log_retention_bytes: int = _key(
        integer(-1, INT64_MAX, "bytes"), "-1", "Bytes that a partition keeps; -1: no limit."
    )
    log_retention_ms: int = _key(
        limit_ms, str(7 * DAY_MS), "Age up to which a segment is kept; -1: no limit."
    )
    log_retention_check_interval_ms: int = _key(
        ms(), "300000", "Time between two checks for segments past their retention."
    )
    log_scrub_interval: int = _key(
        integer(-1, INT64_MAX, "milliseconds"),
        str(7 * DAY_MS),
        "Milliseconds between two checks of every sealed segment for damage; 0 or -1: never.",
    )
    log_scrub_io_max_bytes_per_second: int = _key(
        integer(1, INT64_MAX, "bytes"),
        "10485760",
        "Limit of bytes a second that the scrub reads.",
        dynamic=True,
    )
    log_roll_jitter_ms: int = _key(long_ms(0), "0", "Largest random reduction of log.roll.ms.")
    log_roll_ms: int = _key(long_ms(1), str(7 * DAY_MS), "Age at which a segment is closed.")
    log_segment_delete_delay_ms: int = _key(
        long_ms(0), "60000", "Time until the files of a deleted segment are removed."
    )
    log_flush_offset_checkpoint_interval_ms: int = _key(
        ms(), "60000", "Time between two writes of the recovery point checkpoint."
    )
    replica_high_watermark_checkpoint_interval_ms: int = _key(
        ms(), "5000", "Time between two writes of the high watermark checkpoint."
    )
    num_recovery_threads_per_data_dir: int = _key(
        integer(1, 1024), "2", "Threads that open the logs of one data directory at the start."
    )
    leader_replication_throttled_rate: int = _key(
        integer(1, INT64_MAX, "bytes"),
        str(INT64_MAX),
        "Bytes a second that the broker sends to replicas that a reassignment adds.",
        dynamic=True,
    )
    follower_replication_throttled_rate: int = _key(
        integer(1, INT64_MAX, "bytes"),
        str(INT64_MAX),
        "Bytes a second that the broker fetches for replicas that a reassignment adds here.",
        dynamic=True,
    )
    flush_policy: str = _key(
        one_of("replicated", "always"),
        "replicated",
        "always: fsync before an acknowledgement; replicated: replication is the safety.",
    )
    replica_truncation: str = _key(
        one_of("leader-epoch", "high-watermark"),
        "leader-epoch",
        "Method of truncation; high-watermark loses records, as a demonstration.",
    )
    development_unsafe: bool = _key(boolean, "false", "Allows settings that lose records.")
    producer_id_expiration_ms: int = _key(
        ms(),
        str(DAY_MS),
        "Time that an idempotent producer's state is kept after its last batch. It must be above"
        " the delivery timeout of producers.",
        dynamic=True,
    )
    producer_id_expiration_check_interval_ms: int = _key(
        ms(), "600000", "Time between two checks for expired producer state."
    )
    metrics_replicas_enable: bool = _key(
        boolean,
        "true",
        "False: the metrics have no series for each partition, for brokers with many of them.",
        dynamic=True,
    )

    @property
    def inter_broker_listener(self) -> Listener:
        """The listener that the controller and other brokers dial."""
        return next(li for li in self.listeners if li.name == self.inter_broker_listener_name)

    @property
    def kafka_listeners(self) -> tuple[Listener, ...]:
        """The listeners that speak Kafka's protocol."""
        return tuple(each for each in self.listeners if each.protocol is WireProtocol.KAFKA)

    @property
    def controller_target(self) -> str:
        """host:port of the controller."""
        return self.controller_quorum_bootstrap_servers[0].target

    @property
    def topic_defaults(self) -> TopicConfig:
        """The values that apply to a topic which sets nothing itself."""
        return TopicConfig(
            **{
                key.name.replace(".", "_"): getattr(self, key.default_from.replace(".", "_"))
                for key in TOPIC_KEYS.values()
                if key.default_from in BROKER_KEYS
            }
        )

    def altered(self, entries: Mapping[str, str]) -> BrokerConfig:
        """This configuration with the values that were altered at run time.

        The controller has checked the entries. An entry that this build cannot use leaves its key
        unchanged.
        """
        values = {}
        for name, value in entries.items():
            key = BROKER_KEYS.get(name)
            if key is not None and key.dynamic:
                with contextlib.suppress(ValueError):
                    values[name.replace(".", "_")] = key.parse(value)
        return dataclasses.replace(self, **values)

    def advertised(self, name: str) -> Listener:
        """The address that clients and brokers get for this listener."""
        for listener in (*self.advertised_listeners, *self.listeners):
            if listener.name == name:
                return listener
        raise AssertionError(f"no listener {name!r} in {self.listeners}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(ServerConfig):
    """The controller's configuration."""

    broker_session_timeout_ms: int = _key(
        ms(), "9000", "Time without a heartbeat after which a broker is fenced."
    )
    num_partitions: int = _key(integer(1, INT32_MAX), "1", "Partitions of a topic by default.")
    default_replication_factor: int = _key(
        integer(1, 32767),
        "3",
        "Replicas of each partition by default. `strandline up -n N` sets no more than N.",
    )
    min_insync_replicas: int = _key(
        integer(1, INT32_MAX), "2", "Default of the topics' min.insync.replicas."
    )
    unclean_leader_election_enable: bool = _key(
        boolean, "false", "Default of the topics' unclean.leader.election.enable."
    )
    auto_leader_rebalance_enable: bool = _key(
        boolean, "true", "True: leaders return to their preferred replicas automatically."
    )
    leader_imbalance_check_interval_seconds: int = _key(
        integer(1, INT32_MAX, "seconds"),
        "300",
        "Time between two checks of the leaders; they move only if no broker was fenced or joined"
        " within a session.",
    )
    leader_imbalance_per_broker_percentage: int = _key(
        integer(0, 100),
        "10",
        "Percentage of a broker's preferred partitions that others may lead; above it, leaders"
        " return.",
    )
    offsets_topic_num_partitions: int = _key(
        integer(1, 10_000),
        "50",
        "Partitions of __consumer_offsets. The number determines each group's coordinator, so it"
        " never changes once the topic exists.",
    )
    offsets_topic_replication_factor: int = _key(
        integer(1, 32767),
        "3",
        "Replicas of each partition of __consumer_offsets. The topic is created, and groups start,"
        " once so many brokers live. `strandline up -n N` sets no more than N.",
    )
    offsets_topic_segment_bytes: int = _key(
        byte_count(14), str(100 << 20), "Segment size of __consumer_offsets, set at its creation."
    )
    transaction_state_log_num_partitions: int = _key(
        integer(1, 10_000),
        "50",
        "Partitions of __transaction_state. The number determines the coordinator of each"
        " transactional id, so it never changes once the topic exists.",
    )
    transaction_state_log_replication_factor: int = _key(
        integer(1, 32767),
        "3",
        "Replicas of each partition of __transaction_state. The topic is created, and transactions"
        " start, once so many brokers live. `strandline up -n N` sets no more than N.",
    )
    transaction_state_log_min_isr: int = _key(
        integer(1, 32767),
        "2",
        "min.insync.replicas of __transaction_state, set at its creation; at most its replicas.",
    )
    transaction_state_log_segment_bytes: int = _key(
        byte_count(14), str(100 << 20), "Segment size of __transaction_state, set at its creation."
    )
    cluster_id: str = _key(text, "", "The cluster's id; empty: generated at the first start.")
    metadata_log_max_record_bytes_between_snapshots: int = _key(
        integer(1, INT64_MAX, "bytes"),
        str(2 << 20),
        "Bytes of decisions after which the controller writes a new snapshot.",
    )
    metadata_log_max_snapshot_interval_ms: int = _key(
        ms(0),
        "3600000",
        "Age at which a snapshot with later decisions is replaced; 0: never.",
    )


_TOPIC_DEFAULTS: Final = frozenset(key.default_from for key in TOPIC_KEYS.values())
"""Keys that are defaults of topic keys. Each can be altered at run time, as the topic's key can."""


def keys_of(config_type: type[ServerConfig]) -> dict[str, Key]:
    """Every key of one kind of server, in the order of declaration."""
    return {
        name: Key(
            name,
            f.metadata["parse"],
            f.metadata["default"],
            f.metadata["doc"],
            f.metadata["dynamic"] or name in _TOPIC_DEFAULTS,
        )
        for f in dataclasses.fields(config_type)
        if "parse" in f.metadata
        for name in (f.name.replace("_", "."),)
    }


BROKER_KEYS: Final = keys_of(BrokerConfig)
CONTROLLER_KEYS: Final = keys_of(ControllerConfig)


def dynamic_parsers() -> dict[str, Callable[[str], Any]]:
    """Each key that may be altered at run time, with its parser."""
    keys = (*BROKER_KEYS.values(), *CONTROLLER_KEYS.values())
    return {key.name: key.parse for key in keys if key.dynamic}


def read_only_keys() -> dict[str, str]:
    """Each key that needs a restart, with the server to restart, in words."""
    controller = {key.name: "the controller" for key in CONTROLLER_KEYS.values() if not key.dynamic}
    broker = {key.name: "the broker" for key in BROKER_KEYS.values() if not key.dynamic}
    return controller | broker

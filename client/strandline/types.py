"""The values that the library's calls take and return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import TypeVar  # typeshed has it, wherever types are checked

    Key = TypeVar("Key", default=bytes)
    Value = TypeVar("Value", default=bytes)
else:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")

Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values that a record carries beside its key and value."""

HeadersLike = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]
"""Headers as the calls of a producer take them: any iterable of (name, value) pairs, or a mapping.

The client reads an iterator once, at the call.
"""


IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]
"""The records that a consumer reads: all committed to replicas, or those of no open or aborted
transaction.
"""


class TopicPartition(NamedTuple):
    """A partition of a topic, by the topic's name."""

    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """The place of an acknowledged record.

    `offset` is -1 with acks=0, and if the broker no longer knows the offset.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's topic and partition as one value."""
        return TopicPartition(self.topic, self.partition)


OnDelivery = Callable[[Exception | None, RecordMetadata | None], object]
"""A callback of `send`: the client calls it with (error, None) or with (None, metadata)."""


class ConsumerRecord(NamedTuple, Generic[Key, Value]):
    """A record as the consumer reads it; `timestamp` in milliseconds since the epoch.

    `key` and `value` are bytes, or of the types that the consumer's deserializers return.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Key | None
    value: Value | None
    headers: Headers
    leader_epoch: int
    timestamp_type: int = 0
    """0: the producer set the timestamp; 1: the leader set it at the append (LogAppendTime)."""


class OffsetAndTimestamp(NamedTuple):
    """A record found by its timestamp (ms since the epoch)."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Record(Generic[Key, Value]):
    """A record for `send_many`, if (key, value) is not enough."""

    value: Value | None = None
    key: Key | None = None
    headers: HeadersLike = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Consecutive acknowledged records of one partition: offsets from `start` up to, not
    including, `end`.

    `start` and `end` are -1 with acks=0, and if the broker no longer knew the offsets of a batch
    that was sent twice.
    """

    topic: str
    partition: int
    start: int
    end: int
    count: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SendManyResult:
    """The result of all records of a `send_many`: records = acknowledged + failed + unknown."""

    records: int
    acknowledged: int
    failed: int
    """Number of records that are certainly not in the log."""
    unknown: int
    """Number of records that may be in the log."""
    ranges: tuple[OffsetRange, ...]
    """Acknowledged records, in the order of acknowledgement; neighbouring batches are merged."""
    errors: tuple[Exception, ...] = ()
    """One error for each batch that was not acknowledged."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 takes the number from the controller's configuration."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignment: Sequence[Sequence[int]] | None = None
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that the controller has created."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker and its address for clients."""

    id: int
    host: str
    port: int
    rack: str = ""

    @property
    def address(self) -> str:
        """Host and port as `host:port`, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """Leader, replicas and in-sync replicas of one partition."""

    partition: int
    leader: int
    """Broker id of the leader; -1 if the partition has no leader at the moment."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int
    offline_conditions: tuple[str, ...] = ()
    """The reason for each of `offline_replicas`: fenced, out-of-service, missing, damaged,
    truncation-refused or disk-full.
    """


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class RefusedTruncation:
    """A replica that has stopped, because its leader asked it to truncate committed records."""

    topic_id: bytes
    partition: int
    leader: int
    """The broker whose log diverged from the replica's log in `leader_epoch`."""
    leader_epoch: int
    offset: int
    """The end offset that the truncation would have left."""
    high_watermark: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker as the controller knows it."""

    id: int
    incarnation_id: str
    broker_epoch: int
    state: str
    pid: int
    listeners: tuple[tuple[str, str, int], ...]
    """(listener name, host, port)."""
    rack: str
    version: str
    """Version of the release, such as 0.1.0."""
    last_heard_ms: int
    decommissioning: bool = False
    """True if the broker is to leave the cluster and takes no new replicas."""
    refused_truncations: tuple[RefusedTruncation, ...] = ()
    full_log_dirs: tuple[str, ...] = ()
    """Data directories that refuse writes because their disk is full."""
    lacks_descriptors: bool = False
    """True if the broker has no file descriptors left; its replicas then take no records."""
    build: str = ""
    """The build that the broker runs, or ran last: version and commit, 0.1.0+7540e83e8f2c.

    An old broker that does not report its build has the version alone.
    """
    kafka_listeners: frozenset[str] = frozenset()
    """Names of the listeners that speak Kafka's protocol; the others speak gRPC."""


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    """The active controller."""

    id: int
    pid: int
    host: str
    port: int
    state: str
    controller_epoch: int
    metadata_offset: int
    store_id: str
    version: str
    """Version of the release, such as 0.1.0."""
    build: str = ""
    """The build that the controller runs: version and commit, 0.1.0+7540e83e8f2c."""


@dataclass(frozen=True, slots=True)
class LossInfo:
    """An election of a replica that was not known to be in sync, and the losses that replicas
    have reported since.
    """

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    leader: int
    """Broker id of the elected replica."""
    elected_uncleanly: bool
    """False if a replica truncated committed records without such an election."""
    start: int
    end: int
    """Offsets from `start` on, below `end`, are gone or hold other records; -1: none known."""
    acknowledged: int
    """Least number of committed records among the lost ones."""
    brokers: tuple[int, ...]
    """Brokers that reported the loss."""
    possibly_from: int | None = None
    """First offset from which more acknowledged records may be lost; no replica is left to tell.

    None: there was no such election, and nothing beyond `end` is lost.
    """


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as the controller knows it: controller, brokers and losses."""

    cluster_id: str
    controller: ControllerInfo
    brokers: tuple[BrokerInfo, ...]
    losses: tuple[LossInfo, ...] = ()
    """Losses, oldest first. Beyond 1000, elections of one partition are merged into one entry."""


@dataclass(frozen=True, slots=True)
class FollowerInfo:
    """One follower, as its leader sees it."""

    broker: int
    log_end_offset: int
    last_caught_up_ms: int
    in_maximal_isr: bool
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica, as the broker that holds it describes it."""

    topic: str
    topic_id: bytes
    partition: int
    broker: int
    role: str
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    durable_offset: int
    maximal_isr: tuple[int, ...]
    followers: tuple[FollowerInfo, ...]
    size_bytes: int
    error: Exception | None


class ConfigSource(IntEnum):
    """The source of a configuration value; a lower number overrides a higher one."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    """The topic's own configuration."""
    DYNAMIC_BROKER_CONFIG = 2
    """Altered at run time for the broker."""
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    """Altered at run time for all brokers."""
    STATIC_BROKER_CONFIG = 4
    """The server's file, environment or flags."""
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8
    """The consumer group's own configuration."""


class ConfigSynonym(NamedTuple):
    """A key's value in one source: retention.ms of a topic is log.retention.ms of a broker."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of one configuration key, with its source."""

    name: str
    value: str
    source: ConfigSource
    read_only: bool
    """True if the key cannot be altered at run time."""
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()
    """All sources that give the key a value, the strongest first."""


class AlterConfigOpType(IntEnum):
    """The change to a key. APPEND and SUBTRACT are for keys whose values are lists."""

    SET = 0
    DELETE = 1
    """Removes the value, so that the default applies."""
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change for `Admin.incremental_alter_configs`; a DELETE needs no value."""

    name: str
    value: str | None = None
    operation: AlterConfigOpType = AlterConfigOpType.SET


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The total number of partitions a topic is to have, existing ones included."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None
    """Replicas of each new partition, preferred leader first; None: the controller chooses."""


class ElectionType(IntEnum):
    """The replica that `Admin.elect_leaders` makes the leader."""

    PREFERRED = 0
    """The first of the partition's replicas."""
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The outcome of an election for one partition."""

    partition: TopicPartition
    leader: int
    """Broker id of the leader after the election; -1 if there is none."""
    error: Exception | None
    """The reason why the leader did not change; ElectionNotNeeded if the right one led already."""


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    """The controller's answer about one partition's reassignment, or about its cancel.

    `error` is None if the controller accepted it.
    """

    partition: TopicPartition
    error: Exception | None


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment under way."""

    replicas: tuple[int, ...]
    """The target replicas, then the replicas to be removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    original: tuple[int, ...]
    """The replicas that a cancel restores."""
    isr: tuple[int, ...]
    leader: int
    """Broker id of the leader; -1 if the partition has none."""

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that remain once the reassignment is complete."""
        return tuple(b for b in self.replicas if b not in self.removing)


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The range of offsets that consumers can read in one partition."""

    partition: TopicPartition
    start: int
    end: int
    leader_epoch: int

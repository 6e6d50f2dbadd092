"""The values that the library's calls take and give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values that travel beside a record's key and value."""


class TopicPartition(NamedTuple):
    """A partition of a topic, by the name that people use."""

    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is. `offset` is -1 where the broker no longer knows it, and
    with acks=0.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


OnDelivery = Callable[[Exception | None, RecordMetadata | None], object]
"""What `send` takes to be called with the record's fate: (error, None) or (None, metadata)."""


class ConsumerRecord(NamedTuple):
    """A record as it was read; `timestamp` in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int
    timestamp_type: int = 0
    """0: the timestamp is the producer's; 1: the leader's, of the append (LogAppendTime)."""


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be sent with `send_many`, where (key, value) is not enough."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Consecutive acknowledged records of one partition: offsets from `start` up to, not
    including, `end`.

    `start` and `end` are -1 where the broker no longer knew the offsets of a batch sent twice, and
    with acks=0.
    """

    topic: str
    partition: int
    start: int
    end: int
    count: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SendManyResult:
    """One answer for all records of a `send_many`: records = acknowledged + failed + unknown."""

    records: int
    acknowledged: int
    failed: int
    """Certainly not in the log."""
    unknown: int
    """Perhaps in the log, perhaps not."""
    ranges: tuple[OffsetRange, ...]
    """What was acknowledged; neighbouring batches are merged, in the order of acknowledgement."""
    errors: tuple[Exception, ...] = ()
    """One for each batch that was not acknowledged."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 leaves the number to the controller's configuration."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignment: Sequence[Sequence[int]] | None = None
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    host: str
    port: int
    rack: str = ""

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    partition: int
    leader: int
    """-1: no leader at the moment."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int
    offline_conditions: tuple[str, ...] = ()
    """Why, for each of `offline_replicas`: fenced, out-of-service, missing, damaged,
    truncation-refused or disk-full.
    """


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class RefusedTruncation:
    """A replica was to cut what it knows to be committed, and has stopped instead."""

    topic_id: bytes
    partition: int
    leader: int
    """Whose history has parted from the replica's, in that epoch."""
    leader_epoch: int
    offset: int
    """Where the log was to end."""
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
    """Of its release: 0.1.0."""
    last_heard_ms: int
    decommissioning: bool = False
    """It is to leave the cluster, and takes no new replicas."""
    refused_truncations: tuple[RefusedTruncation, ...] = ()
    full_log_dirs: tuple[str, ...] = ()
    """Data directories that refuse writes for want of room."""
    lacks_descriptors: bool = False
    """It has no file descriptors left, so that its replicas take no more records."""
    build: str = ""
    """Which build it runs, or ran last: version and commit, 0.1.0+7540e83e8f2c. A broker of before
    builds had a name gives its version alone.
    """


@dataclass(frozen=True, slots=True)
class ControllerInfo:
    id: int
    pid: int
    host: str
    port: int
    state: str
    controller_epoch: int
    metadata_offset: int
    store_id: str
    version: str
    """Of its release: 0.1.0."""
    build: str = ""
    """Which build it runs: version and commit, 0.1.0+7540e83e8f2c."""


@dataclass(frozen=True, slots=True)
class LossInfo:
    """An election of a replica that was not known to be in sync, and what it has cost as far as
    replicas have said.
    """

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    leader: int
    """Who was elected."""
    elected_uncleanly: bool
    """False: a replica has cut records that it knew to be committed without such an election."""
    start: int
    end: int
    """Offsets from `start` on, below `end`, are gone or hold other records; -1: none are known."""
    acknowledged: int
    """How many of them were committed, at least."""
    brokers: tuple[int, ...]
    """Who has said so."""
    possibly_from: int | None = None
    """From this offset on more may be lost that was acknowledged: what nobody holds any more nobody
    can tell. None: without such an election nothing beyond `end` is.
    """


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: ControllerInfo
    brokers: tuple[BrokerInfo, ...]
    losses: tuple[LossInfo, ...] = ()
    """Oldest first. Beyond 1000 several elections of one partition are told in one."""


@dataclass(frozen=True, slots=True)
class FollowerInfo:
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
    """Where a configuration value comes from; the lower the number, the stronger the source."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    """The topic's own."""
    DYNAMIC_BROKER_CONFIG = 2
    """Altered at run time for the broker."""
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    """Altered at run time for all brokers."""
    STATIC_BROKER_CONFIG = 4
    """The server's file, environment or flags."""
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8
    """The consumer group's own."""


class ConfigSynonym(NamedTuple):
    """What a weaker source would give: a topic's retention.ms is log.retention.ms of a broker."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigValue:
    name: str
    value: str
    source: ConfigSource
    read_only: bool
    """It cannot be altered at run time."""
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()
    """Every source that gives the key a value, the strongest first."""


class AlterConfigOpType(IntEnum):
    """What is done to a key. APPEND and SUBTRACT are for keys that are lists."""

    SET = 0
    DELETE = 1
    """The default counts again."""
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key of `Admin.incremental_alter_configs`; no value is needed for a DELETE."""

    name: str
    value: str | None = None
    operation: AlterConfigOpType = AlterConfigOpType.SET


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have, those that it has included."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None
    """Replicas of each new partition, the preferred leader first; None: the controller's choice."""


class ElectionType(IntEnum):
    """Which replica `Admin.elect_leaders` makes the leader."""

    PREFERRED = 0
    """The first of the partition's replicas."""
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """What became of one partition in an election."""

    partition: TopicPartition
    leader: int
    """Who leads it now; -1: nobody."""
    error: Exception | None
    """Why the leader was not changed; ElectionNotNeeded if the right one led already."""


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    """Whether a reassignment of one partition, or its cancel, was accepted."""

    partition: TopicPartition
    error: Exception | None


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment under way."""

    replicas: tuple[int, ...]
    """The target, then those that go."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    original: tuple[int, ...]
    """What a cancel goes back to."""
    isr: tuple[int, ...]
    leader: int
    """-1: nobody."""

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Start and end of what consumers can read of one partition."""

    partition: TopicPartition
    start: int
    end: int
    leader_epoch: int

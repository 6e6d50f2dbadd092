"""The content of a frame as plain data: parts of entries that have changed, and events.

A part is replaced as a whole; None says that it has not changed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_broker.core.groups.commands import GroupDescription
    from strandline_broker.core.groups.records.offset_records import OffsetCommitValue
    from strandline_broker.core.replication.replica_condition import ReplicaCondition
    from strandline_broker.hosts.common.events import Event


class ServerKind(enum.Enum):
    BROKER = enum.auto()
    CONTROLLER = enum.auto()


class Identity(NamedTuple):
    """The process that is watched."""

    cluster_id: str
    kind: ServerKind
    node_id: int
    incarnation_id: str


# A broker's replicas


class Offsets(NamedTuple):
    log_start: int
    log_end: int
    durable: int
    high_watermark: int
    size_bytes: int


class RoleKind(enum.Enum):
    LEADER = enum.auto()
    FOLLOWER = enum.auto()
    NONE = enum.auto()
    OFFLINE = enum.auto()


class RolePart(NamedTuple):
    kind: RoleKind
    leader_epoch: int | None
    partition_epoch: int | None
    leader_id: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    proposed_isr: Sequence[int] | None
    elr: Sequence[int]
    min_insync_replicas: int | None
    recovering: bool
    epoch_start: int | None


class EpochsPart(NamedTuple):
    entries: Sequence[tuple[int, int]]
    older: int


class FollowerPart(NamedTuple):
    broker_id: int
    fetch_offset: int | None
    log_start: int | None
    broker_epoch: int | None
    last_caught_up_ms: int | None
    in_maximal_isr: bool


class WaitKind(enum.Enum):
    PRODUCE = enum.auto()
    FLUSH = enum.auto()
    DELETE_RECORDS = enum.auto()
    FETCH = enum.auto()
    GROUP = enum.auto()


class WaitersPart(NamedTuple):
    first: Sequence[tuple[WaitKind, int, int]]
    """(kind, offset, number of callers)."""
    total: int


class CarePart(NamedTuple):
    condition: ReplicaCondition | None
    why: str
    healing: bool
    refused_truncation_to: int | None


@dataclass(slots=True)
class ReplicaChange:
    topic: str
    topic_id: bytes
    partition: int
    offsets: Offsets | None = None
    standing: RolePart | None = None
    epochs: EpochsPart | None = None
    followers: Sequence[FollowerPart] | None = None
    waiters: WaitersPart | None = None
    care: CarePart | None = None


class ReplicaName(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int


class DirectoryState(enum.Enum):
    OK = enum.auto()
    FULL = enum.auto()
    FAILED = enum.auto()


class Directory(NamedTuple):
    path: str
    state: DirectoryState
    why: str


class Traffic(NamedTuple):
    """Totals of a broker since the start of its process."""

    produced_bytes: int
    produced_records: int
    fetched_bytes: int
    replicated_bytes: int


class BrokerPart(NamedTuple):
    state: str
    broker_epoch: int | None
    last_heartbeat_ms: int | None
    controller_epoch: int | None
    metadata_offset: int | None
    directories: tuple[Directory, ...]
    traffic: Traffic
    watchers: int


# Groups


@dataclass(slots=True)
class GroupChange:
    group_id: str
    coordinator_partition: int
    coordinator_epoch: int
    status: GroupDescription | None = None
    topics: dict[bytes, str] = field(default_factory=dict)
    """The names of the topics in `status`, as far as they are known."""
    commits: list[tuple[str, int, OffsetCommitValue]] = field(default_factory=list)
    removed_commits: list[tuple[str, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of entries of the change."""
        members = 0 if self.status is None else len(self.status.members)
        return 1 + members + len(self.commits) + len(self.removed_commits)


# The controller


class ControllerPart(NamedTuple):
    controller_epoch: int
    metadata_offset: int
    watchers: int


class RegistrationPart(NamedTuple):
    incarnation_id: str
    broker_epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    decommissioning: bool
    rack: str
    version: str
    listeners: tuple[Endpoint, ...]
    offline_replicas: int


class SessionPart(NamedTuple):
    last_heartbeat_ms: int | None
    ends_ms: int | None
    applied_offset: int | None


@dataclass(slots=True)
class BrokerChange:
    broker_id: int
    registration: RegistrationPart | None = None
    session: SessionPart | None = None


class PartitionChange(NamedTuple):
    topic: str
    registration: PartitionRegistration
    min_insync_replicas: int


class TopicName(NamedTuple):
    topic: str
    topic_id: bytes


@dataclass(slots=True)
class Content:
    """The content of one frame; `size` is the number of its entries."""

    size: int = 0
    events: Sequence[Event] = ()
    broker: BrokerPart | None = None
    replicas: list[ReplicaChange] = field(default_factory=list)
    removed_replicas: list[ReplicaName] = field(default_factory=list)
    groups: list[GroupChange] = field(default_factory=list)
    removed_groups: list[str] = field(default_factory=list)
    controller: ControllerPart | None = None
    brokers: list[BrokerChange] = field(default_factory=list)
    removed_brokers: list[int] = field(default_factory=list)
    partitions: list[PartitionChange] = field(default_factory=list)
    removed_topics: list[TopicName] = field(default_factory=list)


class Frame(NamedTuple):
    identity: Identity
    sequence: int
    time_ms: int
    keyframe: bool
    continues: bool
    events_lost: int
    content: Content

"""A controller's identity, and the configuration that its decisions use."""

from dataclasses import dataclass

from strandline_broker.core.compatibility import UNNAMED, Server
from strandline_broker.core.controller.partitions.balance import BalanceSettings
from strandline_broker.core.controller.topics.configs import ServerKeys
from strandline_broker.core.controller.topics.internal_topics import InternalTopic
from strandline_broker.core.controller.topics.topics import TopicDefaults
from strandline_proto.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Identity:
    node_id: BrokerId
    cluster_id: str
    store_id: str


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """The limits that trigger a new snapshot: a number of log bytes that no snapshot covers, or the
    age of the last snapshot with any such bytes (0: at any age).
    """

    max_bytes: int = 2 << 20
    interval_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    session_ms: int
    min_insync_replicas: int
    topic_defaults: TopicDefaults
    server_keys: ServerKeys
    balance: BalanceSettings
    snapshots: SnapshotLimits = SnapshotLimits()
    unclean_election: bool = False
    internal_topics: tuple[InternalTopic, ...] = ()
    """The coordinators' topics, in the order of their creation."""
    here: Server = UNNAMED

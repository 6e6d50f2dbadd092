"""A broker's calls to its controller as plain data, and the protocol that carries them.

`rpc/cluster/controller_link.py` carries them over the wire. A call that fails raises its
transport's error, which `failure` puts into words; its outcome is unknown. A refusal of the
controller stands in the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import grpc

    from strandline_broker.core.registration import Registration
    from strandline_broker.core.replication.isr_proposal import ProposeIsr
    from strandline_broker.core.replication.partition_state import IsrAnswer
    from strandline_broker.core.replication.replica_condition import (
        RefusedTruncation,
        ReplicaCondition,
    )
    from strandline_proto.errors import WireError
    from strandline_proto.ids import (
        BrokerEpoch,
        BrokerId,
        MetadataOffset,
        TopicId,
    )

    Key = tuple[TopicId, int]
    OfflineReplicas = Mapping[tuple[bytes, int], ReplicaCondition]
    """By (topic id, partition)."""


@dataclass(frozen=True, slots=True)
class Registered:
    broker_epoch: BrokerEpoch
    cluster_id: str
    store_id: str
    error: WireError | None = None
    session_s: float = 0.0
    """The session timeout; 0: the controller does not report it."""
    version: str = ""
    """The version of the controller's build."""
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaLoss:
    """Records that one replica has truncated and lost. Two equal ones are two reports."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    start: int
    end: int
    committed: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    number: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    current_metadata_offset: MetadataOffset
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: Sequence[str]
    full_log_dirs: Sequence[str]
    lacks_descriptors: bool
    stray_dirs: Sequence[str]
    losses: Sequence[ReplicaLoss]
    refused_truncations: Sequence[RefusedTruncation]
    offline_replicas: OfflineReplicas
    applied_partitions: int


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    is_fenced: bool
    should_shut_down: bool
    metadata_end_offset: int
    error: WireError | None = None


@dataclass(frozen=True, slots=True)
class AlterPartitionAnswer:
    partitions: Mapping[Key, IsrAnswer | WireError] = field(default_factory=dict)
    error: WireError | None = None
    """The error of the whole request."""


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    start: int
    length: int
    error: WireError | None = None


class HeartbeatCall(Protocol):
    async def write(self, heartbeat: Heartbeat) -> None: ...

    async def read(self) -> HeartbeatAnswer | None:
        """The next answer; None once the controller has ended the stream."""
        ...

    def cancel(self) -> None: ...


class ControllerCalls(Protocol):
    @property
    def target(self) -> str:
        """The controller's address."""
        ...

    def failure(self, error: grpc.RpcError) -> WireError: ...

    async def register(self, registration: Registration, *, timeout_s: float) -> Registered: ...

    def heartbeats(self) -> HeartbeatCall: ...

    async def alter_partitions(
        self,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        proposals: Mapping[Key, ProposeIsr],
        *,
        timeout_s: float,
    ) -> AlterPartitionAnswer: ...

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, *, timeout_s: float
    ) -> ProducerIdBlock: ...

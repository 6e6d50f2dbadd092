"""The messages of the hot calls, as plain data: Produce, Fetch and FetchRange.

These are the messages of produce.proto and fetch.proto, with their fields' names. One difference:
partitions are in one sequence, each with its number and its topic's id. `hot_encode` writes them
and `hot_decode` reads them. Fields that no code here uses are omitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_proto.decompression import Buffer


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str = ""


class RecordError(NamedTuple):
    batch_index: int
    message: str


class ProduceData(NamedTuple):
    topic_id: bytes
    partition: int
    records: Buffer
    current_leader_epoch: int | None = None


class ProduceRequest(NamedTuple):
    correlation_id: int = 0
    acks: int = 0
    timeout_ms: int = 0
    partitions: Sequence[ProduceData] = ()
    transactional_id: str | None = None


@dataclass(slots=True)
class ProduceResult:
    topic_id: bytes
    partition: int
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = 0
    log_start_offset: int = 0
    record_errors: Sequence[RecordError] = ()
    error_message: str = ""
    current_leader: CurrentLeader | None = None
    appended: bool = False
    leader_epoch: int = 0


@dataclass(slots=True)
class ProduceResponse:
    correlation_id: int = 0
    partitions: list[ProduceResult] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


class ReplicaState(NamedTuple):
    replica_id: int
    replica_epoch: int


class FetchPartition(NamedTuple):
    topic_id: bytes
    partition: int
    current_leader_epoch: int = 0
    fetch_offset: int = 0
    last_fetched_epoch: int = 0
    log_start_offset: int = 0
    partition_max_bytes: int = 0


class FetchRequest(NamedTuple):
    correlation_id: int = 0
    cluster_id: str = ""
    replica_state: ReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 0
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = 0
    partitions: Sequence[FetchPartition] = ()
    forgotten: Sequence[tuple[bytes, int]] = ()
    """Topic ids and partitions."""


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class FetchResult(NamedTuple):
    topic_id: bytes
    partition: int
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = 0
    log_start_offset: int = 0
    diverging_epoch: EpochEndOffset | None = None
    current_leader: CurrentLeader | None = None
    preferred_read_replica: int = 0
    records: Buffer = b""
    error_message: str = ""
    aborted_transactions: Sequence[AbortedTransaction] = ()


class FetchResponse(NamedTuple):
    correlation_id: int = 0
    error_code: int = 0
    session_id: int = 0
    partitions: Sequence[FetchResult] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
    error_message: str = ""


class FetchRangeRequest(NamedTuple):
    topic_id: bytes = b""
    partition: int = 0
    current_leader_epoch: int = 0
    start_offset: int = 0
    stop_offset: int = 0
    isolation_level: int = 0
    max_message_bytes: int = 0


class FetchRangeResponse(NamedTuple):
    error_code: int = 0
    error_message: str = ""
    base_offset: int = 0
    next_offset: int = 0
    leader_epoch: int = 0
    records: Buffer = b""
    log_start_offset: int = 0
    high_watermark: int = 0
    current_leader: CurrentLeader | None = None
    last_stable_offset: int = 0
    aborted_transactions: Sequence[AbortedTransaction] = ()

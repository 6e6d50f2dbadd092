"""The description of the replicas that a broker hosts: plain values of one moment for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_broker.hosts.replica.truncations import refusal_text
from strandline_broker.storage.segment.damaged_ranges import refusal
from strandline_proto.errors import KafkaStorageError, WireError
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.partition import Partition


@dataclass(frozen=True, slots=True)
class FollowerInfo:
    broker_id: int
    broker_epoch: int
    log_end_offset: int
    """The follower's log end; -1 until its first fetch in this leader epoch."""
    last_caught_up_ms: int
    """Milliseconds since the follower was last caught up; -1 if never in this epoch."""
    in_maximal_isr: bool


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    topic: str
    topic_id: bytes
    partition: int
    role: str
    """The role: leader, follower, or offline."""
    leader_epoch: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1
    durable_offset: int = -1
    size_bytes: int = 0
    maximal_isr: tuple[int, ...] = ()
    followers: tuple[FollowerInfo, ...] = ()
    error: WireError | None = None


def describe_replicas(
    replicas: ReplicaManager,
    metadata: MetadataCache,
    wanted: Iterable[tuple[TopicId, Iterable[int]]],
    *,
    now_ms: int,
) -> Iterator[ReplicaInfo]:
    """The replicas that `wanted` names (no partitions: all of the topic); no topics: every replica
    here. Each is described at the moment when it is taken.
    """
    choice: dict[bytes, frozenset[int]] = {
        topic_id: frozenset(partitions) for topic_id, partitions in wanted
    }

    def is_wanted(topic_id: bytes, partition: int) -> bool:
        if not choice:
            return True
        partitions = choice.get(topic_id)
        return partitions is not None and (not partitions or partition in partitions)

    hosted, refused_here = list(replicas.partitions.items()), list(replicas.logs.refused.items())
    for key, partition in hosted:
        if is_wanted(*key):
            yield _describe(partition, now_ms)
    for (topic_id, index), refused in refused_here:
        if is_wanted(topic_id, index):
            name = _name_of(metadata, topic_id)
            error = KafkaStorageError(refused.why)
            yield ReplicaInfo(name, topic_id, index, "offline", error=error)


def _name_of(metadata: MetadataCache, topic_id: bytes) -> str:
    topic = metadata.view.topic(TopicId(topic_id))
    return "" if topic is None else topic.name


def trouble_of(partition: Partition) -> str | None:
    """The reason why the replica serves nothing, or not all of its log, in words; None: neither."""
    why = partition.unusable
    if why is not None:
        return why
    if partition.refused is not None:
        return refusal_text(partition)
    log = partition.log
    damaged = log.damaged_ranges.above(log.log_start_offset)
    return "; ".join(refusal(partition.name, each) for each in damaged) or None


def _describe(partition: Partition, now_ms: int) -> ReplicaInfo:
    log, leader = partition.log, partition.leader
    trouble = trouble_of(partition)
    if partition.unusable is not None:
        role = "offline"
    elif leader is not None:
        role = "leader"
    else:
        role = "follower"
    followers: tuple[FollowerInfo, ...] = ()
    maximal: tuple[int, ...] = ()
    if leader is not None:
        maximal = tuple(sorted(m.broker_id for m in leader.maximal_isr))
        followers = tuple(
            FollowerInfo(
                broker_id=broker_id,
                broker_epoch=f.broker_epoch,
                log_end_offset=-1 if f.log_end_offset is None else f.log_end_offset,
                last_caught_up_ms=-1 if f.caught_up_ms is None else now_ms - f.caught_up_ms,
                in_maximal_isr=broker_id in maximal,
            )
            for broker_id, f in sorted(leader.followers.items())
        )
    return ReplicaInfo(
        topic=log.topic,
        topic_id=log.topic_id,
        partition=log.partition,
        role=role,
        leader_epoch=partition.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=partition.high_watermark,
        durable_offset=log.durable_offset,
        size_bytes=log.size_bytes,
        maximal_isr=maximal,
        followers=followers,
        error=None if trouble is None else KafkaStorageError(trouble),
    )

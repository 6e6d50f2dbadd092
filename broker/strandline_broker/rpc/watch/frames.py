"""Frames on the wire: entries of topics side by side, so that a name is sent once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.watch.content import (
    DirectoryState,
    RoleKind,
    ServerKind,
    WaitKind,
)
from strandline_broker.rpc.cluster.replica_conditions import condition_to_wire
from strandline_broker.rpc.watch.events import event_to_wire
from strandline_proto.ids import NO_LEADER
from strandline_proto.v1 import common_pb2, watch_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_broker.core.groups.commands import DescribedMember, GroupDescription
    from strandline_broker.hosts.watch.content import (
        BrokerChange,
        BrokerPart,
        Content,
        Frame,
        GroupChange,
        PartitionChange,
        ReplicaChange,
        RolePart,
    )

_SERVERS: Final = {
    ServerKind.BROKER: watch_pb2.WATCHED_SERVER_BROKER,
    ServerKind.CONTROLLER: watch_pb2.WATCHED_SERVER_CONTROLLER,
}
_ROLES: Final = {
    kind: watch_pb2.WatchedRole.Value(f"WATCHED_ROLE_{kind.name}") for kind in RoleKind
}
_WAITS: Final = {kind: watch_pb2.WaiterKind.Value(f"WAITER_KIND_{kind.name}") for kind in WaitKind}
_DIRECTORIES: Final = {
    state: watch_pb2.WatchedDirectoryState.Value(f"WATCHED_DIRECTORY_STATE_{state.name}")
    for state in DirectoryState
}


def frame_to_wire(frame: Frame) -> watch_pb2.WatchResponse:
    known = frame.identity
    wire = watch_pb2.WatchResponse(
        cluster_id=known.cluster_id,
        server=_SERVERS[known.kind],
        node_id=known.node_id,
        incarnation_id=known.incarnation_id,
        sequence=frame.sequence,
        time_ms=frame.time_ms,
        keyframe=frame.keyframe,
        continues=frame.continues,
        events_lost=frame.events_lost,
    )
    if frame.content.size:
        _fill(wire, frame.content)
    return wire


def _fill(wire: watch_pb2.WatchResponse, content: Content) -> None:
    wire.events.extend(event_to_wire(event) for event in content.events)
    if content.broker is not None:
        wire.broker.CopyFrom(_broker(content.broker))
    topics = _Topics(wire.replicas)
    for replica in content.replicas:
        _fill_replica(topics.of(replica.topic, replica.topic_id).replicas.add(), replica)
    removed = _Topics(wire.removed_replicas)
    for name in content.removed_replicas:
        removed.of(name.topic, name.topic_id).replicas.add(partition=name.partition)
    wire.groups.extend(map(_group, content.groups))
    wire.removed_groups.extend(content.removed_groups)
    if content.controller is not None:
        wire.controller.CopyFrom(
            watch_pb2.ControllerStatus(
                controller_epoch=content.controller.controller_epoch,
                metadata_offset=content.controller.metadata_offset,
                watchers=content.controller.watchers,
            )
        )
    wire.registered_brokers.extend(map(_registered, content.brokers))
    wire.removed_brokers.extend(content.removed_brokers)
    partitions = _Topics(wire.partitions)
    for change in content.partitions:
        entry = partitions.of(change.topic, change.registration.topic_id)
        entry.partitions.append(_partition(change))
    for topic in content.removed_topics:
        wire.removed_topics.add(topic=topic.topic, topic_id=topic.topic_id)


class _Topics:
    """The entries of a repeated field, one for each topic."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self._by_id: dict[bytes, Any] = {}

    def of(self, topic: str, topic_id: bytes) -> Any:
        entry = self._by_id.get(topic_id)
        if entry is None:
            entry = self._by_id[topic_id] = self._entries.add(topic=topic, topic_id=topic_id)
        return entry


# A broker


def _broker(part: BrokerPart) -> watch_pb2.BrokerStatus:
    return watch_pb2.BrokerStatus(
        state=part.state,
        broker_epoch=part.broker_epoch,
        last_heartbeat_ms=part.last_heartbeat_ms,
        controller_epoch=part.controller_epoch,
        metadata_offset=part.metadata_offset,
        directories=[
            watch_pb2.WatchedDirectory(path=d.path, state=_DIRECTORIES[d.state], why=d.why)
            for d in part.directories
        ],
        **part.traffic._asdict(),
        watchers=part.watchers,
    )


def _fill_replica(wire: watch_pb2.WatchedReplica, change: ReplicaChange) -> None:
    wire.partition = change.partition
    if (offsets := change.offsets) is not None:
        to = wire.offsets
        to.log_start, to.log_end, to.durable, to.high_watermark, to.size_bytes = offsets
        to.SetInParent()  # an empty log has nothing but zeros
    if change.standing is not None:
        wire.role.CopyFrom(_role(change.standing))
    if change.epochs is not None:
        wire.epochs.SetInParent()
        wire.epochs.older = change.epochs.older
        for epoch, start in change.epochs.entries:
            wire.epochs.entries.add(epoch=epoch, start_offset=start)
    if change.followers is not None:
        wire.followers.SetInParent()
        for f in change.followers:
            wire.followers.followers.add(
                broker_id=f.broker_id,
                fetch_offset=f.fetch_offset,
                log_start=f.log_start,
                broker_epoch=f.broker_epoch,
                last_caught_up_ms=f.last_caught_up_ms,
                in_maximal_isr=f.in_maximal_isr,
            )
    if change.waiters is not None:
        wire.waiters.SetInParent()
        wire.waiters.total = change.waiters.total
        for kind, offset, count in change.waiters.first:
            wire.waiters.waiters.add(kind=_WAITS[kind], offset=offset, count=count)
    if (care := change.care) is not None:
        wire.care.CopyFrom(
            watch_pb2.ReplicaCare(
                condition=condition_to_wire(care.condition),
                why=care.why,
                healing=care.healing,
                refused_truncation_to=care.refused_truncation_to,
            )
        )


def _role(part: RolePart) -> watch_pb2.ReplicaRole:
    proposed = part.proposed_isr
    return watch_pb2.ReplicaRole(
        role=_ROLES[part.kind],
        leader_epoch=part.leader_epoch,
        partition_epoch=part.partition_epoch,
        leader_id=part.leader_id,
        replicas=part.replicas,
        isr=part.isr,
        proposed_isr=None if proposed is None else watch_pb2.BrokerIds(ids=proposed),
        elr=part.elr,
        min_insync_replicas=part.min_insync_replicas,
        recovering=part.recovering,
        epoch_start=part.epoch_start,
    )


# Groups


def _group(change: GroupChange) -> watch_pb2.WatchedGroup:
    return watch_pb2.WatchedGroup(
        group_id=change.group_id,
        coordinator_partition=change.coordinator_partition,
        coordinator_epoch=change.coordinator_epoch,
        status=None if change.status is None else _group_status(change.status, change.topics),
        commits=[
            watch_pb2.WatchedCommit(
                topic=topic,
                partition=partition,
                offset=value.offset,
                leader_epoch=None if value.leader_epoch < 0 else value.leader_epoch,
                commit_time_ms=value.commit_timestamp_ms,
            )
            for topic, partition, value in change.commits
        ],
        removed_commits=[
            watch_pb2.RemovedCommit(topic=topic, partition=partition)
            for topic, partition in change.removed_commits
        ],
    )


def _group_status(status: GroupDescription, topics: Mapping[bytes, str]) -> watch_pb2.GroupStatus:
    return watch_pb2.GroupStatus(
        state=status.state,
        type=status.group_type,
        group_epoch=status.group_epoch,
        assignment_epoch=status.assignment_epoch,
        assignor=status.assignor,
        members=[_member(member, topics) for member in status.members],
    )


def _member(member: DescribedMember, topics: Mapping[bytes, str]) -> watch_pb2.WatchedMember:
    return watch_pb2.WatchedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_epoch=member.member_epoch,
        assigned=_assigned(member.assignment.items(), topics),
        target=_assigned(member.target.items(), topics),
    )


def _assigned(
    partitions: Iterable[tuple[bytes, Iterable[int]]], topics: Mapping[bytes, str]
) -> list[watch_pb2.AssignedPartitions]:
    return [
        watch_pb2.AssignedPartitions(
            topic=topics.get(topic_id, ""), topic_id=topic_id, partitions=sorted(each)
        )
        for topic_id, each in sorted(partitions)
    ]


# The controller


def _registered(change: BrokerChange) -> watch_pb2.RegisteredBroker:
    wire = watch_pb2.RegisteredBroker(broker_id=change.broker_id)
    if (known := change.registration) is not None:
        wire.registration.CopyFrom(
            watch_pb2.BrokerRegistrationState(
                incarnation_id=known.incarnation_id,
                broker_epoch=known.broker_epoch,
                fenced=known.fenced,
                in_controlled_shutdown=known.in_controlled_shutdown,
                decommissioning=known.decommissioning,
                rack=known.rack,
                version=known.version,
                listeners=[
                    common_pb2.Endpoint(listener=e.listener, host=e.host, port=e.port)
                    for e in known.listeners
                ],
                offline_replicas=known.offline_replicas,
            )
        )
    if (session := change.session) is not None:
        wire.session.CopyFrom(
            watch_pb2.BrokerSession(
                last_heartbeat_ms=session.last_heartbeat_ms,
                ends_ms=session.ends_ms,
                applied_offset=session.applied_offset,
            )
        )
    return wire


def _partition(change: PartitionChange) -> watch_pb2.WatchedPartition:
    known = change.registration
    return watch_pb2.WatchedPartition(
        partition=known.index,
        leader_id=None if known.leader == NO_LEADER else known.leader,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        replicas=known.replicas,
        isr=known.isr,
        elr=known.elr,
        last_known_elr=known.last_known_elr,
        adding=known.adding,
        removing=known.removing,
        min_insync_replicas=change.min_insync_replicas,
        recovering=known.leader_recovery_state != 0,
    )

"""The parts of one replica: a cheap key that tells whether a part has changed, and the part."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.member.replica_info import trouble_of
from strandline_broker.hosts.watch.content import (
    CarePart,
    EpochsPart,
    FollowerPart,
    RoleKind,
    RolePart,
    WaitersPart,
    WaitKind,
)
from strandline_proto.ids import NO_BROKER_EPOCH, NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.core.replication.replica_condition import ReplicaCondition
    from strandline_broker.hosts.coordination.waiting import CommitWaits
    from strandline_broker.hosts.replica.leading import Leading
    from strandline_broker.hosts.replica.partition import Partition

EPOCHS_MAX: Final = 100
WAITERS_MAX: Final = 32

Key = tuple[Any, ...]


def role_key(partition: Partition, leader: Leader | None) -> Key:
    """Everything that the role part is made of. Most comparisons end at the identity."""
    out = partition.out_of_service or partition.other_history or partition.log.state.unusable
    if leader is None:
        return partition.state, partition.role, out, None, None
    return partition.state, partition.role, out, leader.isr, leader.proposed


def role_part(partition: Partition, leader: Leader | None, key: Key) -> RolePart:
    state, role, out, _, proposed = key
    if out is not None:
        kind = RoleKind.OFFLINE
    elif leader is not None:
        kind = RoleKind.LEADER
    elif role is None or state is None or state.leader == NO_LEADER:
        kind = RoleKind.NONE
    else:
        kind = RoleKind.FOLLOWER
    if state is None:
        return RolePart(kind, None, None, None, (), (), None, (), None, False, None)
    return RolePart(
        kind=kind,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        leader_id=None if state.leader == NO_LEADER else state.leader,
        replicas=state.replicas,
        isr=[m.broker_id for m in (state if leader is None else leader).isr],
        proposed_isr=None if proposed is None else [m.broker_id for m in proposed],
        elr=state.elr,
        min_insync_replicas=state.eff_min_insync,
        recovering=state.recovering,
        epoch_start=None if leader is None else leader.epoch_start,
    )


def epochs_part(table: tuple[Sequence[int], Sequence[int]]) -> EpochsPart:
    entries = list(zip(*table, strict=True))
    older = max(0, len(entries) - EPOCHS_MAX)
    return EpochsPart(entries[older:], older)


def followers_key(leader: Leader) -> Key:
    """The followers without the times, which change with each fetch."""
    return tuple(
        [
            (
                broker_id,
                f.log_end_offset,
                f.log_start_offset,
                f.broker_epoch,
                f.caught_up_ms is None,
            )
            for broker_id, f in leader.followers.items()
        ]
    )


def followers_part(leader: Leader | None, wall_less_monotonic_ms: int) -> list[FollowerPart]:
    if leader is None:
        return []
    maximal = {m.broker_id for m in leader.maximal_isr}
    return [
        FollowerPart(
            broker_id=broker_id,
            fetch_offset=f.log_end_offset,
            log_start=f.log_start_offset,
            broker_epoch=None if f.broker_epoch == NO_BROKER_EPOCH else f.broker_epoch,
            last_caught_up_ms=(
                None if f.caught_up_ms is None else f.caught_up_ms + wall_less_monotonic_ms
            ),
            in_maximal_isr=broker_id in maximal,
        )
        for broker_id, f in sorted(leader.followers.items())
    ]


NO_WAITERS: Final = WaitersPart((), 0)


def waiters_part(
    partition: Partition, leading: Leading, commits: CommitWaits | None
) -> WaitersPart:
    """The waiters; `NO_WAITERS` itself if there are none. `commits`: the callers of the group
    coordinator of this partition.
    """
    committing, flushing = leading.appends.purgatories
    deleting, fetching = leading.deletions.offsets, fetch_offsets(partition, leading)
    grouping = 0 if commits is None else commits.total
    if not (len(committing) or len(flushing) or deleting or fetching or grouping):
        return NO_WAITERS
    first: list[tuple[WaitKind, int, int]] = []
    for kind, offsets in (
        (WaitKind.PRODUCE, committing.first_offsets(WAITERS_MAX)),
        (WaitKind.FLUSH, flushing.first_offsets(WAITERS_MAX)),
        (WaitKind.GROUP, [] if commits is None else commits.first),
        (WaitKind.DELETE_RECORDS, sorted(deleting)),
        (WaitKind.FETCH, sorted(fetching)),
    ):
        first += ((kind, offset, count) for offset, count in Counter(offsets).items())
    total = committing.waiting + flushing.waiting + len(deleting) + len(fetching) + grouping
    return WaitersPart(first[:WAITERS_MAX], total)


def fetch_offsets(partition: Partition, leading: Leading) -> list[int]:
    """The offsets for which fetches of consumers wait. Those of followers are among `followers`."""
    found = [each.position(partition) for each in leading.consumer_listeners if each.is_waiting]
    return [offset for offset in found if offset is not None]


def care_part(
    partition: Partition, condition: ReplicaCondition | None, why_full: str | None
) -> CarePart:
    refused = partition.refused
    return CarePart(
        condition=condition,
        why="" if condition is None else trouble_of(partition) or why_full or "",
        healing=partition.healing,
        refused_truncation_to=None if refused is None else refused.offset,
    )

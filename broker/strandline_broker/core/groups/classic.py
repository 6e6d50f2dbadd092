"""Groups of the classic protocol, as far as their records are kept and shown.

No member can join such a group here: the classic protocol is not served. The records of a log stay
whole. Offsets can be read and committed under Kafka's rules. Members end with their sessions, as
where they were served. After that the group is empty and usable by either protocol.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.coordination.wire import MalformedRecord, Reader
from strandline_proto.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    UnknownMemberId,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.records.classic_records import (
        ClassicMember,
        GroupMetadataValue,
    )

CONSUMER_PROTOCOL: Final = "consumer"


def state_of(value: GroupMetadataValue) -> str:
    """The group's state, by Kafka's names; a group read from a log is stable."""
    return "Stable" if value.members else "Empty"


def refuse_consumer_protocol(group_id: str, value: GroupMetadataValue) -> GroupIdNotFound:
    """The error for a member of the consumer protocol while the group has classic members."""
    return GroupIdNotFound(
        f"group {group_id!r} is of the classic protocol and has {len(value.members)} members; the "
        "consumer protocol can take it over once they have left"
    )


def check_committer(
    value: GroupMetadataValue,
    *,
    group_id: str,
    member_id: str,
    generation: int,
    instance_id: str | None,
) -> None:
    """Raise an error unless a commit by this member in this generation is admitted."""
    if generation < 0 and not value.members:
        return
    member = _member(value, member_id)
    if instance_id is not None:
        holder = next((m for m in value.members if m.group_instance_id == instance_id), None)
        if holder is not None and holder.member_id != member_id:
            raise FencedInstanceId(
                f"instance {instance_id!r} of group {group_id!r} is member {holder.member_id!r}"
            )
    if member is None:
        raise UnknownMemberId(
            f"group {group_id!r} has no member {member_id!r}"
            if member_id
            else f"group {group_id!r} has members: only they commit its offsets"
        )
    if generation != value.generation:
        raise IllegalGeneration(
            f"group {group_id!r} is in generation {value.generation}, not {generation}"
        )


def without(value: GroupMetadataValue, member_id: str, wall_ms: int) -> GroupMetadataValue:
    """The group after the member has left; without members it is empty, in a new generation."""
    members = tuple(m for m in value.members if m.member_id != member_id)
    if members:
        return replace(value, members=members)
    return replace(
        value,
        generation=value.generation + 1,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=wall_ms,
        members=(),
    )


def subscribes_to(value: GroupMetadataValue, topic: str) -> bool:
    """True if a member subscribes to the topic, or may: its metadata cannot be understood."""
    return any(topic in names for names in map(subscribed_names, value.members) if names) or any(
        subscribed_names(member) is None for member in value.members
    )


def subscribed_names(member: ClassicMember) -> frozenset[str] | None:
    reader = Reader(member.subscription)
    try:
        reader.i16()
        return frozenset(reader.array(reader.string))
    except MalformedRecord:
        return None


def _member(value: GroupMetadataValue, member_id: str) -> ClassicMember | None:
    return next((m for m in value.members if m.member_id == member_id), None)

"""The checks of a member's call: its ids, its instance, its generation and protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.classic.rebalance import rebalances
from strandline_broker.core.groups.effects import SessionTimer, StartTimer
from strandline_proto.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    UnknownMemberId,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.group import ClassicGroup, Member


def known_member(
    group: ClassicGroup | None, group_id: str, member_id: str, instance_id: str | None
) -> Member:
    """The member of that id. Raises FencedInstanceId if its instance has another id by now, and
    UnknownMemberId.
    """
    if group is None:
        raise UnknownMemberId(f"there is no group {group_id!r}: join without a member id")
    if instance_id is not None:
        holder = group.instances.get(instance_id)
        if holder is not None and holder != member_id:
            raise FencedInstanceId(
                f"instance {instance_id!r} of group {group_id!r} is member {holder!r}, not"
                f" {member_id!r}: another consumer with this instance id has joined"
            )
        if holder is None:
            raise UnknownMemberId(
                f"group {group_id!r} has no instance {instance_id!r}: join without a member id"
            )
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(
            f"group {group_id!r} has no member {member_id!r}: join without a member id"
        )
    return member


def check_generation(group: ClassicGroup, generation: int) -> None:
    if generation != group.generation:
        raise IllegalGeneration(
            f"group {group.group_id!r} is in generation {group.generation}, not {generation}"
        )


def check_protocol(
    group: ClassicGroup, protocol_type: str | None, protocol: str | None, *, is_named: bool
) -> None:
    """Check the protocol that a member names; `is_named`: it has to name both."""
    if is_named and (protocol_type is None or protocol is None):
        raise InconsistentGroupProtocol(
            f"a SyncGroup to group {group.group_id!r} names protocol_type {protocol_type!r} and"
            f" protocol_name {protocol!r}: both are required"
        )
    for name, given, present in (
        ("protocol_type", protocol_type, group.protocol_type),
        ("protocol_name", protocol, group.protocol),
    ):
        if given is not None and present is not None and given != present:
            raise InconsistentGroupProtocol(
                f"{name} is {given!r}, and that of group {group.group_id!r} is {present!r}"
            )


def admit_commit(
    group: ClassicGroup, *, member_id: str, generation: int, instance_id: str | None
) -> Member | None:
    """The member that commits; None: the commit is of no member, and the group has none."""
    if generation < 0 and group.state is GroupState.EMPTY:
        return None
    if generation < 0 and member_id == "" and instance_id is None:
        raise UnknownMemberId(
            f"group {group.group_id!r} has {len(group.members)} members: only they commit its"
            " offsets; stop them first"
        )
    member = known_member(group, group.group_id, member_id, instance_id)
    check_generation(group, generation)
    if group.state is GroupState.COMPLETING:
        raise rebalances(group)
    return member


def renewed_session(group: ClassicGroup | None, member_id: str) -> tuple[StartTimer, ...]:
    """The new session of a member that has committed offsets (I-121)."""
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return ()
    timer = SessionTimer(group.group_id, member_id)
    return (StartTimer(timer, member.session_timeout_ms),)

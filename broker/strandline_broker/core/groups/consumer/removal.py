"""Members that leave without a message: their session or rebalance has timed out, or an
administrator removes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.commands import MembersRemoved, MemberToRemove, RemovedMember
from strandline_broker.core.groups.consumer.current_assignment import MemberState
from strandline_broker.core.groups.consumer.membership import remove_members
from strandline_broker.core.groups.consumer.static_members import check_known_instance
from strandline_proto.errors import InvalidRequest, UnknownMemberId, WireError

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import (
        RebalanceEnded,
        RemoveMembers,
        SessionEnded,
    )
    from strandline_broker.core.groups.consumer.consumer import Draft
    from strandline_broker.core.groups.context import Context


def session_ended(draft: Draft, command: SessionEnded, context: Context) -> None:
    if command.member_id in draft.members:
        remove_members(draft, context, [command.member_id])


def rebalance_ended(draft: Draft, command: RebalanceEnded, context: Context) -> None:
    """Remove the member, but only if it still has the same partitions to give up (I-137)."""
    if command.member_id not in draft.members:
        return
    current = draft.current(command.member_id)
    waits = current.state is MemberState.UNREVOKED_PARTITIONS
    if waits and current.epoch == command.member_epoch:
        remove_members(draft, context, [command.member_id])


def remove(draft: Draft, command: RemoveMembers, context: Context) -> MembersRemoved:
    wishes = command.members
    if wishes is None:
        wishes = tuple(MemberToRemove(member_id) for member_id in sorted(draft.members))
    removed: dict[str, None] = {}
    answers: list[RemovedMember] = []
    for wish in wishes:
        error: WireError | None = None
        member_id = wish.member_id
        try:
            member_id = _found(draft, wish)
            removed[member_id] = None
        except WireError as refusal:
            error = refusal
        answers.append(RemovedMember(member_id, wish.instance_id, error))
    if removed:
        remove_members(draft, context, removed)
    return MembersRemoved(tuple(answers))


def _found(draft: Draft, wish: MemberToRemove) -> str:
    if not wish.member_id:
        if not wish.instance_id:
            raise InvalidRequest("name a member to remove by its member_id or its instance_id")
        check_known_instance(
            draft, wish.instance_id, draft.static_members.get(wish.instance_id, "")
        )
        return draft.static_members[wish.instance_id]
    check_known_instance(draft, wish.instance_id, wish.member_id)
    if wish.member_id not in draft.members:
        raise UnknownMemberId(f"group {draft.group_id!r} has no member {wish.member_id!r}")
    return wish.member_id

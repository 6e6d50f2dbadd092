"""Members that go: they leave, an administrator removes them, their session or connection ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.commands import GroupLeft, LeftMember
from strandline_broker.core.groups.classic.members import known_member
from strandline_broker.core.groups.classic.rebalance import maybe_complete, rebalance, remove
from strandline_proto.errors import UnknownMemberId, WireError

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import (
        CallDropped,
        LeaveGroup,
        LeavingMember,
    )
    from strandline_broker.core.groups.classic.group import Member
    from strandline_broker.core.groups.classic.rebalance import Change


def leave(change: Change, command: LeaveGroup) -> GroupLeft:
    group = change.group
    answers: list[LeftMember] = []
    reasons: list[str] = []
    for wish in command.members:
        error: WireError | None = None
        if wish.member_id in group.pending:
            group.remove(wish.member_id)
            change.stop_session(wish.member_id)
        else:
            try:
                member = _named(change, wish)
                remove(change, member)
                reasons.append(_why(member, wish))
            except WireError as refusal:
                error = refusal
        answers.append(LeftMember(wish.member_id, wish.instance_id, error))
    if reasons:
        rebalance(change, "; ".join(reasons))
    else:
        maybe_complete(change)
    return GroupLeft(tuple(answers))


def session_ended(change: Change, member_id: str) -> None:
    """Remove the member, unless its call waits for others: then nothing else of it is expected
    (I-121). The first call of a new member waits for so long and no longer.
    """
    group = change.group
    if member_id in group.pending:
        group.remove(member_id)
        maybe_complete(change)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.is_parked and not member.is_new:
        change.start_session(member)
        return
    remove(change, member)
    rebalance(change, f"the session of member {member_id!r} has ended")


def call_dropped(change: Change, command: CallDropped) -> None:
    """The connection of a parked call has ended. Its member stays for a session, in which it can
    repeat the call. A member that cannot know its id never comes back, and its session ends now.
    Nothing is written.
    """
    group = change.group
    member = group.members.get(group.calls.pop(command.call, ""))
    if member is None:
        return
    member.join_call = member.sync_call = None
    member.is_new = False
    if member.knows_its_id:
        change.start_session(member)
    else:
        change.end_session(member)


def _why(member: Member, wish: LeavingMember) -> str:
    what = f"member {member.member_id!r} leaves"
    return f"{what}: {wish.reason}" if wish.reason else what


def _named(change: Change, wish: LeavingMember) -> Member:
    group = change.group
    if wish.member_id == "":
        holder = group.instances.get(wish.instance_id or "")
        if wish.instance_id is None or holder is None:
            raise UnknownMemberId(
                f"group {group.group_id!r} has no instance {wish.instance_id!r}: name a member by"
                " its member id or its instance id"
            )
        return group.members[holder]
    return known_member(group, group.group_id, wish.member_id, wish.instance_id)

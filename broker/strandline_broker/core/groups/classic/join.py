"""JoinGroup: a member joins the next generation, or gets the present one again.

A dynamic member first gets an id (KIP-394), which counts as a member for the group's size (I-120).
A static member, one with an instance id, comes back under a new id and takes its old place
(KIP-345); the old id is fenced from the log on (I-124).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strandline_broker.core.groups.classic.commands import (
    PARKED,
    GroupJoined,
    MemberIdGiven,
    Parked,
)
from strandline_broker.core.groups.classic.group import GroupState, Member, renamed
from strandline_broker.core.groups.classic.members import known_member
from strandline_broker.core.groups.classic.rebalance import (
    joined,
    maybe_complete,
    rebalance,
    record_bytes,
    remove,
)
from strandline_broker.core.groups.effects import SessionTimer, StartTimer
from strandline_broker.core.groups.group_ids import TEXT_BYTES_MAX
from strandline_proto.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    UnknownMemberId,
    UnknownServerError,
)

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import JoinGroup, JoinProtocol
    from strandline_broker.core.groups.classic.group import ClassicGroup
    from strandline_broker.core.groups.classic.rebalance import Change
    from strandline_broker.core.groups.records.classic_records import GroupMetadataValue
    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_proto.errors import WireError

JoinReply = GroupJoined | MemberIdGiven | Parked


def check_join(command: JoinGroup, settings: GroupSettings) -> None:
    """Raise the error for a JoinGroup that no group accepts."""
    low, high = settings.classic_min_session_timeout_ms, settings.classic_max_session_timeout_ms
    if not low <= command.session_timeout_ms <= high:
        raise InvalidSessionTimeout(
            f"session_timeout_ms is {command.session_timeout_ms}: this broker accepts {low} to"
            f" {high}, by group.min.session.timeout.ms and group.max.session.timeout.ms"
        )
    texts = [
        ("member_id", command.member_id),
        ("group_instance_id", command.instance_id or ""),
        ("protocol_type", command.protocol_type),
        ("client_host", command.client_host),
        ("the member id made of client_id or group_instance_id", _new_id(command, bytes(16))),
        *(("a protocol's name", protocol.name) for protocol in command.protocols),
    ]
    for name, text in texts:
        size = len(text.encode())
        if size > TEXT_BYTES_MAX:
            raise InvalidRequest(
                f"{name} has {size} bytes, and at most {TEXT_BYTES_MAX} can be stored:"
                f" {text[:40]!r}..."
            )


def join(
    change: Change, command: JoinGroup, recorded: GroupMetadataValue | None
) -> JoinReply | WireError:
    """Decide a JoinGroup; `recorded` is the group's record."""
    group = change.group
    if (refusal := _refusal_by_size(group, command, change.context.settings)) is not None:
        leftover = group.members.get(command.member_id)
        if leftover is not None:
            remove(change, leftover)
        elif command.member_id in group.pending:
            group.remove(command.member_id)
            change.stop_session(command.member_id)
        maybe_complete(change)
        return refusal
    names = [protocol.name for protocol in command.protocols]
    if not group.supports(command.protocol_type, names):
        return _inconsistent(group, command)
    if command.member_id == "":
        return _join_new(change, command, recorded)
    if command.member_id in group.pending:
        if command.instance_id is not None:
            return InvalidRequest(
                f"member id {command.member_id!r} was given to a dynamic member, and this JoinGroup"
                f" names instance {command.instance_id!r}: a static member joins without a member"
                " id"
            )
        return _add(change, command, command.member_id)
    return _join_again(change, command)


def _join_new(
    change: Change, command: JoinGroup, recorded: GroupMetadataValue | None
) -> JoinReply | WireError:
    group = change.group
    member_id = _new_id(command, change.context.inputs.random)
    if command.instance_id is not None:
        former = group.instances.get(command.instance_id)
        if former is not None:
            return _replace(change, command, group.members[former], member_id, recorded)
        _write_id(change, command.instance_id, member_id, recorded)
        return _add(change, command, member_id)
    if not command.requires_known_member_id:
        return _add(change, command, member_id, knows_its_id=False)
    group.pending[member_id] = None
    timer = SessionTimer(group.group_id, member_id)
    change.effects.append(StartTimer(timer, command.session_timeout_ms))
    return MemberIdGiven(member_id)


def _add(
    change: Change, command: JoinGroup, member_id: str, *, knows_its_id: bool = True
) -> Parked:
    group = change.group
    member = Member(
        member_id=member_id,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=_protocols(command),
        knows_its_id=knows_its_id,
        is_new=True,
    )
    if not group.members:
        group.protocol_type = command.protocol_type
    group.has_grown = group.state is GroupState.PREPARING
    group.add(member)
    change.park_join(member, command.call)
    change.start_session(member)
    rebalance(change, _why(f"member {member_id!r} joins", command))
    return PARKED


def _join_again(change: Change, command: JoinGroup) -> JoinReply | WireError:
    group = change.group
    if group.state is GroupState.EMPTY:
        raise UnknownMemberId(
            f"group {group.group_id!r} has no member {command.member_id!r}: join without a member"
            " id"
        )
    member = known_member(group, group.group_id, command.member_id, command.instance_id)
    is_same = member.protocols == _protocols(command)
    is_leader = group.leader == member.member_id
    change.start_session(member)
    if group.state is GroupState.COMPLETING and is_same:
        return joined(group, member)
    if group.state is GroupState.STABLE and is_same and not is_leader:
        return joined(group, member)
    _update(group, member, command)
    change.park_join(member, command.call)
    kind = "member" if is_same else "member with other metadata"
    rebalance(change, _why(f"{kind} {member.member_id!r} joins again", command))
    return PARKED


def _replace(
    change: Change,
    command: JoinGroup,
    member: Member,
    new_id: str,
    recorded: GroupMetadataValue | None,
) -> JoinReply | WireError:
    """The member of an instance comes back under another id. A stable group goes on if its
    protocol stays (I-125). In any other state the record changes no more than the id (I-124).
    """
    group = change.group
    assert command.instance_id is not None, command
    if not _fits(change, command, recorded):
        return UnknownServerError(
            f"the record of group {group.group_id!r} with the metadata of instance"
            f" {command.instance_id!r} would exceed the {change.context.inputs.batch_bytes_max}"
            " bytes of a batch"
        )
    old_id = member.member_id
    old_leader = group.leader
    fenced = FencedInstanceId(
        f"instance {command.instance_id!r} of group {group.group_id!r} has joined as another member"
    )
    change.answer_join(member, fenced)
    change.answer_sync(member, fenced)
    change.stop_session(old_id)
    group.rename(old_id, new_id)
    _update(group, member, command)
    change.start_session(member)
    if group.state is GroupState.STABLE and group.vote() == group.protocol:
        change.write(group.value())
        answer = joined(group, member)
        if command.skips_assignment:
            return replace(answer, skip_assignment=group.leader == new_id)
        # A leader that does not know of skipping takes its part as any other member does.
        return replace(answer, leader=old_leader or "", members=())
    _write_id(change, command.instance_id, new_id, recorded)
    change.park_join(member, command.call)
    rebalance(change, _why(f"instance {command.instance_id!r} joins again", command))
    return PARKED


def _write_id(
    change: Change, instance_id: str, new_id: str, recorded: GroupMetadataValue | None
) -> None:
    """Write the instance's new id into the group's record, if the record has the instance. The
    record may have a member that was removed since: a later coordinator would fence the new id
    for the removed one (I-124).
    """
    changed = renamed(recorded, instance_id, new_id)
    if changed is not None:
        change.write(changed)


def _why(what: str, command: JoinGroup) -> str:
    return f"{what}; its reason: {command.reason}" if command.reason else what


def _update(group: ClassicGroup, member: Member, command: JoinGroup) -> None:
    group.change_protocols(member, _protocols(command))
    member.session_timeout_ms = command.session_timeout_ms
    member.rebalance_timeout_ms = command.rebalance_timeout_ms
    member.client_id, member.client_host = command.client_id, command.client_host


def _protocols(command: JoinGroup) -> tuple[JoinProtocol, ...]:
    """The protocols of the command; the first of a name counts."""
    found: dict[str, JoinProtocol] = {}
    for protocol in command.protocols:
        found.setdefault(protocol.name, protocol)
    return tuple(found.values())


def _new_id(command: JoinGroup, random: bytes) -> str:
    prefix = command.client_id if command.instance_id is None else command.instance_id
    digits = random.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join((prefix, *parts))


def _fits(change: Change, command: JoinGroup, recorded: GroupMetadataValue | None) -> bool:
    """True if the group's record still fits into a batch with the new metadata of one member."""
    inputs = change.context.inputs
    size = 0 if recorded is None else record_bytes(change.group_id, recorded)
    size += len(command.client_id.encode()) + len(command.client_host.encode())
    return size + max(len(p.metadata) for p in command.protocols) <= inputs.batch_bytes_max


def _refusal_by_size(
    group: ClassicGroup, command: JoinGroup, settings: GroupSettings
) -> WireError | None:
    """The error for a member that the group has no room for. While members join, those that have
    joined and the static ones count; the other members of before are refused if they join too late
    (I-120).
    """
    bound = settings.classic_max_size
    if len(group.members) + len(group.pending) < bound:
        return None
    member_id = command.member_id
    if member_id == "" and command.instance_id is not None:
        member_id = group.instances.get(command.instance_id, "")  # it takes its old place
    places = set(group.members)
    if group.state is GroupState.PREPARING:
        places = group.joined | set(group.instances.values())
    if member_id in places:
        return None
    taken = len(places)
    if member_id == "":
        taken += len(group.pending)
    if taken < bound:
        return None
    return GroupMaxSizeReached(
        f"group {group.group_id!r} has {taken} members, as many as group.max.size allows"
    )


def _inconsistent(group: ClassicGroup, command: JoinGroup) -> WireError:
    names = ", ".join(protocol.name for protocol in command.protocols)
    if group.state is GroupState.EMPTY:
        why = "a member names a protocol type and at least one protocol"
    elif group.protocol_type != command.protocol_type:
        why = f"the group has protocol type {group.protocol_type!r}"
    else:
        why = "the members of the group have no such protocol in common"
    return InconsistentGroupProtocol(
        f"a member with protocol type {command.protocol_type!r} and protocols [{names}] cannot join"
        f" group {group.group_id!r}: {why}"
    )

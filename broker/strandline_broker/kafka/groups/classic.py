"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of classic groups.

A join or a sync waits in the service, for minutes if need be. Its connection cancels it when the
client is gone. Answers are written here: the leader's names all members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.classic.commands import (
    ClassicHeartbeat,
    GroupJoined,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    MemberIdGiven,
    SyncGroup,
)
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.kafka.groups.bounds import LISTED_MAX, check_count
from strandline_broker.kafka.groups.errors import code_of
from strandline_broker.kafka.wire import Writer
from strandline_proto.errors import MemberIdRequired, WireError

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import GroupLeft
    from strandline_broker.hosts.serving.classic_groups import ClassicGroupsService
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers

NO_GENERATION: Final = -1


class JoinVersion:
    """First versions of JoinGroup with a field or rule."""

    REBALANCE_TIMEOUT = 1
    THROTTLE = 2
    MEMBER_ID_REQUIRED = 4
    INSTANCES = 5
    PROTOCOL_TYPE = 7
    SKIP_ASSIGNMENT = 9


THROTTLE_SINCE: Final = 1
"""First version with a throttle time in the answers to SyncGroup, Heartbeat and LeaveGroup."""
SYNC_PROTOCOL_SINCE: Final = 5
SEVERAL_LEAVE_SINCE: Final = 3


class ClassicGroupCalls:
    def __init__(self, groups: ClassicGroupsService) -> None:
        self._groups = groups

    async def JoinGroup(self, request: Request, message: Any) -> Buffers:
        check_count(len(message.protocols), "protocols")
        version = request.version
        known_timeout = version >= JoinVersion.REBALANCE_TIMEOUT
        command = JoinGroup(
            group_id=message.group_id,
            session_timeout_ms=message.session_timeout_ms,
            rebalance_timeout_ms=(
                message.rebalance_timeout_ms if known_timeout else message.session_timeout_ms
            ),
            member_id=message.member_id,
            instance_id=message.group_instance_id,
            protocol_type=message.protocol_type,
            protocols=tuple(JoinProtocol(each.name, each.metadata) for each in message.protocols),
            client_id=request.client_id,
            client_host=f"/{request.client_host}",
            requires_known_member_id=version >= JoinVersion.MEMBER_ID_REQUIRED,
            skips_assignment=version >= JoinVersion.SKIP_ASSIGNMENT,
            reason=message.reason or "",
        )
        try:
            reply = await self._groups.join(command)
        except WireError as error:
            return _not_joined(request, code_of(error), message.member_id)
        if isinstance(reply, MemberIdGiven):
            return _not_joined(request, MemberIdRequired.code, reply.member_id)
        return await _joined(request, reply)

    async def SyncGroup(self, request: Request, message: Any) -> Buffers:
        check_count(len(message.assignments), "assignments", LISTED_MAX)
        names_protocol = request.version >= SYNC_PROTOCOL_SINCE
        out = _answer(request)
        try:
            reply = await self._groups.sync(
                SyncGroup(
                    group_id=message.group_id,
                    generation=message.generation_id,
                    member_id=message.member_id,
                    instance_id=message.group_instance_id,
                    protocol_type=message.protocol_type,
                    protocol=message.protocol_name,
                    names_protocol=names_protocol,
                    assignments=tuple(
                        MemberAssignment(each.member_id, each.assignment)
                        for each in message.assignments
                    ),
                )
            )
        except WireError as error:
            out.int16(code_of(error))
            if names_protocol:
                out.string(None)
                out.string(None)
            out.view(b"")
        else:
            out.int16(0)
            if names_protocol:
                out.string(reply.protocol_type)
                out.string(reply.protocol)
            out.view(reply.assignment)
        out.no_tags()
        return out.buffers()

    async def Heartbeat(self, request: Request, message: Any) -> Buffers:
        command = ClassicHeartbeat(
            group_id=message.group_id,
            generation=message.generation_id,
            member_id=message.member_id,
            instance_id=message.group_instance_id,
        )
        failed: WireError | None = None
        try:
            await self._groups.heartbeat(command)
        except WireError as error:
            failed = error
        out = _answer(request)
        out.int16(code_of(failed))
        out.no_tags()
        return out.buffers()

    async def LeaveGroup(self, request: Request, message: Any) -> Buffers:
        """Answers each member by itself from version 3 on; before, a request is of one member."""
        has_several = request.version >= SEVERAL_LEAVE_SINCE
        members = [LeavingMember(message.member_id)]
        if has_several:
            check_count(len(message.members), "members")
            members = [
                LeavingMember(each.member_id, each.group_instance_id, each.reason or "")
                for each in message.members
            ]
        out = _answer(request)
        try:
            reply = await self._groups.leave(LeaveGroup(message.group_id, tuple(members)))
        except WireError as error:
            out.int16(code_of(error))
            if has_several:
                out.length(0)
        else:
            await _left(out, reply, has_several)
        out.no_tags()
        return out.buffers()


def _answer(request: Request) -> Writer:
    """An answer that begins with a throttle time in all versions but the first."""
    out = Writer(compact=request.header.api.is_flexible(request.version))
    if request.version >= THROTTLE_SINCE:
        out.int32(0)
    return out


def _join_answer(request: Request, error_code: int, generation: int) -> Writer:
    out = Writer(compact=request.header.api.is_flexible(request.version))
    if request.version >= JoinVersion.THROTTLE:
        out.int32(0)
    out.int16(error_code)
    out.int32(generation)
    return out


def _not_joined(request: Request, error_code: int, member_id: str) -> Buffers:
    version, out = request.version, _join_answer(request, error_code, NO_GENERATION)
    if version >= JoinVersion.PROTOCOL_TYPE:
        out.string(None)
    out.string(None if version >= JoinVersion.PROTOCOL_TYPE else "")
    out.string("")  # leader
    if version >= JoinVersion.SKIP_ASSIGNMENT:
        out.boolean(False)
    out.string(member_id)
    out.length(0)
    out.no_tags()
    return out.buffers()


async def _joined(request: Request, joined: GroupJoined) -> Buffers:
    version, out = request.version, _join_answer(request, 0, joined.generation)
    if version >= JoinVersion.PROTOCOL_TYPE:
        out.string(joined.protocol_type)
    out.string(joined.protocol)
    out.string(joined.leader)
    if version >= JoinVersion.SKIP_ASSIGNMENT:
        out.boolean(joined.skip_assignment)
    out.string(joined.member_id)
    out.length(len(joined.members))
    async for member in in_turns(joined.members):
        out.string(member.member_id)
        if version >= JoinVersion.INSTANCES:
            out.string(member.instance_id)
        out.length(len(member.metadata))
        out.raw(member.metadata)
        out.no_tags()
    out.no_tags()
    return out.buffers()


async def _left(out: Writer, reply: GroupLeft, has_several: bool) -> None:
    if not has_several:
        (only,) = reply.members
        out.int16(code_of(only.error))
        return
    out.int16(0)
    out.length(len(reply.members))
    async for member in in_turns(reply.members):
        out.string(member.member_id)
        out.string(member.instance_id)
        out.int16(code_of(member.error))
        out.no_tags()

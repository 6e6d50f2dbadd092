"""ListGroups, DescribeGroups (of classic groups) and DeleteGroups.

A short request may ask for very many groups and members, so their answers are written here, with
turns for other connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.describe import CLASSIC
from strandline_broker.hosts.serving.groups import GROUPS_AT_ONCE
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.authorized import operations_of_a_group
from strandline_broker.kafka.groups.bounds import LISTED_MAX, check_count
from strandline_broker.kafka.groups.errors import code_of, text_of
from strandline_broker.kafka.wire import Writer
from strandline_proto.errors import GroupIdNotFound, WireError

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import DescribedMember, GroupDescription
    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers

THROTTLE_SINCE: Final = 1
"""First version of ListGroups and DescribeGroups with a throttle time."""
STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5
"""First versions of ListGroups with the states and the types of groups."""
OPERATIONS_SINCE: Final = 3
INSTANCES_SINCE: Final = 4
MESSAGES_SINCE: Final = 6
"""First versions of DescribeGroups with operations, with instance ids, and with messages of errors,
where an unknown group is an error.
"""
DEAD: Final = "Dead"
"""State of a group that does not exist."""


class GroupAdminCalls:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups
        self._deleted = answer_of("DeleteGroups")

    async def ListGroups(self, request: Request, message: Any) -> Buffers:
        """Lists groups, from versions 4 and 5 on by their states and types."""
        version = request.version
        found, failed = await self._groups.list_groups(
            message.states_filter if version >= STATES_SINCE else (),
            message.types_filter if version >= TYPES_SINCE else (),
        )
        out = Writer(compact=request.header.api.is_flexible(version))
        if version >= THROTTLE_SINCE:
            out.int32(0)
        out.int16(code_of(failed))
        out.length(len(found))
        async for group in in_turns(found):
            out.string(group.group_id)
            out.string(group.protocol_type)
            if version >= STATES_SINCE:
                out.string(group.state)
            if version >= TYPES_SINCE:
                out.string(group.group_type)
            out.no_tags()
        out.no_tags()
        return out.buffers()

    async def DescribeGroups(self, request: Request, message: Any) -> Buffers:
        """Describes classic groups. A group of the consumer protocol is not found, as in Kafka; up
        to version 5 such a group is dead.
        """
        check_count(len(message.groups), "groups", LISTED_MAX)
        version = request.version
        out = Writer(compact=request.header.api.is_flexible(version))
        if version >= THROTTLE_SINCE:
            out.int32(0)
        operations = operations_of_a_group(message.include_authorized_operations)
        turns = Turns(GROUPS_AT_ONCE)
        out.length(len(message.groups))
        async for group_id, found in self._groups.describe(message.groups, of_type=CLASSIC):
            if isinstance(found, WireError):
                _not_described(out, group_id, found, version)
            else:
                _described(out, found, version)
                for member in found.members:
                    _member(out, member, version)
                    await turns.took()
            if version >= OPERATIONS_SINCE:
                out.int32(operations)
            out.no_tags()
        out.no_tags()
        return out.buffers()

    async def DeleteGroups(self, request: Request, message: Any) -> Any:
        check_count(len(message.groups_names), "groups", LISTED_MAX)
        results = [
            self._deleted.DeletableGroupResult(group_id=group_id, error_code=code_of(error))
            async for group_id, error in self._groups.delete(message.groups_names)
        ]
        return self._deleted(results=results)


def _not_described(out: Writer, group_id: str, error: WireError, version: int) -> None:
    is_unknown = isinstance(error, GroupIdNotFound)
    has_message = version >= MESSAGES_SINCE
    out.int16(0 if is_unknown and not has_message else code_of(error))
    if has_message:
        out.string(text_of(error))
    out.string(group_id)
    out.string(DEAD if is_unknown else "")
    out.string("")
    out.string("")
    out.length(0)


def _described(out: Writer, found: GroupDescription, version: int) -> None:
    """The group's fields before its members, and their number."""
    out.int16(0)
    if version >= MESSAGES_SINCE:
        out.string(None)
    out.string(found.group_id)
    out.string(found.state)
    out.string(found.protocol_type)
    out.string(found.assignor)
    out.length(len(found.members))


def _member(out: Writer, member: DescribedMember, version: int) -> None:
    out.string(member.member_id)
    if version >= INSTANCES_SINCE:
        out.string(member.instance_id)
    out.string(member.client_id)
    out.string(member.client_host)
    for encoded in (member.metadata, member.assignment_bytes):
        out.length(len(encoded))
        out.raw(encoded)
    out.no_tags()

"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.errors import code_of
from strandline_broker.kafka.wire import Writer

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers

THROTTLE_SINCE: Final = 1
STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5


class GroupAdminCalls:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups
        self._deleted = answer_of("DeleteGroups")

    async def ListGroups(self, request: Request, message: Any) -> Buffers:
        """Lists groups, from versions 4 and 5 on by their states and types.

        The answer is written here: a short request may ask for very many groups.
        """
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

    async def DeleteGroups(self, request: Request, message: Any) -> Any:
        results = [
            self._deleted.DeletableGroupResult(group_id=group_id, error_code=code_of(error))
            async for group_id, error in self._groups.delete(message.groups_names)
        ]
        return self._deleted(results=results)

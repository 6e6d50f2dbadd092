"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.errors import code_of

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request

STATES_SINCE: Final = 4
TYPES_SINCE: Final = 5


class GroupAdminCalls:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups
        self._listed = answer_of("ListGroups")
        self._deleted = answer_of("DeleteGroups")

    async def ListGroups(self, request: Request, message: Any) -> Any:
        """States and types are filters from versions 4 and 5 on; their names have any case."""
        version = request.version
        found, failed = await self._groups.list_groups(
            message.states_filter if version >= STATES_SINCE else (),
            message.types_filter if version >= TYPES_SINCE else (),
        )
        groups = [
            self._listed.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            async for group in in_turns(found)
        ]
        return self._listed(error_code=code_of(failed), groups=groups)

    async def DeleteGroups(self, request: Request, message: Any) -> Any:
        results = [
            self._deleted.DeletableGroupResult(group_id=group_id, error_code=code_of(error))
            async for group_id, error in self._groups.delete(message.groups_names)
        ]
        return self._deleted(results=results)

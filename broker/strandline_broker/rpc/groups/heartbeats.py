"""ConsumerGroupHeartbeat: one call for each heartbeat.

The call has the effect of one message of a GroupSession stream. Its answer is rendered when all
member state that it reports is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import BeatAnswer
from strandline_broker.rpc.groups.codec import beat_from_wire, beat_to_wire
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_proto.v1 import groups_pb2


class GroupsRpc:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups

    async def ConsumerGroupHeartbeat(
        self, request: groups_pb2.ConsumerGroupHeartbeatRequest, context: Any
    ) -> groups_pb2.ConsumerGroupHeartbeatResponse:
        try:
            reply = await self._groups.beat(beat_from_wire(request, context))
        except WireError as error:
            reply = error
        assert isinstance(reply, BeatAnswer | WireError), reply
        return beat_to_wire(reply, member_id=request.member_id)

"""Administration of groups on the wire: lists, descriptions, deletions, removals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import MembersRemoved, MemberToRemove, RemoveMembers
from strandline_broker.hosts.serving.groups import GROUPS_AT_ONCE
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.rpc.groups.codec import partitions_to_wire
from strandline_proto.errors import WireError
from strandline_proto.v1 import groups_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import DescribedMember
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.serving.groups import GroupsService


class GroupAdminRpc:
    def __init__(self, groups: GroupsService, metadata: MetadataCache) -> None:
        self._groups = groups
        self._metadata = metadata

    async def ListGroups(
        self, request: groups_pb2.ListGroupsRequest, context: Any
    ) -> groups_pb2.ListGroupsResponse:
        response = groups_pb2.ListGroupsResponse()
        found, failed = await self._groups.list_groups(request.states_filter, request.types_filter)
        if failed is not None:
            response.error_code, response.error_message = failed.code, str(failed)
        async for group in in_turns(found):
            response.groups.add(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
        return response

    async def ConsumerGroupDescribe(
        self, request: groups_pb2.ConsumerGroupDescribeRequest, context: Any
    ) -> groups_pb2.ConsumerGroupDescribeResponse:
        response = groups_pb2.ConsumerGroupDescribeResponse()
        turns = Turns(GROUPS_AT_ONCE)
        async for group_id, found in self._groups.describe(request.group_ids):
            described = response.groups.add(group_id=group_id)
            if isinstance(found, WireError):
                described.error_code, described.error_message = found.code, str(found)
                continue
            described.group_state = found.state
            described.group_type = found.group_type
            described.group_epoch = found.group_epoch
            described.assignment_epoch = found.assignment_epoch
            described.assignor_name = found.assignor
            for member in found.members:
                described.members.append(self._member(member))
                await turns.took()
        return response

    def _member(self, member: DescribedMember) -> groups_pb2.GroupMember:
        return groups_pb2.GroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names,
            subscribed_topic_regex=member.subscribed_topic_regex,
            assignment=self._named(member.assignment),
            target_assignment=self._named(member.target),
        )

    def _named(self, sets: PartitionSets) -> Iterator[groups_pb2.TopicPartitions]:
        topics = self._metadata.view.topics_by_id
        for each in partitions_to_wire(sets):
            topic = topics.get(each.topic_id)  # type: ignore[call-overload] # bytes of the wire
            each.topic_name = "" if topic is None else topic.name
            yield each

    async def DeleteGroups(
        self, request: groups_pb2.DeleteGroupsRequest, context: Any
    ) -> groups_pb2.DeleteGroupsResponse:
        response = groups_pb2.DeleteGroupsResponse()
        async for group_id, error in self._groups.delete(request.group_ids):
            result = response.results.add(group_id=group_id)
            if error is not None:
                result.error_code, result.error_message = error.code, str(error)
        return response

    async def RemoveMembers(
        self, request: groups_pb2.RemoveMembersRequest, context: Any
    ) -> groups_pb2.RemoveMembersResponse:
        response = groups_pb2.RemoveMembersResponse()
        named = tuple(
            MemberToRemove(m.member_id, m.instance_id if m.HasField("instance_id") else None)
            for m in request.members
        )
        try:
            reply = await self._groups.ask(
                RemoveMembers(request.group_id, named or None), request.group_id
            )
        except WireError as error:
            response.error_code, response.error_message = error.code, str(error)
            return response
        assert isinstance(reply, MembersRemoved), reply
        for removed in reply.members:
            result = response.members.add(
                member_id=removed.member_id, instance_id=removed.instance_id
            )
            if removed.error is not None:
                result.error_code, result.error_message = removed.error.code, str(removed.error)
        return response

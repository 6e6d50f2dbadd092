"""What an administrator asks of groups: lists, descriptions, deletions, members put out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import (
    DeleteGroup,
    DescribeGroup,
    GroupDescription,
    GroupsListed,
    ListGroups,
    MembersRemoved,
    MemberToRemove,
    RemoveMembers,
)
from strandline_broker.rpc.group_codec import check_group_id, partitions_to_wire
from strandline_broker.rpc.turns import ANSWERED_MAX, Turns, in_turns
from strandline_proto.errors import InvalidRequest, WireError
from strandline_proto.v1 import groups_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import Command, DescribedMember, ListedGroup, Reply
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.registry import Shards

GROUPS_AT_ONCE: Final = 100
"""Groups or members between two turns of other calls."""


class GroupAdminRpc:
    def __init__(self, shards: Shards, metadata: MetadataCache) -> None:
        self._shards = shards
        self._metadata = metadata

    async def ListGroups(
        self, request: groups_pb2.ListGroupsRequest, context: Any
    ) -> groups_pb2.ListGroupsResponse:
        """What it knows; with the error of a shard that cannot be asked now."""
        response = groups_pb2.ListGroupsResponse()
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        found: list[ListedGroup] = []
        async for reply in self._listed():
            if isinstance(reply, WireError):
                response.error_code, response.error_message = reply.code, str(reply)
                continue
            assert isinstance(reply, GroupsListed), reply
            found += reply.groups
        async for group in in_turns(sorted(found, key=lambda group: group.group_id)):
            if states and group.state.lower() not in states:
                continue
            if types and group.group_type.lower() not in types:
                continue
            response.groups.add(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
        return response

    async def _listed(self) -> AsyncIterator[Reply]:
        """Of each shard that is not idle; all are asked before the first answer is waited for."""
        hosts = [h for h in self._shards.hosts() if h.machine.state is not ShardState.INACTIVE]
        asked = [host.submit(ListGroups()) async for host in in_turns(hosts, every=1)]
        for answer in asked:
            yield await answer

    async def ConsumerGroupDescribe(
        self, request: groups_pb2.ConsumerGroupDescribeRequest, context: Any
    ) -> groups_pb2.ConsumerGroupDescribeResponse:
        response = groups_pb2.ConsumerGroupDescribeResponse()
        turns, room = Turns(GROUPS_AT_ONCE), ANSWERED_MAX
        for group_id in request.group_ids:
            await turns.took()
            described = response.groups.add(group_id=group_id)
            try:
                reply = await self._ask(group_id, DescribeGroup(group_id))
                assert isinstance(reply, GroupDescription), reply
                room -= len(reply.members)
                if room < 0:
                    raise InvalidRequest(
                        f"the groups of this request have more than {ANSWERED_MAX} members: ask for"
                        " fewer groups at a time"
                    )
            except WireError as error:
                described.error_code, described.error_message = error.code, str(error)
                continue
            described.group_state = reply.state
            described.group_type = reply.group_type
            described.group_epoch = reply.group_epoch
            described.assignment_epoch = reply.assignment_epoch
            described.assignor_name = reply.assignor
            for member in reply.members:
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
        async for group_id in in_turns(request.group_ids, GROUPS_AT_ONCE):
            result = response.results.add(group_id=group_id)
            try:
                await self._ask(group_id, DeleteGroup(group_id))
            except WireError as error:
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
            reply = await self._ask(
                request.group_id, RemoveMembers(request.group_id, named or None)
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

    async def _ask(self, group_id: str, command: Command) -> Reply:
        """The answer; an error is raised."""
        check_group_id(group_id)
        reply = await self._shards.of_group(group_id).submit(command)
        if isinstance(reply, WireError):
            raise reply
        return reply

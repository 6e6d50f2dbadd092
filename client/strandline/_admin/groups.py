"""Calls about consumer groups: part of both admins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from strandline._admin import group_descriptions as messages
from strandline._admin.retrying import Retrying
from strandline._net.arguments import mapping, partitions_or_topics, several, some_of, text
from strandline._net.offsets import Offsets
from strandline.errors import (
    InvalidGroupId,
    StrandlineError,
    UnknownTopicOrPartition,
    from_code,
)
from strandline.group_types import (
    GROUP_STATES,
    GROUP_TYPES,
    GroupDescription,
    OffsetAndMetadata,
    PartitionLag,
    RemovedMember,
)
from strandline.types import TopicPartition
from strandline_proto.errors import NONE
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from strandline.group_types import GroupListing

T = TypeVar("T")
Answer = TypeVar("Answer")


class GroupAdministration(Retrying):
    """The calls of `Admin` about consumer groups."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """Lists the groups of all coordinators by id, filtered by `states` and `types`.

        Raises OperationTimedOut if a live broker does not answer: its groups would be missing.
        """
        request = groups_pb2.ListGroupsRequest(
            states_filter=some_of("states", states, GROUP_STATES),
            types_filter=some_of("types", types, GROUP_TYPES),
        )
        answers = await self._ask_every_broker(
            lambda stub: stub.ListGroups,
            request,
            groups_pb2.ListGroupsResponse,
            "not every broker said which groups it coordinates",
        )
        found = {
            group.group_id: messages.listing(group, broker_id)
            for broker_id, answer in answers.items()
            for group in answer.groups
        }
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Describes members, assignments, epochs, and the lag of each partition.

        Raises GroupIdNotFound for a missing group.
        """
        return {name: await self._described(name) for name in several("groups", groups, str)}

    async def _described(self, group_id: str) -> GroupDescription:
        answer = await self._ask_coordinator(
            _group(group_id),
            lambda stub: stub.ConsumerGroupDescribe,
            groups_pb2.ConsumerGroupDescribeRequest(group_ids=[group_id]),
            groups_pb2.ConsumerGroupDescribeResponse,
            lambda answer: answer.groups,
        )
        [described] = answer.groups
        members = tuple(sorted(map(messages.member, described.members), key=lambda m: m.member_id))
        owners = {p: member.member_id for member in members for p in member.assignment}
        committed = await self.list_group_offsets(group_id)
        lags = await self._lags(sorted({*owners, *committed}), committed, owners)
        return messages.description(described, members, lags)

    async def _lags(
        self,
        partitions: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        owners: Mapping[TopicPartition, str],
    ) -> tuple[PartitionLag, ...]:
        session = self._started()
        keys = {}
        for name in sorted({partition.topic for partition in partitions}):
            try:
                topic = await session.cluster.topic(name, self._timeout_s)
            except UnknownTopicOrPartition:
                continue
            for partition in partitions:
                if partition.topic == name and partition.partition in topic.partitions:
                    keys[partition] = (topic.topic_id, partition.partition)
        offsets = Offsets(session)
        starts = await offsets.listed(dict.fromkeys(keys.values(), -2), self._timeout_s)
        ends = await offsets.listed(dict.fromkeys(keys.values(), -1), self._timeout_s)
        return tuple(
            PartitionLag(
                partition,
                committed[partition].offset if partition in committed else None,
                starts[keys[partition]].offset if partition in keys else None,
                ends[keys[partition]].offset if partition in keys else None,
                owners.get(partition),
            )
            for partition in partitions
        )

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | tuple[str, int]] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of a group, of all partitions or of these.

        A partition without a committed position is left out; a missing group has none.
        """
        request = committed_offsets_pb2.OffsetFetchRequest(require_stable=True)
        asked = request.groups.add(group_id=_group(group_id), member_epoch=-1)
        if partitions is not None:
            asked.topics.SetInParent()
            for name, numbers in messages.by_topic("partitions", partitions).items():
                asked.topics.topics.add(name=name, partitions=numbers)
        answer = await self._ask_coordinator(
            _group(group_id),
            lambda stub: stub.OffsetFetch,
            request,
            committed_offsets_pb2.OffsetFetchResponse,
            lambda answer: [
                *answer.groups,
                *(p for g in answer.groups for topic in g.topics for p in topic.partitions),
            ],
        )
        return {
            TopicPartition(topic.name, p.partition): OffsetAndMetadata(
                p.committed_offset, p.committed_metadata, p.committed_leader_epoch
            )
            for group in answer.groups
            for topic in group.topics
            for p in topic.partitions
            if p.committed_offset >= 0
        }

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition | tuple[str, int], OffsetAndMetadata | int],
    ) -> None:
        """Commits positions for a group that has no members.

        Raises UnknownMemberId while the group has members, and the first error of a partition; the
        other partitions are committed all the same.
        """
        request = committed_offsets_pb2.OffsetCommitRequest(
            group_id=_group(group_id), generation_id_or_member_epoch=-1
        )
        messages.add_offsets(request, mapping("offsets", offsets))
        if request.topics:
            await self._ask_coordinator(
                _group(group_id),
                lambda stub: stub.OffsetCommit,
                request,
                committed_offsets_pb2.OffsetCommitResponse,
                _whole_and_partitions,
            )

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition | tuple[str, int] | str]
    ) -> None:
        """Deletes committed positions; a topic's name stands for all its partitions.

        Raises GroupSubscribedToTopic for a topic that a member reads, GroupIdNotFound, and the
        first error of a partition; the positions of the others are deleted all the same.
        """
        wanted = partitions_or_topics("partitions", partitions)
        topics = {one for one in wanted if isinstance(one, str)}
        pairs = {one for one in wanted if not isinstance(one, str)}
        if topics:
            committed = await self.list_group_offsets(group_id)
            pairs |= {partition for partition in committed if partition.topic in topics}
            # Asked of a topic without any too: its members are refused whether they committed yet.
            pairs |= {TopicPartition(topic, 0) for topic in topics - {p.topic for p in pairs}}
        request = committed_offsets_pb2.OffsetDeleteRequest(group_id=_group(group_id))
        for name, numbers in messages.by_topic("partitions", pairs).items():
            request.topics.add(name=name, partitions=numbers)
        await self._ask_coordinator(
            _group(group_id),
            lambda stub: stub.OffsetDelete,
            request,
            committed_offsets_pb2.OffsetDeleteResponse,
            _whole_and_partitions,
        )

    async def delete_groups(self, groups: Iterable[str]) -> None:
        """Deletes groups and their positions.

        Raises NonEmptyGroup for a group with members, GroupIdNotFound for a missing one; the others
        are deleted all the same.
        """
        first: StrandlineError | None = None
        for group_id in several("groups", groups, str):
            try:
                await self._ask_coordinator(
                    _group(group_id),
                    lambda stub: stub.DeleteGroups,
                    groups_pb2.DeleteGroupsRequest(group_ids=[group_id]),
                    groups_pb2.DeleteGroupsResponse,
                    lambda answer: answer.results,
                )
            except StrandlineError as error:
                first = first or error
        if first is not None:
            raise first

    async def remove_members(
        self, group_id: str, members: Iterable[str] | None = None, *, instances: Iterable[str] = ()
    ) -> list[RemovedMember]:
        """Removes members from a group by member id, or static members by instance id.

        Removes all members if neither is given. A removed member that still runs is fenced, and
        joins again by itself.
        """
        request = groups_pb2.RemoveMembersRequest(group_id=_group(group_id))
        for member_id in () if members is None else several("members", members, str):
            request.members.add(member_id=member_id)
        for instance_id in several("instances", instances, str):
            request.members.add(instance_id=instance_id)
        if members is not None and not request.members:
            return []
        answer = await self._ask_coordinator(
            _group(group_id),
            lambda stub: stub.RemoveMembers,
            request,
            groups_pb2.RemoveMembersResponse,
            lambda answer: [answer],
        )
        return [
            RemovedMember(
                member.member_id,
                member.instance_id if member.HasField("instance_id") else None,
                None
                if member.error_code == NONE
                else from_code(member.error_code, member.error_message),
            )
            for member in answer.members
        ]


def _group(group_id: str) -> str:
    if not text("group_id", group_id):
        raise InvalidGroupId("group_id is empty; name a group")
    return group_id


def _whole_and_partitions(answer: Any) -> list[Any]:
    return [answer, *(p for topic in answer.topics for p in topic.partitions)]


class BlockingGroupAdministration(ABC):
    """The blocking forms of the calls of `Admin` about consumer groups."""

    @abstractmethod
    def _call(self, coroutine_of: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Runs the coroutine on the loop of the blocking admin."""

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """Lists the groups of all coordinators by id, filtered by `states` and `types`.

        Raises OperationTimedOut if a live broker does not answer.
        """
        return self._call(lambda twin: twin.list_groups(states=states, types=types))

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Describes members, assignments, epochs, and the lag of each partition.

        Raises GroupIdNotFound for a missing group.
        """
        return self._call(lambda twin: twin.describe_groups(groups))

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | tuple[str, int]] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed positions of a group, of all partitions or of these."""
        return self._call(lambda twin: twin.list_group_offsets(group_id, partitions))

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition | tuple[str, int], OffsetAndMetadata | int],
    ) -> None:
        """Commits positions for a group that has no members.

        Raises UnknownMemberId while the group has members, and the first error of a partition.
        """
        self._call(lambda twin: twin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition | tuple[str, int] | str]
    ) -> None:
        """Deletes committed positions; a topic's name stands for all its partitions.

        Raises GroupSubscribedToTopic for a topic that a member reads, GroupIdNotFound, and the
        first error of a partition.
        """
        self._call(lambda twin: twin.delete_group_offsets(group_id, partitions))

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Deletes groups and their positions.

        Raises NonEmptyGroup for a group with members, GroupIdNotFound for a missing one.
        """
        self._call(lambda twin: twin.delete_groups(groups))

    def remove_members(
        self, group_id: str, members: Iterable[str] | None = None, *, instances: Iterable[str] = ()
    ) -> list[RemovedMember]:
        """Removes members by id, or static members by instance id; all if neither is given."""
        return self._call(lambda twin: twin.remove_members(group_id, members, instances=instances))

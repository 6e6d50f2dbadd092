"""OffsetCommit, OffsetFetch and OffsetDelete.

OffsetCommit has a generation or a member epoch in the same field; from version 9 on the sender
knows member epochs (KIP-848). Both name topics by id from version 10 on.
"""

from __future__ import annotations

from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.commands import (
    CommitOffsets,
    DeleteOffsets,
    FetchedOffset,
    FetchOffsets,
    OffsetsCommitted,
    OffsetsDeleted,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
)
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.errors import code_of
from strandline_proto.errors import WireError
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request

MEMBER_EPOCHS_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 10
GROUP_ERROR_SINCE: Final = 2
"""First version of OffsetFetch's answer with an error for the whole group."""
SEVERAL_GROUPS_SINCE: Final = 8
DEFAULT_RETENTION: Final = -1


class OffsetCommitsCalls:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups
        self._committed = answer_of("OffsetCommit")
        self._fetched = answer_of("OffsetFetch")
        self._deleted = answer_of("OffsetDelete")

    # OffsetCommit

    async def OffsetCommit(self, request: Request, message: Any) -> Any:
        has_ids = request.version >= TOPIC_IDS_SINCE
        errors: Iterator[WireError | None]
        try:
            command = _commit(message, request.version)
            reply = await self._groups.ask(command, command.group_id)
        except WireError as error:
            errors = repeat(error)
        else:
            assert isinstance(reply, OffsetsCommitted), reply
            errors = iter(reply.errors)
        return self._committed(topics=list(self._results(message.topics, errors, has_ids)))

    def _results(
        self, topics: Iterable[Any], errors: Iterator[WireError | None], has_ids: bool
    ) -> Iterator[Any]:
        new, partition = (
            self._committed.OffsetCommitResponseTopic,
            self._committed.OffsetCommitResponseTopic.OffsetCommitResponsePartition,
        )
        for topic in topics:
            results = [
                partition(partition_index=each.partition_index, error_code=code_of(next(errors)))
                for each in topic.partitions
            ]
            if has_ids:
                yield new(topic_id=topic.topic_id.hex(), partitions=results)
            else:
                yield new(name=topic.name, partitions=results)

    # OffsetFetch

    async def OffsetFetch(self, request: Request, message: Any) -> Any:
        version = request.version
        asked = message.groups if version >= SEVERAL_GROUPS_SINCE else [message]
        commands = [
            _fetch(group, version, require_stable=message.require_stable)
            async for group in in_turns(asked)
        ]
        results, turns, groups = [], Turns(), iter(asked)
        async for reply in self._groups.fetch_offsets(commands):
            group = next(groups)
            if isinstance(reply, WireError):
                results.append(self._refused(group, reply, version))
                await turns.took()
                continue
            topics = []
            for topic, offsets in _by_topic(group.topics, reply.offsets, version):
                topics.append(self._topic(topic, offsets, version))
                await turns.took(len(offsets))
            results.append(self._group(group, topics, 0, version))
            await turns.took()
        if version >= SEVERAL_GROUPS_SINCE:
            return self._fetched(groups=results)
        return results[0]

    def _refused(self, group: Any, error: WireError, version: int) -> Any:
        """The answer to one group that has an error; version 1 has it at each partition only."""
        if version >= GROUP_ERROR_SINCE:
            return self._group(group, [], code_of(error), version)
        topics = [
            self._topic(
                topic.name,
                [
                    FetchedOffset(None, topic.name, partition, error=error)
                    for partition in topic.partition_indexes
                ],
                version,
            )
            for topic in group.topics
        ]
        return self._group(group, topics, 0, version)

    def _group(self, group: Any, topics: list[Any], error_code: int, version: int) -> Any:
        if version < SEVERAL_GROUPS_SINCE:
            return self._fetched(topics=topics, error_code=error_code)
        return self._fetched.OffsetFetchResponseGroup(
            group_id=group.group_id, topics=topics, error_code=error_code
        )

    def _topic(self, topic: bytes | str, offsets: Iterable[FetchedOffset], version: int) -> Any:
        new = self._fetched.OffsetFetchResponseTopic
        partition = new.OffsetFetchResponsePartition
        if version >= SEVERAL_GROUPS_SINCE:
            new = self._fetched.OffsetFetchResponseGroup.OffsetFetchResponseTopics
            partition = new.OffsetFetchResponsePartitions
        partitions = [
            partition(
                partition_index=each.partition,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                metadata=each.metadata,
                error_code=code_of(each.error),
            )
            for each in offsets
        ]
        if isinstance(topic, bytes):
            return new(topic_id=topic.hex(), partitions=partitions)
        return new(name=topic, partitions=partitions)

    # OffsetDelete

    async def OffsetDelete(self, request: Request, message: Any) -> Any:
        topics = tuple(
            TopicPartitionsRef(
                TopicRef(None, topic.name), tuple(p.partition_index for p in topic.partitions)
            )
            for topic in message.topics
        )
        try:
            command = DeleteOffsets(message.group_id, topics)
            reply = await self._groups.ask(command, message.group_id)
        except WireError as error:
            return self._deleted(error_code=code_of(error))
        assert isinstance(reply, OffsetsDeleted), reply
        new = self._deleted.OffsetDeleteResponseTopic
        errors = iter(reply.offsets)
        return self._deleted(
            topics=[
                new(
                    name=topic.topic.name,
                    partitions=[
                        new.OffsetDeleteResponsePartition(
                            partition_index=partition, error_code=code_of(next(errors).error)
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )


def _commit(message: Any, version: int) -> CommitOffsets:
    retention_ms = message.retention_time_ms
    return CommitOffsets(
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=message.generation_id_or_member_epoch,
        instance_id=message.group_instance_id,
        knows_member_epochs=version >= MEMBER_EPOCHS_SINCE,
        retention_ms=None if retention_ms == DEFAULT_RETENTION else retention_ms,
        partitions=tuple(
            PartitionCommit(
                _topic(topic, version),
                asked.partition_index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
            )
            for topic in message.topics
            for asked in topic.partitions
        ),
    )


def _fetch(group: Any, version: int, *, require_stable: bool) -> FetchOffsets:
    topics = None
    if group.topics is not None:
        topics = tuple(
            TopicPartitionsRef(_topic(topic, version), tuple(topic.partition_indexes))
            for topic in group.topics
        )
    if version < MEMBER_EPOCHS_SINCE:
        return FetchOffsets(group_id=group.group_id, topics=topics, require_stable=require_stable)
    return FetchOffsets(
        group_id=group.group_id,
        member_id=group.member_id or "",
        member_epoch=group.member_epoch,
        topics=topics,
        require_stable=require_stable,
    )


def _topic(topic: Any, version: int) -> TopicRef:
    if version >= TOPIC_IDS_SINCE:
        return TopicRef(TopicId(topic.topic_id))
    return TopicRef(None, topic.name)


def _by_topic(
    asked: Sequence[Any] | None, offsets: Sequence[FetchedOffset], version: int
) -> Iterator[tuple[bytes | str, Sequence[FetchedOffset]]]:
    """The offsets of each topic as the request names it, else by the names or ids of topics."""
    has_ids = version >= TOPIC_IDS_SINCE
    if asked is not None:
        position = 0
        for topic in asked:
            end = position + len(topic.partition_indexes)
            yield topic.topic_id if has_ids else topic.name, offsets[position:end]
            position = end
        return
    for (topic_id, name), found in groupby(offsets, key=lambda each: (each.topic_id, each.topic)):
        if not has_ids:
            yield name, tuple(found)
        elif topic_id is not None:  # the offset of a topic that has no id cannot be named
            yield topic_id, tuple(found)

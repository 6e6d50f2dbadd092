"""OffsetFetch: from version 8 on for several groups (KIP-709).

A short request may ask for all offsets of a group, so the answer is written here, with turns for
other connections. kafka-python's encoder needs a second for the offsets of the largest answer.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.commands import (
    FetchedOffset,
    FetchOffsets,
    TopicPartitionsRef,
)
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.kafka.groups.bounds import LISTED_MAX, check_count, check_topics
from strandline_broker.kafka.groups.errors import code_of
from strandline_broker.kafka.groups.topics import MEMBER_EPOCHS_SINCE, TOPIC_IDS_SINCE, topic_of
from strandline_broker.kafka.wire import Writer
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.wire import Buffers

GROUP_ERROR_SINCE: Final = 2
"""First version of the answer with an error for the whole group."""
THROTTLE_SINCE: Final = 3
LEADER_EPOCHS_SINCE: Final = 5
SEVERAL_GROUPS_SINCE: Final = 8


class OffsetFetchCalls:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups

    async def OffsetFetch(self, request: Request, message: Any) -> Buffers:
        version = request.version
        has_groups = version >= SEVERAL_GROUPS_SINCE
        asked = message.groups if has_groups else [message]
        check_count(len(asked), "groups", LISTED_MAX)
        topics = [topic for group in asked for topic in group.topics or ()]
        check_topics(topics, (topic.partition_indexes for topic in topics))
        commands = [
            _command(group, version, require_stable=message.require_stable)
            async for group in in_turns(asked)
        ]
        answer = _Answer(version, compact=request.header.api.is_flexible(version))
        out = answer.out
        if version >= THROTTLE_SINCE:
            out.int32(0)
        if has_groups:
            out.length(len(asked))
        groups = iter(asked)
        async for reply in self._groups.fetch_offsets(commands):
            group = next(groups)
            if has_groups:
                out.string(group.group_id)
            if isinstance(reply, WireError):
                await answer.refused(group, reply)
            else:
                await answer.fetched(list(_by_topic(group.topics, reply.offsets, version)))
            if has_groups:
                out.no_tags()
        out.no_tags()
        return out.buffers()


class _Answer:
    def __init__(self, version: int, *, compact: bool) -> None:
        self.out = Writer(compact)
        self._version = version
        self._turns = Turns()

    async def refused(self, group: Any, error: WireError) -> None:
        """Writes the error of the whole group; version 1 has it at each partition only."""
        topics: list[tuple[bytes | str, Sequence[FetchedOffset]]] = []
        if self._version < GROUP_ERROR_SINCE:
            topics = [
                (
                    topic.name,
                    [
                        FetchedOffset(None, topic.name, partition, error=error)
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in group.topics
            ]
        await self.fetched(topics, code_of(error))

    async def fetched(
        self, topics: list[tuple[bytes | str, Sequence[FetchedOffset]]], error_code: int = 0
    ) -> None:
        """Writes the group's topics and its error."""
        out = self.out
        out.length(len(topics))
        for topic, offsets in topics:
            if isinstance(topic, bytes):
                out.raw(topic)
            else:
                out.string(topic)
            out.length(len(offsets))
            for offset in offsets:
                self._partition(offset)
                await self._turns.took()
            out.no_tags()
            await self._turns.took()
        if self._version >= GROUP_ERROR_SINCE:
            out.int16(error_code)
        await self._turns.took()

    def _partition(self, offset: FetchedOffset) -> None:
        out = self.out
        out.int32(offset.partition)
        out.int64(offset.offset)
        if self._version >= LEADER_EPOCHS_SINCE:
            out.int32(offset.leader_epoch)
        out.string(offset.metadata)
        out.int16(code_of(offset.error))
        out.no_tags()


def _command(group: Any, version: int, *, require_stable: bool) -> FetchOffsets:
    topics = None
    if group.topics is not None:
        topics = tuple(
            TopicPartitionsRef(topic_of(topic, version), tuple(topic.partition_indexes))
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

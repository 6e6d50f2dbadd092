"""OffsetCommit and OffsetDelete.

OffsetCommit has a generation or a member epoch in the same field; from version 9 on the sender
knows member epochs (KIP-848).
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.commands import (
    CommitOffsets,
    DeleteOffsets,
    OffsetsCommitted,
    OffsetsDeleted,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
)
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.bounds import check_topics
from strandline_broker.kafka.groups.errors import code_of
from strandline_broker.kafka.groups.topics import MEMBER_EPOCHS_SINCE, TOPIC_IDS_SINCE, topic_of
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.hosts.serving.groups import GroupsService
    from strandline_broker.kafka.request import Request

DEFAULT_RETENTION: Final = -1


class OffsetCommitsCalls:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups
        self._committed = answer_of("OffsetCommit")
        self._deleted = answer_of("OffsetDelete")

    # OffsetCommit

    async def OffsetCommit(self, request: Request, message: Any) -> Any:
        check_topics(message.topics, (topic.partitions for topic in message.topics))
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

    # OffsetDelete

    async def OffsetDelete(self, request: Request, message: Any) -> Any:
        check_topics(message.topics, (topic.partitions for topic in message.topics))
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
                topic_of(topic, version),
                asked.partition_index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
            )
            for topic in message.topics
            for asked in topic.partitions
        ),
    )

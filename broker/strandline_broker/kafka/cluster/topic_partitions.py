"""DescribeTopicPartitions: partitions with their eligible leaders, page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.internal_topics import INTERNAL_TOPICS
from strandline_broker.hosts.serving.metadata import Reach, page_of_topics, unknown_name_error
from strandline_broker.hosts.serving.turns import Turns
from strandline_broker.kafka.cluster.errors import LISTENER_NOT_FOUND
from strandline_broker.kafka.cluster.operations import ON_TOPIC
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import NONE, LeaderNotAvailable, WireError
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import CachedTopic, MetadataCache
    from strandline_broker.core.push_envelope import PartitionMetadata
    from strandline_broker.kafka.request import Request

PARTITIONS_MAX: Final = 2_000
"""Kafka's limit of the partitions in one answer (max.request.partition.size.limit)."""


class TopicPartitionsCalls:
    def __init__(self, metadata: MetadataCache, listener: str) -> None:
        self._metadata = metadata
        self._listener = listener

    async def DescribeTopicPartitions(self, request: Request, message: Any) -> Any:
        answer = answer_of("DescribeTopicPartitions")
        view = self._metadata.view
        names = list(dict.fromkeys(topic.name for topic in message.topics))
        cursor = message.cursor
        start = None if cursor is None else (cursor.topic_name, cursor.partition_index)
        room = max(1, min(message.response_partition_limit, PARTITIONS_MAX))
        turns = Turns()
        try:
            page = page_of_topics(view, names, start, room)
        except WireError as error:
            return answer(
                topics=[
                    answer.DescribeTopicPartitionsResponseTopic(
                        error_code=error.code, name=name, topic_id=None, partitions=[]
                    )
                    for name in names
                ],
                next_cursor=None,
            )
        reach = Reach(view, self._listener)
        found = answer()
        found.topics = []
        for name, topic, partitions in page.topics:
            found.topics.append(_topic(answer, reach, name, topic, partitions))
            await turns.took(1 + len(partitions))
        found.next_cursor = None
        if page.next is not None:
            found.next_cursor = answer.Cursor(topic_name=page.next[0], partition_index=page.next[1])
        return found


def _topic(
    answer: Any,
    reach: Reach,
    name: str,
    topic: CachedTopic | None,
    partitions: list[PartitionMetadata],
) -> Any:
    kind = answer.DescribeTopicPartitionsResponseTopic
    return kind(
        error_code=unknown_name_error(name) if topic is None else NONE,
        name=name,
        topic_id=None if topic is None else topic.topic_id.hex(),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(kind, reach, each) for each in partitions],
        topic_authorized_operations=ON_TOPIC,
    )


def _partition(kind: Any, reach: Reach, partition: PartitionMetadata) -> Any:
    leader = reach.leader(partition)
    error = NONE
    if leader == NO_LEADER:
        lacks = reach.lacks_listener(partition.leader)
        error = LISTENER_NOT_FOUND if lacks else LeaderNotAvailable.code
    return kind.DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=reach.offline(partition),
    )

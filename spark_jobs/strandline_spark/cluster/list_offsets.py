"""One ListOffsets to one broker: many questions about its partitions, answered in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline_spark.cluster.cluster import Leader
    from strandline_spark.source.offsets import TopicPartition

REPLICA: Final = -1
"""The replica id of a client."""


class ListOffsetsQuestion:
    """A question that can be asked again as long as the leaders are the same."""

    def __init__(
        self,
        part: Mapping[TopicPartition, Leader],
        wanted: Iterable[tuple[TopicPartition, int]],
    ) -> None:
        self.part = part
        topics: dict[bytes, fetch_pb2.ListOffsetsTopic] = {}
        places: dict[bytes, list[int]] = {}
        count = 0
        for tp, timestamp in wanted:
            leader = part[tp]
            topic = topics.get(leader.topic_id)
            if topic is None:
                topic = fetch_pb2.ListOffsetsTopic(topic_id=leader.topic_id)
                topics[leader.topic_id], places[leader.topic_id] = topic, []
            topic.partitions.add(
                partition=tp.partition, current_leader_epoch=leader.epoch, timestamp=timestamp
            )
            places[leader.topic_id].append(count)
            count += 1
        self._request = fetch_pb2.ListOffsetsRequest(replica_id=REPLICA, topics=topics.values())
        self._places = places
        self._count = count

    def ask(self, stub: Any, seconds: float) -> Any:
        """Starts a call, which `answers` takes."""
        return stub.ListOffsets.future(self._request, timeout=seconds)

    def answers(self, call: Any) -> list[fetch_pb2.ListOffsetsPartitionResult]:
        """Returns one answer for each wanted partition, in order. Raises RpcError."""
        placed = {
            place: result
            for topic in call.result().topics
            for place, result in zip(self._places[topic.topic_id], topic.partitions, strict=True)
        }
        return [placed[place] for place in range(self._count)]

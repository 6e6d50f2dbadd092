"""The administrative calls of a scripted broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_proto import errors
from strandline_proto.v1 import (
    delete_records_pb2,
    elections_pb2,
    log_dirs_pb2,
    metadata_pb2,
    partitions_pb2,
    truncations_pb2,
)
from support.scripted_log import Partition

if TYPE_CHECKING:
    import asyncio

    from support.scripted_broker import ScriptedCluster


def add_partitions(cluster: ScriptedCluster, topic: str, count: int) -> None:
    cluster.metadata_offset += 1
    made, ids = cluster.topics[topic][1], sorted(cluster.brokers)
    made += [Partition(leader=ids[p % len(ids)]) for p in range(len(made), count)]


class ScriptedAdmin:
    """Topics, cluster, replicas and configuration, from the shared truth."""

    cluster: ScriptedCluster
    id: int
    awake: asyncio.Event
    calls: list[str]
    alterations: list[metadata_pb2.IncrementalAlterConfigsRequest]

    async def CreateTopics(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = metadata_pb2.CreateTopicsResponse()
        for topic in request.topics:
            result = answer.topics.add(name=topic.name)
            if topic.name in self.cluster.topics:
                result.error_code = errors.TopicAlreadyExists.code
                result.error_message = f"topic {topic.name!r} exists"
            elif topic.replication_factor > len(self.cluster.brokers):
                result.error_code = errors.InvalidReplicationFactor.code
                result.error_message = "replication factor above the live brokers"
            else:
                made = self.cluster.create(topic.name, max(1, topic.partitions))
                result.topic_id = self.cluster.topics[topic.name][0]
                result.partitions, result.replication_factor = len(made), topic.replication_factor
        return answer

    async def AllowTruncation(self, request: Any, context: Any) -> Any:
        """As a broker whose replica was to be cut at offset 3."""
        answer = truncations_pb2.AllowTruncationResponse()
        if request.offset != 3:
            answer.error_code = errors.OffsetOutOfRange.code
            answer.error_message = f"it was to be cut at offset 3, not {request.offset}"
        return answer

    async def CreatePartitions(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = partitions_pb2.CreatePartitionsResponse()
        for topic in request.topics:
            result = answer.results.add(name=topic.name, partitions_before=-1)
            if topic.name not in self.cluster.topics:
                result.error_code = errors.UnknownTopicOrPartition.code
                continue
            before = len(self.cluster.topics[topic.name][1])
            if topic.count <= before:
                result.error_code = errors.InvalidPartitions.code
                result.error_message = f"has {before} partitions already"
                continue
            result.partitions_before = before
            if not request.validate_only:
                add_partitions(self.cluster, topic.name, topic.count)
        return answer

    async def DeleteTopics(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = metadata_pb2.DeleteTopicsResponse()
        for topic in request.topics:
            result = answer.topics.add(name=topic.name)
            if topic.name not in self.cluster.topics:
                result.error_code = errors.UnknownTopicOrPartition.code
            else:
                self.cluster.delete(topic.name)
        return answer

    async def DescribeCluster(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = metadata_pb2.DescribeClusterResponse(cluster_id=self.cluster.cluster_id)
        answer.controller.id = 100
        for broker in self.cluster.brokers.values():
            answer.brokers.add(id=broker.id, state="UNFENCED", last_heard_ms=1)
        return answer

    async def DescribeLogDirs(self, request: Any, context: Any) -> Any:
        answer = log_dirs_pb2.DescribeLogDirsResponse(broker_id=self.id)
        answer.log_dirs.add(path="/d", total_bytes=-1, usable_bytes=-1)
        return answer

    async def DescribeReplicas(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = metadata_pb2.DescribeReplicasResponse(broker_id=self.id)
        for name, (topic_id, partitions) in self.cluster.topics.items():
            if request.topics and topic_id not in [t.topic_id for t in request.topics]:
                continue
            for index, p in enumerate(partitions):
                answer.replicas.add(
                    topic=name,
                    topic_id=topic_id,
                    partition=index,
                    role="leader" if p.leader == self.id else "follower",
                    leader_epoch=p.leader_epoch,
                    log_end_offset=p.end,
                    high_watermark=p.end,
                )
        return answer

    async def DescribeConfigs(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        answer = metadata_pb2.DescribeConfigsResponse()
        for resource in request.resources:
            result = answer.results.add(type=resource.type, name=resource.name)
            result.configs.add(name="min.insync.replicas", value="2", source=5)
        return answer

    async def IncrementalAlterConfigs(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        self.alterations.append(request)
        answer = metadata_pb2.IncrementalAlterConfigsResponse(pending_brokers=[3])
        for resource in request.resources:
            result = answer.results.add(type=resource.type, name=resource.name)
            if any(config.name == "segment.byte" for config in resource.configs):
                result.error_code = errors.InvalidConfig.code
                result.error_message = "unknown topic configuration key 'segment.byte'"
        return answer

    async def ElectLeaders(self, request: Any, context: Any) -> Any:
        """Who is designated leads; broker 1 is the preferred leader of all."""
        await self.awake.wait()
        answer = elections_pb2.ElectLeadersResponse()
        for topic in request.topics:
            if topic.name not in self.cluster.topics:
                code = errors.UnknownTopicOrPartition.code
                answer.results.add(topic=topic.name, partition=-1, leader=-1, error_code=code)
                continue
            wanted = {p.partition: p.leader for p in topic.partitions}
            every = range(len(self.cluster.topics[topic.name][1]))
            for index in wanted or every:
                designated = request.election_type == 100
                leader = wanted[index] if designated else 1
                result = answer.results.add(topic=topic.name, partition=index, leader=leader)
                if self.cluster.partition(topic.name, index).leader == leader:
                    result.error_code = errors.ElectionNotNeeded.code
                else:
                    self.cluster.move_leader(topic.name, index, leader)
        return answer

    async def DeleteRecords(self, request: Any, context: Any) -> Any:
        """As a leader that has no followers, and to which -1 is the end."""
        self.calls.append("DeleteRecords")
        await self.awake.wait()
        answer = delete_records_pb2.DeleteRecordsResponse()
        for topic in request.topics:
            results = answer.topics.add(topic_id=topic.topic_id)
            for wanted in topic.partitions:
                p = self.cluster.find(topic.topic_id, wanted.partition)
                result = results.partitions.add(partition=wanted.partition, low_watermark=-1)
                if p is None or p.leader != self.id:
                    result.error_code = errors.NotLeaderOrFollower.code
                elif wanted.offset > p.end:
                    result.error_code = errors.OffsetOutOfRange.code
                    result.error_message = f"offset {wanted.offset} is beyond {p.end}"
                else:
                    p.start = max(p.start, p.end if wanted.offset == -1 else wanted.offset)
                    result.low_watermark = p.start
        return answer

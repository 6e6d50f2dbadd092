"""Watchers of a real cluster: the records, the kill of a broker, and its next incarnation."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio

from strandline import Admin, NewTopic, Producer
from strandline_proto.v1 import services_pb2_grpc, watch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from support.cluster import MakeCluster

DEADLINE_S = 60.0
TOPIC = "orders"


class Watched:
    """What one stream has said so far, as a console keeps it."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.sequences: list[int] = []
        self.incarnations: set[str] = set()
        self.replicas: dict[tuple[str, int], watch_pb2.WatchedReplica] = {}
        self.partitions: dict[tuple[str, int], watch_pb2.WatchedPartition] = {}
        self.events: list[watch_pb2.WatchEvent] = []

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not condition():
                    self._take(await self._call.read())
        except TimeoutError:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}") from None

    def _take(self, frame: watch_pb2.WatchResponse) -> None:
        assert frame.error_code == 0, frame.error_message
        if frame.keyframe:
            self.replicas.clear()
            self.partitions.clear()
        self.sequences.append(frame.sequence)
        self.incarnations.add(frame.incarnation_id)
        for topic in frame.replicas:
            for replica in topic.replicas:
                kept = self.replicas.setdefault(
                    (topic.topic, replica.partition), watch_pb2.WatchedReplica()
                )
                for field, _ in replica.ListFields():
                    kept.ClearField(field.name)  # type: ignore[arg-type] # a part of it
                kept.MergeFrom(replica)
        for changed in frame.partitions:
            for partition in changed.partitions:
                self.partitions[changed.topic, partition.partition] = partition
        self.events.extend(frame.events)

    def log_end(self, partition: int) -> int:
        return self.replicas[TOPIC, partition].offsets.log_end


@asynccontextmanager
async def watching(target: str, **request: Any) -> AsyncIterator[Watched]:
    async with grpc.aio.insecure_channel(target) as channel:
        call = services_pb2_grpc.WatchServiceStub(channel).Watch(
            watch_pb2.WatchRequest(**request), wait_for_ready=True
        )
        yield Watched(call)
        call.cancel()


async def test_the_records_the_kill_and_the_next_incarnation(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=3)
    bootstrap = cluster.grpc_bootstrap
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=3)])
        ends = {}
        async with watching(
            cluster.grpc_address(2), topics=[watch_pb2.WatchedTopic(topic=TOPIC)]
        ) as second:
            await second.until(lambda: (TOPIC, 0) in second.replicas, "the replica is there")
            assert {topic for topic, _ in second.replicas} == {TOPIC}, "nothing else is selected"
            for _ in range(3):
                await producer.send_and_wait(TOPIC, b"v", partition=0)
            await second.until(lambda: second.log_end(0) == 3, "its copy is there")
            replica = second.replicas[TOPIC, 0]
            ends[2] = (second.incarnations, replica.epochs.entries[0].start_offset)
            assert second.sequences == [*range(1, len(second.sequences) + 1)]
        async with watching(cluster.controller_address) as controller:
            await controller.until(
                lambda: (TOPIC, 0) in controller.partitions, "the controller knows the partition"
            )
            leader = controller.partitions[TOPIC, 0].leader_id
            await asyncio.to_thread(cluster.kill, leader)
            await controller.until(
                lambda: any(e.election.topic == TOPIC for e in controller.events), "an election"
            )
            fences = [e.broker for e in controller.events if e.HasField("broker")]
            assert (fences[0].broker_id, fences[0].kind, fences[0].why) == (
                leader,
                watch_pb2.BROKER_EVENT_KIND_FENCED,
                "its process is gone",
            )
            elected = next(
                e.election
                for e in controller.events
                if e.HasField("election") and e.election.topic == TOPIC
            )
            assert elected.former_leader == leader
            assert elected.reason == watch_pb2.ELECTION_REASON_BROKER_FENCED
            assert controller.partitions[TOPIC, 0].leader_id == elected.leader_id != leader
        if leader != 2:
            await asyncio.to_thread(cluster.kill, 2)
        await asyncio.to_thread(cluster.start, 2)
        async with watching(cluster.grpc_address(2)) as again:
            await again.until(lambda: (TOPIC, 0) in again.replicas, "the replica is there again")
            assert again.sequences[0] == 1
            assert again.incarnations.isdisjoint(ends[2][0])

"""Servers whose Watch streams a test writes, frame by frame, and the frames they are made of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from strandline_proto.v1 import common_pb2, metadata_pb2, watch_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ENDED = None
"""Ends a stream."""


def rpc_error(code: grpc.StatusCode, details: str = "") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def broker_frame(
    broker_id: int,
    *replicas: watch_pb2.WatchedReplicas,
    incarnation: str = "one",
    time_ms: int = 1_000,
    **fields: Any,
) -> watch_pb2.WatchResponse:
    return watch_pb2.WatchResponse(
        server=watch_pb2.WATCHED_SERVER_BROKER,
        node_id=broker_id,
        incarnation_id=incarnation,
        time_ms=time_ms,
        replicas=replicas,
        **fields,
    )


def controller_frame(
    *partitions: watch_pb2.WatchedPartitions, time_ms: int = 1_000, **fields: Any
) -> watch_pb2.WatchResponse:
    return watch_pb2.WatchResponse(
        server=watch_pb2.WATCHED_SERVER_CONTROLLER,
        node_id=100,
        incarnation_id="controller 1",
        time_ms=time_ms,
        partitions=partitions,
        **fields,
    )


def replica(
    topic: str = "t",
    partition: int = 0,
    *,
    topic_id: bytes = b"1",
    end: int | None = None,
    watermark: int = 0,
    leader: bool | None = None,
    epoch: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    **parts: Any,
) -> watch_pb2.WatchedReplicas:
    """The parts that are given; `end` the offsets, `leader` the role."""
    found = watch_pb2.WatchedReplica(partition=partition, **parts)
    if end is not None:
        found.offsets.CopyFrom(
            watch_pb2.ReplicaOffsets(log_end=end, durable=end, high_watermark=watermark)
        )
    if leader is not None:
        role = watch_pb2.WATCHED_ROLE_LEADER if leader else watch_pb2.WATCHED_ROLE_FOLLOWER
        found.role.CopyFrom(watch_pb2.ReplicaRole(role=role, leader_epoch=epoch, isr=isr))
    return watch_pb2.WatchedReplicas(topic=topic, topic_id=topic_id, replicas=[found])


def followers(*positions: tuple[int, int]) -> watch_pb2.ReplicaFollowers:
    """The leader's view: (broker, fetch offset) of each follower."""
    return watch_pb2.ReplicaFollowers(
        followers=[
            watch_pb2.FollowerPosition(broker_id=broker, fetch_offset=offset)
            for broker, offset in positions
        ]
    )


def partition(
    topic: str = "t",
    number: int = 0,
    *,
    topic_id: bytes = b"1",
    leader: int | None = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    min_isr: int = 2,
) -> watch_pb2.WatchedPartitions:
    decided = watch_pb2.WatchedPartition(
        partition=number, isr=isr, replicas=replicas, min_insync_replicas=min_isr, leader_id=leader
    )
    return watch_pb2.WatchedPartitions(topic=topic, topic_id=topic_id, partitions=[decided])


def truncation(number: int, start: int, end: int, **fields: Any) -> watch_pb2.WatchEvent:
    """Broker's event: it truncated `t:0` from `start` to `end`."""
    return watch_pb2.WatchEvent(
        number=number,
        time_ms=1_000,
        truncation=watch_pb2.TruncationEvent(
            topic="t", topic_id=b"1", from_offset=start, to_offset=end, **fields
        ),
    )


class ScriptedCluster:
    """Brokers 1 to `brokers` at `b1:1` ..., the controller at `c:1`; a test sends their frames.

    A stream waits for what the test sends to its address. An exception is raised in the stream.
    """

    def __init__(self, brokers: int = 3) -> None:
        self.brokers = list(range(1, brokers + 1))
        self.opened: list[str] = []
        self.unreachable: set[str] = set()
        self._queues: dict[str, asyncio.Queue[Any]] = {}

    def send(self, address: str, *frames: Any) -> None:
        for frame in frames:
            self._queue(address).put_nowait(frame)

    def _queue(self, address: str) -> asyncio.Queue[Any]:
        return self._queues.setdefault(address, asyncio.Queue())

    async def frames(self, address: str) -> AsyncGenerator[watch_pb2.WatchResponse]:
        self.opened.append(address)
        self._check(address)
        while (frame := await self._queue(address).get()) is not ENDED:
            if isinstance(frame, Exception):
                raise frame
            yield frame

    def _check(self, address: str) -> None:
        if address in self.unreachable:
            raise rpc_error(grpc.StatusCode.UNAVAILABLE, "Connection refused")

    async def metadata(self, address: str) -> metadata_pb2.MetadataResponse:
        self._check(address)
        answer = metadata_pb2.MetadataResponse()
        for broker in self.brokers:
            if f"b{broker}:1" not in self.unreachable:
                answer.brokers.add(node_id=broker, host=f"b{broker}", port=1)
        return answer

    async def cluster(self, address: str) -> metadata_pb2.DescribeClusterResponse:
        self._check(address)
        answer = metadata_pb2.DescribeClusterResponse(cluster_id="cluster")
        answer.controller.CopyFrom(
            metadata_pb2.ControllerDescription(id=100, host="c", port=1, version="0.1.0+abc")
        )
        for broker in self.brokers:
            endpoint = common_pb2.Endpoint(listener="GRPC", host=f"b{broker}", port=1)
            answer.brokers.add(id=broker, listeners=[endpoint], version="0.1.0+abc")
        return answer

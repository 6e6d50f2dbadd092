"""Members of a group that speak to a `GroupBroker` over gRPC."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio

from strandline_broker.rpc.broker_service import Service, add_broker_service
from strandline_broker.rpc.groups.calls import GroupCalls
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from strandline_runtime.real import real_runtime
from support.group_broker import ORDERS, WAIT_S
from support.replica_nodes import eventually, not_served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from support.group_broker import GroupBroker


@asynccontextmanager
async def served(b: GroupBroker) -> AsyncIterator[BrokerServiceAsyncStub]:
    """The calls of groups at that broker, over gRPC."""
    runtime = real_runtime("broker-1")
    calls = GroupCalls(runtime, b.shards, b.metadata, "PLAINTEXT")
    server = runtime.network.server()
    service = Service(
        runtime, ServerMetrics(runtime.metrics, runtime.clock), calls, not_served(calls)
    )
    add_broker_service(server, service)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = runtime.network.channel(f"127.0.0.1:{port}")
    try:
        yield BrokerServiceStub(channel)
    finally:
        await channel.close()
        await server.stop(None)


class Member:
    """A member that speaks on a stream."""

    def __init__(self, stub: BrokerServiceAsyncStub, member_id: str, generation: int = 1) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, tuple[int, ...]] = {}
        self.seen = 0
        self._generation = generation
        self._seq = 0
        self._writing = asyncio.Lock()
        self.call = stub.GroupSession()

    async def beat(
        self,
        epoch: int | None = None,
        *,
        owned: dict[bytes, tuple[int, ...]] | None = None,
        seen: int | None = None,
        full: bool = False,
        instance_id: str | None = None,
    ) -> int:
        """Send a heartbeat; the message's number."""
        request = self.message(epoch, owned=owned, seen=seen, full=full, instance_id=instance_id)
        await self._write(request)
        return request.seq

    def message(
        self,
        epoch: int | None = None,
        *,
        owned: dict[bytes, tuple[int, ...]] | None = None,
        seen: int | None = None,
        full: bool = False,
        instance_id: str | None = None,
    ) -> groups_pb2.GroupSessionRequest:
        """A heartbeat, of what it knows unless told otherwise."""
        self.epoch = self.epoch if epoch is None else epoch
        request = self._request(seen)
        beat = request.heartbeat
        beat.group_id, beat.member_id, beat.member_epoch = "g", self.member_id, self.epoch
        beat.rebalance_timeout_ms = -1
        if instance_id is not None:
            beat.instance_id = instance_id
        if full or self.epoch == 0:
            beat.rebalance_timeout_ms = 60_000
            beat.subscribed_topic_names.names.append(ORDERS)
        beat.topic_partitions.SetInParent()
        for topic_id, partitions in (self.owned if owned is None else owned).items():
            beat.topic_partitions.topic_partitions.add(topic_id=topic_id, partitions=partitions)
        return request

    async def commit(self, offset: int, *, partition: int = 0, epoch: int | None = None) -> int:
        request = self._request(None)
        commit = request.commit
        commit.group_id, commit.member_id = "g", self.member_id
        commit.generation_id_or_member_epoch = self.epoch if epoch is None else epoch
        commit.topics.add(name=ORDERS).partitions.add(
            partition=partition, committed_offset=offset, committed_leader_epoch=-1
        )
        await self._write(request)
        return request.seq

    async def hears(self) -> groups_pb2.GroupSessionResponse:
        """The next message, which it takes over."""
        async with asyncio.timeout(WAIT_S):
            response = await self.call.read()
        assert isinstance(response, groups_pb2.GroupSessionResponse), response
        if response.HasField("heartbeat") and response.heartbeat.error_code == 0:
            self.seen, self.epoch = response.push, response.heartbeat.member_epoch
            if response.heartbeat.HasField("assignment"):
                self.owned = owned_in(response.heartbeat)
        return response

    async def ends(self) -> None:
        """Nothing follows on the stream."""
        async with asyncio.timeout(WAIT_S):
            assert await self.call.read() is grpc.aio.EOF

    async def _write(self, request: groups_pb2.GroupSessionRequest) -> None:
        async with self._writing:  # of a call one at a time
            await self.call.write(request)

    def _request(self, seen: int | None) -> groups_pb2.GroupSessionRequest:
        self._seq += 1
        return groups_pb2.GroupSessionRequest(
            stream_generation=self._generation,
            seq=self._seq,
            seen_push=self.seen if seen is None else seen,
        )


class Streamer(Member):
    """A member of which a test does not say how it speaks: on a stream of its own."""

    generations = 0

    def __init__(self, stub: BrokerServiceAsyncStub, member_id: str) -> None:
        Streamer.generations += 1
        super().__init__(stub, member_id, Streamer.generations)

    async def speak(self, epoch: int | None = None, **fields: Any) -> int:
        """Send a heartbeat and hear what it is answered; the error code."""
        seq = await self.beat(epoch, **fields)
        while (said := await self.hears()).answers_seq != seq:
            pass
        return said.heartbeat.error_code

    async def learns(self) -> int:
        """Be told what is news to it; the error code."""
        return (await self.hears()).heartbeat.error_code

    async def commits(self, offset: int, *, partition: int = 0, epoch: int | None = None) -> int:
        """The error code."""
        seq = await self.commit(offset, partition=partition, epoch=epoch)
        while (said := await self.hears()).answers_seq != seq:
            pass
        return _code_in(said.commit)


class Caller:
    """The same by single calls."""

    def __init__(self, stub: BrokerServiceAsyncStub, member_id: str) -> None:
        self._stub = stub
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, tuple[int, ...]] = {}

    async def speak(self, epoch: int | None = None, *, full: bool = False, **fields: Any) -> int:
        self.epoch = self.epoch if epoch is None else epoch
        request = groups_pb2.ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        request.rebalance_timeout_ms = -1
        if full or self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names.names.append(ORDERS)
        request.topic_partitions.SetInParent()
        for topic_id, partitions in self.owned.items():
            request.topic_partitions.topic_partitions.add(topic_id=topic_id, partitions=partitions)
        answer = await self._stub.ConsumerGroupHeartbeat(request)
        if answer.error_code == 0 and answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
            if answer.HasField("assignment"):
                self.owned = owned_in(answer)
        return answer.error_code

    async def learns(self) -> int:
        return await self.speak()

    async def commits(self, offset: int, *, partition: int = 0, epoch: int | None = None) -> int:
        request = committed_offsets_pb2.OffsetCommitRequest(
            group_id="g",
            member_id=self.member_id,
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
        )
        request.topics.add(name=ORDERS).partitions.add(
            partition=partition, committed_offset=offset, committed_leader_epoch=-1
        )
        return _code_in(await self._stub.OffsetCommit(request))


def _code_in(answer: committed_offsets_pb2.OffsetCommitResponse) -> int:
    """Of the commit of one partition."""
    return answer.error_code or answer.topics[0].partitions[0].error_code


def owned_in(heartbeat: groups_pb2.ConsumerGroupHeartbeatResponse) -> dict[bytes, tuple[int, ...]]:
    found = heartbeat.assignment.topic_partitions
    return {each.topic_id: tuple(each.partitions) for each in found}


async def first_member(b: GroupBroker, stub: BrokerServiceAsyncStub) -> Member:
    """`m1`, which has joined a group at that broker when it began to coordinate."""
    await b.lead(1)
    member = Member(stub, "m1")
    await member.beat()
    await eventually(lambda: b.partition.log.log_end_offset > 0, "it is in the log")
    b.replicate()
    await member.hears()
    return member

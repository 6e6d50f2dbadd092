"""A consumer group on real processes: members on streams, a coordinator that is killed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc.aio

from strandline_proto.errors import NONE, from_code
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2, metadata_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.group_broker import ORDERS
from support.group_members import Member

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_local.local_cluster import LocalCluster
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub

DEADLINE_S = 60.0
PARTITIONS = 6


@asynccontextmanager
async def broker_at(target: str) -> AsyncIterator[BrokerServiceAsyncStub]:
    async with grpc.aio.insecure_channel(target) as channel:
        yield BrokerServiceStub(channel)


async def coordinator(cluster: LocalCluster, *, not_broker: int = -1) -> groups_pb2.Coordinator:
    """Of group g, once there is one that lives."""
    request = groups_pb2.FindCoordinatorRequest(coordinator_keys=["g"])
    async with asyncio.timeout(DEADLINE_S):
        while True:
            for broker_id in cluster.alive():
                if not isinstance(broker_id, int):
                    continue
                async with broker_at(cluster.address(broker_id)) as stub:
                    try:
                        (found,) = (await stub.FindCoordinator(request)).coordinators
                    except grpc.aio.AioRpcError:
                        continue  # it is dying, or not up yet
                if found.error_code == NONE and found.node_id != not_broker:
                    return found
            await asyncio.sleep(0.05)


async def make_topics(cluster: LocalCluster) -> None:
    request = metadata_pb2.CreateTopicsRequest(timeout_ms=30_000)
    request.topics.add(name=ORDERS, partitions=PARTITIONS, replication_factor=3)
    async with broker_at(cluster.address(1)) as stub:
        answer = await stub.CreateTopics(request)
    assert [topic.error_code for topic in answer.topics] == [NONE], answer


class Living:
    """A member that does what it is pushed, and goes to the new coordinator with what it has."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.member: Member | None = None
        self._generation = 0
        self._acts: asyncio.Task[None] | None = None
        self._is_leaving = False

    async def open(self, stub: BrokerServiceAsyncStub) -> None:
        """With what it has; the coordinator may not know yet that it is one, or be loading."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self._generation += 1
                before, member = self.member, Member(stub, self.member_id, self._generation)
                if before is not None:
                    member.epoch, member.owned = before.epoch, before.owned
                await member.beat(full=True)
                said = await member.hears()
                if said.heartbeat.error_code == NONE:
                    break
                assert from_code(said.heartbeat.error_code).retriable, said
                await asyncio.sleep(0.05)
        self.member = member
        self._acts = asyncio.get_running_loop().create_task(self._act(member))

    async def _act(self, member: Member) -> None:
        """Until it has left."""
        while True:
            owned, epoch = member.owned, member.epoch
            said = await member.hears()
            assert said.heartbeat.error_code == NONE, said
            if said.heartbeat.member_epoch == -1:
                return
            # Once it leaves, the coordinator ends its stream: nothing more can be written to it.
            if (owned, epoch) != (member.owned, member.epoch) and not self._is_leaving:
                await member.beat()

    def lose(self) -> None:
        """Its stream is gone."""
        assert self._acts is not None
        self._acts.cancel()

    async def leave(self) -> None:
        assert self._acts is not None
        assert self.member is not None
        self._is_leaving = True
        await self.member.beat(-1)
        async with asyncio.timeout(DEADLINE_S):
            await self._acts

    @property
    def owned(self) -> list[int]:
        assert self.member is not None
        return [p for partitions in self.member.owned.values() for p in partitions]


async def at_rest(*members: Living) -> int:
    """Until they share all partitions in one epoch, which is answered."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            owned = sorted(p for each in members for p in each.owned)
            epochs = {each.member.epoch for each in members if each.member is not None}
            if owned == list(range(PARTITIONS)) and len(epochs) == 1:
                return epochs.pop()
            await asyncio.sleep(0.01)


async def fetched(stub: BrokerServiceAsyncStub) -> dict[int, int]:
    """The committed offsets, once the coordinator is loaded."""
    request = committed_offsets_pb2.OffsetFetchRequest()
    request.groups.add(group_id="g", member_epoch=-1)
    async with asyncio.timeout(DEADLINE_S):
        while True:
            (group,) = (await stub.OffsetFetch(request)).groups
            if group.error_code == NONE:
                return {p.partition: p.committed_offset for t in group.topics for p in t.partitions}
            await asyncio.sleep(0.05)


async def test_a_group_outlives_its_coordinator(cluster: LocalCluster) -> None:
    await make_topics(cluster)
    first = await coordinator(cluster)
    members = [Living(f"m{number}") for number in range(3)]
    async with broker_at(f"{first.host}:{first.port}") as stub:
        for member in members:
            await member.open(stub)
        epoch = await at_rest(*members)
        for member in members:
            assert member.member is not None
            for partition in member.owned:
                await member.member.commit(100 + partition, partition=partition)
        acknowledged: dict[int, int] = {}
        async with asyncio.timeout(DEADLINE_S):
            while len(acknowledged) < PARTITIONS:
                acknowledged = await fetched(stub)
        cluster.kill(first.node_id)
        for member in members:
            member.lose()

    second = await coordinator(cluster, not_broker=first.node_id)
    async with broker_at(f"{second.host}:{second.port}") as stub:
        assert await fetched(stub) == acknowledged == {p: 100 + p for p in range(PARTITIONS)}
        for member in members:
            await member.open(stub)
        assert await at_rest(*members) == epoch, "nobody was put out, nothing moves"
        await members.pop().leave()
        assert await at_rest(*members) > epoch
        described = await stub.ConsumerGroupDescribe(
            groups_pb2.ConsumerGroupDescribeRequest(group_ids=["g"])
        )
        assert [m.member_id for m in described.groups[0].members] == ["m0", "m1"]
        assert described.groups[0].group_state == "Stable"
        for member in members:
            await member.leave()
        deleted = await stub.DeleteGroups(groups_pb2.DeleteGroupsRequest(group_ids=["g"]))
        assert [each.error_code for each in deleted.results] == [NONE]
        assert (await stub.ListGroups(groups_pb2.ListGroupsRequest())).groups == []
    cluster.start(first.node_id)

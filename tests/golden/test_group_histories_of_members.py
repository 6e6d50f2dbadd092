"""Histories that have broken coordinators of groups, by number and name: members that join, give
up, go and come back. Each runs on a broker with a real log, and where both ways to speak can live
through it, once with heartbeats by single calls and once with a stream for each member.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.groups.commands import CommitOffsets, PartitionCommit, TopicRef
from strandline_broker.core.groups.effects import RebalanceTimer, SessionTimer
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from strandline_broker.hosts.groups.sessions import MemberStream
from strandline_broker.rpc.groups.session import GroupSessionRpc
from strandline_proto.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    StaleMemberEpoch,
    UnknownMemberId,
)
from strandline_proto.v1 import groups_pb2
from support.group_broker import ORDERS, ORDERS_ID, answered, group_broker
from support.group_members import Caller, Streamer, served
from support.replica_nodes import eventually
from support.scripted_context import ScriptedContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.core.groups.consumer.consumer import ConsumerGroup
    from strandline_broker.core.groups.consumer.current_assignment import Current
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from support.group_broker import GroupBroker

BY_BOTH = pytest.mark.parametrize("kind", [Caller, Streamer], ids=["calls", "streams"])


class Scene:
    """Group g at its coordinator, which commits alone what it writes unless a test freezes it."""

    def __init__(self, broker: GroupBroker, stub: BrokerServiceAsyncStub, kind: Any) -> None:
        self.broker = broker
        self.stub = stub
        self._kind = kind

    def member(self, member_id: str, epoch: int = 0, owned: tuple[int, ...] = ()) -> Any:
        """One that has yet to speak, and takes that for its own."""
        member = self._kind(self.stub, member_id)
        member.epoch, member.owned = epoch, orders(*owned)
        return member

    async def joined(self, member_id: str, **fields: Any) -> Any:
        member = self.member(member_id)
        assert await member.speak(**fields) == 0
        return member

    async def two(self) -> tuple[Any, Any]:
        """m1 and m2 in epoch 2, who have an equal part of orders each."""
        first, second = await self.joined("m1"), await self.joined("m2")
        await first.learns()
        await first.speak()
        await second.learns()
        assert (first.epoch, second.epoch) == (2, 2)
        return first, second

    async def freeze(self) -> None:
        """Nothing is committed from now on but by `broker.replicate()`."""
        await self.broker.lead(1)

    async def fail_over(self) -> None:
        await self.broker.follow(2)
        await self.broker.lead(3, isr=(1,))
        await self.broker.serves()

    @property
    def group(self) -> ConsumerGroup:
        return self.broker.host.groups.table.consumer["g"]

    def current(self, member_id: str) -> Current:
        return self.group.current(member_id)

    def holds(self, member_id: str, *partitions: int) -> bool:
        """Whether just these are assigned to it, as is written."""
        return set(self.current(member_id).assigned.get(ORDERS_ID, ())) == set(partitions)

    def timers(self, member_id: str) -> set[type]:
        running = self.broker.host.timers()
        return {type(key) for key in running if getattr(key, "member_id", None) == member_id}


@asynccontextmanager
async def scene(path: Path, kind: Any = Streamer, *, partitions: int = 2) -> AsyncIterator[Scene]:
    async with group_broker(path) as broker, served(broker) as stub:
        broker.topics = {ORDERS_ID: (ORDERS, partitions)}
        await broker.lead(1, isr=(1,))
        yield Scene(broker, stub, kind)


def orders(*partitions: int) -> dict[bytes, tuple[int, ...]]:
    return {ORDERS_ID: partitions} if partitions else {}


@BY_BOTH
async def test_08_first_member_fast(tmp_path: Path, kind: Any) -> None:
    """One batch with one target; everything is in the answer, which waits for nothing else."""
    async with scene(tmp_path, kind) as s:
        await s.freeze()
        member = s.member("m1")
        joining = asyncio.ensure_future(member.speak())
        await eventually(s.broker.batches, "it is in the log")
        s.broker.replicate()
        assert await joining == 0
        assert (member.epoch, member.owned) == (1, orders(0, 1))
        (batch,) = s.broker.batches()
        keys = [type(key) for key, _ in batch]
        assert keys.count(ConsumerGroupTargetAssignmentMetadataKey) == 1


@BY_BOTH
async def test_09_join_with_revocation(tmp_path: Path, kind: Any) -> None:
    """What m1 commits before it gives partition 1 up is where m2 begins."""
    async with scene(tmp_path, kind) as s:
        first, second = await s.joined("m1"), await s.joined("m2")
        assert (second.epoch, second.owned) == (2, {})
        await first.learns()
        assert (first.epoch, first.owned) == (1, orders(0))
        assert RebalanceTimer in s.timers("m1")
        assert await first.commits(7, partition=1) == 0
        assert s.holds("m2"), "nothing before m1 has said that it is done"
        await first.speak()
        assert (first.epoch, s.timers("m1")) == (2, {SessionTimer})
        await second.learns()
        assert (second.epoch, second.owned) == (2, orders(1))
        assert await s.broker.fetch(1) == 7


async def test_10_crossed_acknowledgement(tmp_path: Path) -> None:
    """m1's "I own 0" is under way when it is granted both; then 1 is wanted for m3, and the old
    message arrives: 1 stays m1's until a newer one says so (P-143).
    """
    async with scene(tmp_path) as s:
        first, second = await s.two()
        assert await second.speak(-1) == 0
        granted = await first.call.read()  # sent, and not looked at
        assert granted.heartbeat.assignment.topic_partitions[0].partitions == [0, 1]
        third = await s.joined("m3")
        wanted = await first.call.read()
        assert wanted.heartbeat.assignment.topic_partitions[0].partitions == [0]
        assert await first.speak(owned=orders(0)) == 0
        assert s.current("m1").pending == {ORDERS_ID: {1: 3}}
        assert third.owned == {}
        assert s.holds("m3")
        await first.speak(owned=orders(0))  # it has seen what that was answered
        await third.learns()
        assert third.owned == orders(1)


async def test_11_parked_grant_overtaken_on_a_stream(tmp_path: Path) -> None:
    """The grant of partition 1 waits for the high watermark; by the time that comes the partition
    is wanted elsewhere, and m1 never hears of it (P-144).
    """
    async with scene(tmp_path) as s:
        first, second = await s.two()
        await s.freeze()
        leaving = asyncio.ensure_future(second.speak(-1))
        await eventually(lambda: s.holds("m1", 0, 1), "it is granted")
        third = s.member("m3")
        joining = asyncio.ensure_future(third.speak())
        await eventually(lambda: s.current("m1").pending, "it is wanted")
        s.broker.replicate()
        assert await leaving == await joining == await first.learns() == 0
        assert (first.epoch, first.owned) == (3, orders(0))
        freed = asyncio.ensure_future(first.speak())
        await eventually(lambda: s.holds("m3", 1), "it is m3's")
        s.broker.replicate()
        assert await freed == await third.learns() == 0
        assert (first.epoch, first.owned, third.owned) == (4, orders(0), orders(1))


async def test_11_parked_grant_overtaken_by_calls(tmp_path: Path) -> None:
    """The same, where m1 has lost patience and asked a second time."""
    async with scene(tmp_path, Caller) as s:
        first, second = await s.two()
        await s.freeze()
        leaving = asyncio.ensure_future(second.speak(-1))
        await eventually(lambda: "m2" not in s.group.members, "m2 is gone")
        granting = asyncio.ensure_future(first.speak())
        await eventually(lambda: s.holds("m1", 0, 1), "it is granted")
        granted = s.broker.partition.log.log_end_offset
        third = s.member("m3")
        joining = asyncio.ensure_future(third.speak())
        await eventually(lambda: "m3" in s.group.members, "m3 is there")
        again = s.member("m1", 2, (0,))
        asking = asyncio.ensure_future(again.speak(full=True))
        await eventually(lambda: s.holds("m1", 0), "it has said that it does not own it")
        s.broker.replicate(granted)
        assert await leaving == 0
        for _ in range(5):  # what was sent before would be there by now
            await s.stub.FindCoordinator(groups_pb2.FindCoordinatorRequest(coordinator_keys=["g"]))
        assert not granting.done(), "m1 was written again since"
        s.broker.replicate()
        assert await granting == await joining == await asking == 0
        assert first.owned == again.owned == orders(0)


@BY_BOTH
async def test_12_revocation_timeout(tmp_path: Path, kind: Any) -> None:
    """m1's callback hangs: m1 is fenced, its work moves, and its late commit is refused."""
    async with scene(tmp_path, kind) as s:
        first, second = await s.joined("m1"), await s.joined("m2")
        await first.learns()
        s.broker.shard.on_timer(RebalanceTimer("g", "m1"), 0)
        assert "m1" in s.group.members, "a timer of an earlier epoch"
        s.broker.shard.on_timer(RebalanceTimer("g", "m1"), first.epoch)
        await second.learns()
        assert second.owned == orders(0, 1)
        with pytest.raises(UnknownMemberId):
            await answered(s.broker.commit(7, partition=1, member_id="m1", epoch=1))
        assert await first.learns() == UnknownMemberId.code
        assert s.timers("m1") == set()


@BY_BOTH
async def test_13_lost_answer_previous_epoch(tmp_path: Path, kind: Any) -> None:
    """The answer with epoch 2 was lost: epoch 1 is taken with a part of what is assigned, and what
    is told then is everything.
    """
    async with scene(tmp_path, kind) as s:
        first, _ = await s.joined("m1"), await s.joined("m2")
        await first.learns()
        await first.speak()
        assert first.epoch == 2
        again = s.member("m1", 1, (0,))
        assert await again.speak(full=True) == 0
        assert (again.epoch, again.owned) == (2, orders(0))
        liar = s.member("m1", 1, (0, 1))
        assert await liar.speak(full=True) == FencedMemberEpoch.code


async def test_14_stale_stream(tmp_path: Path) -> None:
    """Generation 2 is open when what generation 1 still said is read: that m1 leaves."""
    async with scene(tmp_path) as s:
        host, old, context = s.broker.host, s.member("m1"), ScriptedContext()
        newer = MemberStream(host, generation=99, group_id="g", member_id="m1", wake=lambda: None)

        async def said() -> AsyncIterator[groups_pb2.GroupSessionRequest]:
            yield old.message()
            await eventually(lambda: context.written, "it has joined")
            host.sessions.open(newer)
            yield old.message(-1)  # it had come before

        await GroupSessionRpc(s.broker.shards).GroupSession(said(), context)
        assert host.members() == 1
        assert len(context.written) == 1, "and nothing more is sent on it"
        newer.mark()
        assert newer.next() is not None


async def test_15_half_open_stream(tmp_path: Path) -> None:
    """Pushes to m1 are lost on the way, until its own timer has it open another stream: it has
    missed nothing, and nobody moves. Without that its session would have ended.
    """
    async with scene(tmp_path, partitions=4) as s:
        _, second = await s.two()
        await s.broker.set_topics({ORDERS_ID: (ORDERS, 6)})
        await second.learns()
        assert (s.group.epoch, second.epoch) == (3, 3)
        moved = {m: dict(s.current(m).assigned) for m in ("m1", "m2")}
        again = s.member("m1", 2, (0, 1))
        assert await again.speak(full=True) == 0
        assert again.epoch == s.group.epoch == 3
        assert {m: dict(s.current(m).assigned) for m in ("m1", "m2")} == moved
        assert sorted((*again.owned[ORDERS_ID], *second.owned[ORDERS_ID])) == list(range(6))
        s.broker.shard.on_timer(SessionTimer("g", "m2"), -1)
        assert "m2" not in s.group.members, "that its stream is open keeps nobody alive"


@BY_BOTH
async def test_16_static_bounce(tmp_path: Path, kind: Any) -> None:
    """A static member that is back within its session finds everything where it was; one that is
    not has lost its place, and the process from before has in any case.
    """
    async with scene(tmp_path, kind, partitions=4) as s:
        first, second = await s.joined("m1", instance_id="i"), await s.joined("m2")
        await first.learns()
        await first.speak(instance_id="i")
        await second.learns()
        held = dict(first.owned), dict(second.owned)
        assert await first.speak(-2, instance_id="i") == 0
        assert SessionTimer in s.timers("m1"), "it has its session to come back"
        assert s.holds("m1", *held[0][ORDERS_ID])
        back = s.member("m3")
        assert await back.speak(instance_id="i") == 0
        await second.speak()
        assert (back.owned, second.owned) == held
        assert (back.epoch, s.group.epoch) == (2, 2)
        zombie = s.member("m1", 2, (0, 1))
        assert await zombie.speak(instance_id="i") == FencedInstanceId.code
        assert await back.speak(-2, instance_id="i") == 0
        s.broker.shard.on_timer(SessionTimer("g", "m3"), -1)
        await second.learns()
        assert second.owned == orders(0, 1, 2, 3)


@BY_BOTH
async def test_17_static_failover(tmp_path: Path, kind: Any) -> None:
    """The new member id was answered: whoever coordinates next knows it, and fences the old."""
    async with scene(tmp_path, kind) as s:
        first = await s.joined("m1", instance_id="i")
        assert await first.speak(-2, instance_id="i") == 0
        back = await s.joined("m2", instance_id="i")
        await s.fail_over()
        wish = PartitionCommit(TopicRef(ORDERS_ID), 0, 5)

        def commit(member_id: str) -> CommitOffsets:
            return CommitOffsets(
                group_id="g",
                partitions=(wish,),
                member_id=member_id,
                member_epoch=1,
                instance_id="i",
            )

        with pytest.raises(FencedInstanceId, match="m2"):
            await answered(s.broker.submit(commit("m1")))
        assert await s.broker.fetch() == -1
        await answered(s.broker.submit(commit("m2")))
        assert await s.broker.fetch() == 5
        again = s.member("m2", back.epoch, (0, 1))
        assert await again.speak(full=True, instance_id="i") == 0
        zombie = s.member("m1", 1)
        assert await zombie.speak(instance_id="i") == FencedInstanceId.code


@BY_BOTH
async def test_21_commit_one_epoch_behind(tmp_path: Path, kind: Any) -> None:
    """m2 is at 3; what it has kept since 2 may be committed by epoch 2, what it got in 3 not."""
    async with scene(tmp_path, kind, partitions=4) as s:
        first, second = await s.two()
        kept, gained = second.owned[ORDERS_ID], first.owned[ORDERS_ID]
        assert await first.speak(-1) == 0
        await second.learns()
        assert (second.epoch, second.owned) == (3, orders(0, 1, 2, 3))
        for partition in kept:
            assert await second.commits(9, partition=partition, epoch=2) == 0
            assert await s.broker.fetch(partition) == 9
        for partition in gained:
            late = await second.commits(9, partition=partition, epoch=2)
            assert late == StaleMemberEpoch.code
            assert await s.broker.fetch(partition) == -1
            assert await second.commits(9, partition=partition, epoch=3) == 0
        assert await second.commits(9, partition=kept[0], epoch=1) == StaleMemberEpoch.code
        assert await second.commits(9, partition=kept[0], epoch=4) == StaleMemberEpoch.code

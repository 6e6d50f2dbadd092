"""Calls that wait for other members: answered once, or ended with connection or shard (I-122)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.groups.effects import SessionTimer
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
    WireError,
)
from support.classic_broker import classic_broker, code_of, ended

if TYPE_CHECKING:
    from pathlib import Path


async def test_members_join_sync_and_leave(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        first, second = await classic.id_of_new(), await classic.id_of_new()
        calls = classic.join(first), classic.join(second)
        answers = [await ended(call) for call in calls]
        assert [answer.generation for answer in answers] == [1, 1]
        assert answers[0].leader == answers[1].leader
        leader = answers[0].leader
        other = second if leader == first else first
        waiting = classic.sync(other, 1)
        assert await classic.waits(waiting)
        led = classic.sync(leader, 1, parts={leader: b"l", other: b"o"})
        assert (await ended(led)).assignment == b"l"
        assert (await ended(waiting)).assignment == b"o"
        assert await classic.heartbeat(leader, 1) == 0
        await classic.leave(other)
        assert await classic.heartbeat(leader, 1) == RebalanceInProgress.code
        assert await classic.heartbeat(other, 1) == UnknownMemberId.code
        assert len(classic.broker.host.calls) == 0


async def test_nothing_leaves_before_it_is_committed(tmp_path: Path) -> None:
    """I-104: the assignment, and what others learn of it."""
    async with classic_broker(tmp_path) as classic:
        broker = classic.broker
        await broker.lead(2)
        await broker.serves()
        member_id = await classic.id_of_new()
        joined = await ended(classic.join(member_id))
        led = classic.sync(member_id, joined.generation, parts={member_id: b"l"})
        beat = asyncio.create_task(classic.heartbeat(member_id, 1))
        assert await classic.waits(led)
        assert await classic.waits(beat)
        assert broker.host.groups.table.classic["g"].members[0].assignment == b"l"
        broker.replicate()
        assert (await ended(led)).assignment == b"l"
        assert await ended(beat) == 0


async def test_a_commit_that_takes_too_long_lets_the_member_try_again(tmp_path: Path) -> None:
    async with classic_broker(tmp_path, offsets_commit_timeout_ms="20") as classic:
        await classic.broker.lead(2)
        await classic.broker.serves()
        member_id = await classic.id_of_new()
        await ended(classic.join(member_id))
        led = classic.sync(member_id, 1, parts={member_id: b"l"})
        assert await code_of(led) == CoordinatorNotAvailable.code


async def test_the_wait_for_members_has_no_deadline_of_its_own(tmp_path: Path) -> None:
    async with classic_broker(tmp_path, offsets_commit_timeout_ms="1") as classic:
        leader, other = await classic.stable("a", "b")
        call = classic.join(leader)
        assert await classic.waits(call)
        await asyncio.wait({call}, timeout=0.05)
        assert not call.done()
        await classic.leave(other)
        assert (await ended(call)).generation == 2


@pytest.mark.parametrize("kind", ["join", "sync"])
async def test_a_call_ends_with_its_connection(tmp_path: Path, kind: str) -> None:
    async with classic_broker(tmp_path) as classic:
        leader, other = await classic.stable("a", "b")
        call: asyncio.Task[object]
        if kind == "join":
            call = classic.join(other, protocols=())
            assert await code_of(call) == 23
            call = classic.join(leader)
        else:
            calls = classic.join(leader), classic.join(other)
            for each in calls:
                await ended(each)
            call = classic.sync(other, 2)
        assert await classic.waits(call)
        assert len(classic.broker.host.calls) == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert len(classic.broker.host.calls) == 0
        group = classic.broker.host.groups.table.classic_group("g")
        assert group is not None
        assert not any(member.is_parked for member in group.members.values())
        assert group.calls == {}


async def test_a_join_of_a_gone_connection_holds_nobody_up(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        leader, other = await classic.stable("a", "b")
        gone = classic.join(leader)
        assert await classic.waits(gone)
        gone.cancel()
        answer = await ended(classic.join(other))
        assert (answer.generation, answer.leader) == (2, other)


@pytest.mark.parametrize("end", ["resigned", "deleted", "disk"])
async def test_calls_end_with_the_shard(tmp_path: Path, end: str) -> None:
    async with classic_broker(tmp_path) as classic:
        leader, _ = await classic.stable("a", "b")
        call = classic.join(leader)
        assert await classic.waits(call)
        host = classic.broker.host
        if end == "resigned":
            await classic.broker.follow(2)
        elif end == "deleted":
            await classic.broker.delete()
        else:
            host.shard._load_again()
        assert not await classic.waits(call)
        assert await code_of(call) == NotCoordinator.code
        assert (len(host.calls), host.groups.table.live) == (0, {})


async def test_timers_of_every_kind_end_with_the_shard(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        leader, other = await classic.stable("a", "b")
        await classic.id_of_new()
        classic.join(leader).add_done_callback(lambda call: call.exception())
        await classic.broker.turns()
        host = classic.broker.host
        running = host.context.timers.running(host.shard)
        assert {type(key).__name__ for key in running} == {"SessionTimer", "JoinTimer"}
        assert host.members() == 3
        await classic.broker.follow(2)
        assert host.context.timers.running(host.shard) == set()
        await classic.broker.lead(3, isr=(1,))
        await classic.broker.serves()
        host = classic.broker.host
        assert host.context.timers.running(host.shard) == {
            SessionTimer("g", leader),
            SessionTimer("g", other),
        }


async def test_while_the_shard_loads_members_wait_or_begin_again(tmp_path: Path) -> None:
    """A heartbeat goes on; a SyncGroup has lost its rebalance."""
    async with classic_broker(tmp_path) as classic:
        (member_id,) = await classic.stable("a")
        await classic.broker.follow(2)
        assert await classic.heartbeat(member_id, 1) == NotCoordinator.code
        await classic.broker.lead(3, publish=False)
        assert await classic.heartbeat(member_id, 1) == 0
        assert await code_of(classic.sync(member_id, 1)) == RebalanceInProgress.code
        assert await code_of(classic.join(member_id)) == 14


async def test_too_few_replicas_refuse_changes_and_keep_sessions(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        leader, other = await classic.stable("a", "b")
        await classic.broker.lead(2, min_insync=2)
        classic.broker.replicate()
        await classic.broker.serves()
        waiting = classic.join(leader)
        assert await classic.waits(waiting)
        await classic.broker.lead(2, isr=(1,), min_insync=2)
        assert await code_of(classic.join(leader)) == CoordinatorNotAvailable.code
        waiting.cancel()
        assert not await classic.waits(waiting)
        group = classic.broker.host.groups.table.classic_group("g")
        assert group is not None
        assert (group.calls, len(classic.broker.host.calls)) == ({}, 0)
        assert await classic.heartbeat(other, 1) == RebalanceInProgress.code


async def test_a_timer_completes_a_rebalance(tmp_path: Path) -> None:
    """The join phase of a group whose other member is silent ends by the rebalance timeout."""
    async with classic_broker(tmp_path) as classic:
        ids = [await classic.id_of_new() for _ in range(2)]
        calls = [classic.join(each, rebalance_timeout_ms=50) for each in ids]
        for call in calls:
            await ended(call)
        await classic.settle(list(ids))
        again = await ended(classic.join(ids[0], rebalance_timeout_ms=50))
        assert (again.generation, again.leader) == (2, ids[0])
        assert await classic.heartbeat(ids[1], 2) == UnknownMemberId.code


async def test_an_answer_without_a_receiver_is_dropped(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        await classic.broker.lead(2)
        await classic.broker.serves()
        member_id = await classic.id_of_new()
        await ended(classic.join(member_id))
        led = classic.sync(member_id, 1, parts={member_id: b"l"})
        assert await classic.waits(led)
        led.cancel()
        with pytest.raises(asyncio.CancelledError):
            await led
        classic.broker.replicate()
        assert await classic.heartbeat(member_id, 1) == 0


async def test_a_group_that_is_elsewhere_is_refused(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        await classic.broker.follow(2)
        with pytest.raises(WireError) as refused:
            await classic.join()
        assert refused.value.code == NotCoordinator.code

"""Histories that have broken coordinators of classic groups, by number and name. Each runs on a
broker with a real log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.groups.records.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from strandline_proto.errors import (
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
    WireError,
)
from support.classic_broker import classic_broker, code_of, ended
from support.group_broker import ORDERS_ID, answered

if TYPE_CHECKING:
    from pathlib import Path

    from support.classic_broker import ClassicBroker


def written(classic: ClassicBroker) -> list[GroupMetadataValue]:
    """The records of the group in the log."""
    found: list[Any] = [
        value
        for batch in classic.broker.batches()
        for key, value in batch
        if isinstance(key, GroupMetadataKey)
    ]
    return found


async def committed(
    classic: ClassicBroker, member_id: str, generation: int, instance_id: str | None = None
) -> int:
    """The error code of a commit."""
    from strandline_broker.core.groups.commands import CommitOffsets, PartitionCommit, TopicRef

    command = CommitOffsets(
        group_id="g",
        partitions=(PartitionCommit(TopicRef(ORDERS_ID), 0, 5),),
        member_id=member_id,
        member_epoch=generation,
        instance_id=instance_id,
    )
    try:
        await answered(classic.broker.submit(command))
    except WireError as error:
        return error.code
    return 0


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance"])
async def test_17_static_failover(tmp_path: Path, state: str) -> None:
    """The new id of an instance is durable before an answer has it, so the former one is fenced
    after a failover too.
    """
    async with classic_broker(tmp_path) as classic:
        (former,) = await classic.stable(instance_id="i")
        if state == "CompletingRebalance":
            await ended(classic.join(former, instance_id="i"))
        new = (await ended(classic.join(instance_id="i"))).member_id
        assert new != former
        generation = written(classic)[-1].generation
        await classic.fail_over()
        assert await committed(classic, former, generation, instance_id="i") == 82
        assert await classic.heartbeat(former, generation, "i") == FencedInstanceId.code
        assert await code_of(classic.join(former, instance_id="i")) == 82
        assert await committed(classic, former, generation) == UnknownMemberId.code
        assert await committed(classic, "", generation) == UnknownMemberId.code
        assert await committed(classic, new, generation, instance_id="i") == 0


async def test_17_the_new_id_waits_for_its_record(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        (former,) = await classic.stable(instance_id="i")
        await classic.broker.lead(2)
        await classic.broker.serves()
        call = classic.join(instance_id="i")
        beat = asyncio.create_task(classic.heartbeat(former, 1, "i"))
        assert await classic.waits(call)
        assert not beat.done(), "nor is the former one refused before it"
        classic.broker.replicate()
        assert (await ended(call)).member_id != former
        assert await ended(beat) == FencedInstanceId.code


async def test_18_classic_two_members(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        ids = [await classic.id_of_new(), await classic.id_of_new()]
        calls = [classic.join(each) for each in ids]
        leaders = [(await ended(call)).leader for call in calls]
        assert leaders == [ids[0], ids[0]]
        await classic.settle(list(ids))
        assert [value.generation for value in written(classic)] == [1]
        again = [classic.join(each) for each in ids]
        assert {(await ended(call)).generation for call in again} == {2}
        await classic.fail_over()
        assert await classic.heartbeat(ids[0], 2) == IllegalGeneration.code
        assert (await ended(classic.sync(ids[1], 1))).assignment == b"1"
        third = [classic.join(each) for each in ids]
        assert {(await ended(call)).generation for call in third} == {2}
        await classic.settle(list(ids))
        last = written(classic)[-1]
        assert (last.generation, last.leader, len(last.members)) == (2, ids[0], 2)
        assert [member.assignment for member in last.members] == [b"0", b"1"]


async def test_19_classic_sync_lost(tmp_path: Path) -> None:
    """The leader dies before its SyncGroup; the others are out of it after the rebalance
    timeout.
    """
    async with classic_broker(tmp_path) as classic:
        ids = [await classic.id_of_new(), await classic.id_of_new()]
        calls = [classic.join(each, rebalance_timeout_ms=50) for each in ids]
        for call in calls:
            await ended(call)
        waiting = classic.sync(ids[1], 1)
        assert await code_of(waiting) == RebalanceInProgress.code
        answer = await ended(classic.join(ids[1]))
        assert (answer.generation, answer.leader, len(answer.members)) == (2, ids[1], 1)
        assert written(classic) == []


async def test_19_a_dead_id_is_not_waited_for(tmp_path: Path) -> None:
    async with classic_broker(tmp_path, group_min_session_timeout_ms="1") as classic:
        (member_id,) = await classic.stable("a")
        await classic.id_of_new(session_timeout_ms=30)
        answer = await ended(classic.join(member_id))
        assert answer.generation == 2


async def test_an_assignment_that_was_told_survives(tmp_path: Path) -> None:
    async with classic_broker(tmp_path) as classic:
        leader, other = await classic.stable("a", "b")
        await classic.fail_over()
        assert (await ended(classic.sync(leader, 1))).assignment == b"0"
        assert (await ended(classic.sync(other, 1))).assignment == b"1"
        assert await committed(classic, other, 1) == 0

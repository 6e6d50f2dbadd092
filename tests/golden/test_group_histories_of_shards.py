"""Histories that have broken coordinators of groups, by number and name: leaderships that come and
go, logs that are not what they should be, and what a busy or paused broker makes of its groups.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import BeatAnswer, ConsumerBeat, SessionEnded
from strandline_broker.core.groups.effects import SessionTimer
from strandline_broker.core.groups.records.consumer_records import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from strandline_broker.hosts.groups.sessions import MemberStream, StreamBeat
from strandline_proto.batch import build_batch
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from support.group_broker import (
    ORDERS,
    ORDERS_ID,
    PARTITIONS,
    WAIT_S,
    answered,
    group_broker,
)
from support.groups_rig import SESSION_MS, GroupsRig
from support.replica_nodes import eventually
from support.stalled_timers import StalledTimers, swept

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from strandline_broker.hosts.coordination.shard_host import ShardHost
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from support.group_broker import GroupBroker

ALL = {ORDERS_ID: tuple(range(PARTITIONS))}


async def test_01_commit_survives_failover(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        commit = b.commit(5)
        b.replicate()
        await answered(commit)
        await b.follow(2)
        await b.lead(3)
        await b.serves()
        assert await b.fetch() == 5


async def test_02_demoted_coordinator_does_not_ack(tmp_path: Path) -> None:
    """Cut off, it waits with an answer; then others' records stand where its own stood, and their
    high watermark is no word about its own (P-101).
    """
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        reply = b.commit(5)
        await b.turns()
        assert not reply.done()
        await b.follow(2)
        b.partition.log.truncate_to(0)
        b.shards.committed(b.partition, 1)
        with pytest.raises(NotCoordinator, match="may have been done"):
            await answered(reply)
        with pytest.raises(NotCoordinator, match="broker 2"):
            await b.fetch()
        await b.lead(3, isr=(1,))
        await b.serves()
        assert await b.fetch() == -1
        await answered(b.commit(6))
        assert await b.fetch() == 6


async def test_03_no_serve_before_committed_load(tmp_path: Path) -> None:
    """9 is in the log and not committed; the next leader has too few in sync to say that it is."""
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        b.commit(9)
        reading = asyncio.ensure_future(b.fetch())
        await b.turns()
        assert not reading.done()
        await b.follow(2)
        with pytest.raises(NotCoordinator):
            await reading
        await b.lead(3, isr=(1,), min_insync=2)
        await eventually(lambda: b.host.machine.state is ShardState.WAITING_HW, "it is read")
        with pytest.raises(CoordinatorLoadInProgress):
            await b.fetch()
        await b.lead(3, min_insync=2)
        with pytest.raises(CoordinatorLoadInProgress):
            await b.fetch()
        b.replicate()
        assert await b.fetch() == 9
        await b.follow(4)
        await b.lead(5)
        await b.serves()
        assert await b.fetch() == 9


async def test_04_unload_overtakes_load(tmp_path: Path) -> None:
    """Elected in 2 and in 3; the load of 2 ends last, and the state is of 3."""
    async with group_broker(tmp_path) as b:
        host = await with_a_commit(b)
        with b.disk_stands_still():
            host.resigned(1)
            host.elected(2, b.partition.log.log_end_offset)
            first = host.application.groups
            await b.turns()
            host.resigned(2)
            host.elected(3, b.partition.log.log_end_offset)
        await host.settled(WAIT_S)
        assert host.machine.epoch == 3
        assert host.machine.state is ShardState.ACTIVE
        assert host.application.groups is not first
        assert host.application.groups.group_ids() == ("g",)


async def test_05_replica_deleted_while_loading(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        host = await with_a_commit(b)
        with b.disk_stands_still():
            host.resigned(1)
            host.elected(2, b.partition.log.log_end_offset)
            assert isinstance(host.machine.refusal(), CoordinatorLoadInProgress)
            deleting = asyncio.ensure_future(b.delete())
            await b.turns()
        await deleting
        assert b.shards.hosts() == []
        assert host.machine.state is ShardState.INACTIVE
        await b.turns()
        assert host.application.groups.group_ids() == ()
        assert host.context.timers.running(host) == set()
        assert (host.machine.waiting, len(host.application.sessions)) == (0, 0)


async def test_06_poisoned_record(tmp_path: Path) -> None:
    """An unknown type at 39 is skipped; a member at 40 that does not parse ends the shard."""
    unknown = (b"\0\x63what", b"\0\0ever")
    broken = (b"\0\5\0\1g\0\2m1", b"\0\0not a member")
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        for offset in range(39):
            await answered(b.commit(offset))
        b.store(build_batch([unknown], timestamp_ms=1))
        await b.follow(2)
        await b.lead(3, isr=(1,))
        await b.serves()
        assert await b.fetch() == 38
        assert b.partition.log.log_end_offset == 40
        b.store(build_batch([broken], timestamp_ms=1))
        await b.follow(4)
        await b.lead(5, isr=(1,))
        await b.shard.settled(WAIT_S)
        assert b.host.machine.state is ShardState.FAILED
        with pytest.raises(CoordinatorNotAvailable, match="log says why"):
            await b.fetch()
        with pytest.raises(CoordinatorNotAvailable):
            await answered(b.beat("m1"))


async def test_07_disk_full_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A joining whose append fails leaves nothing; tried again it joins once."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))

        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "no room")

        with monkeypatch.context() as disk:
            disk.setattr(b.partition.log, "append_as_leader", full)
            with pytest.raises(NotCoordinator, match="nothing was written"):
                await answered(b.beat("m1"))
        assert "g" not in b.host.groups.table.consumer
        b.replicas.dirs.directories.full.clear()  # somebody has made room
        await b.serves()
        assert await b.fetch() == 5
        joined = await answered(b.beat("m1"))
        assert isinstance(joined, BeatAnswer)
        assert (joined.member_epoch, joined.assignment) == (1, ALL)
        assert len(b.batches()) == 2


@pytest.mark.parametrize("members", [2_000, pytest.param(10_000, marks=pytest.mark.proof)])
async def test_37_thousands_of_members(tmp_path: Path, members: int) -> None:
    """They come at once, each on its stream and with none of the others; tens of targets serve all
    of them, no slot ever holds more than one message, and who comes late shares the next target.
    """
    async with group_broker(tmp_path) as b:
        b.topics = {ORDERS_ID: (ORDERS, 1_000)}
        await b.lead(1, isr=(1,))
        crowd = [scripted(b, f"m{number:05}") for number in range(members - 1)]
        await eventually(lambda: is_assigned(b), "all have their target")
        assert targets(b) <= 50
        said = [stream.next() for stream in crowd]
        assert all(each is not None and each.push == 1 for each in said), "one message for each"
        assert not any(stream.next() for stream in crowd)
        before = b.partition.log.log_end_offset
        late = scripted(b, "late")
        await eventually(lambda: is_assigned(b), "the late one has its target")
        assert targets(b, before) <= 2, "the one under way, and its own"
        told = late.next()
        assert told is not None
        assert isinstance(told.reply, BeatAnswer)
        group = b.host.groups.table.consumer["g"]
        assert len(group.members) == members
        given = [p for target in group.targets.values() for p in target.get(ORDERS_ID, ())]
        assert sorted(given) == [*range(1_000)]


async def test_38_stall_does_not_expire() -> None:
    """Paused 50 s of a 45 s session: the heartbeat that waits in a socket counts first, and who has
    none there gets its whole session again.
    """
    rig = GroupsRig()
    rig.topic("t", 2)

    def read() -> None:
        """What has come in by now is read as soon as the loop comes to it."""
        if rig.now_ms >= 50_000 and "lives" in members(rig):
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: loop.call_soon(hear, "lives"))

    timers = StalledTimers(rig, 50_000, read)
    owner = Coordinator(rig)

    def hear(member_id: str) -> None:
        rig.beat(member_id, rig.groups.table.consumer["g"].current(member_id).epoch)
        timers.start(owner, SessionTimer("g", member_id), SESSION_MS)

    for member_id in ("lives", "is dead"):
        rig.join(member_id, "t")
        timers.start(owner, SessionTimer("g", member_id), SESSION_MS)
    await swept(timers, turns=10)
    assert rig.now_ms > 50_000
    assert members(rig) == {"lives", "is dead"}
    await swept(timers, turns=1_000)
    assert members(rig) == {"lives"}
    assert owner.removed_at_ms >= 50_000 + SESSION_MS


def members(rig: GroupsRig) -> set[str]:
    return set(rig.groups.table.consumer["g"].members)


class Coordinator:
    """What fires ends a session of the rig's group."""

    def __init__(self, rig: GroupsRig) -> None:
        self._rig = rig
        self.removed_at_ms = 0

    def on_timer(self, key: Hashable, epoch: int) -> None:
        assert isinstance(key, SessionTimer)
        self._rig.run(SessionEnded(key.group_id, key.member_id))
        self.removed_at_ms = self._rig.now_ms


def scripted(b: GroupBroker, member_id: str) -> MemberStream:
    """A stream with which that member has joined, and of which nobody reads yet."""
    host = b.host
    stream = MemberStream(host, generation=1, group_id="g", member_id=member_id, wake=lambda: None)
    host.sessions.open(stream)
    host.ask(
        ConsumerBeat(
            group_id="g",
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(ORDERS,),
            owned={},
        ),
        StreamBeat(host, stream, 1, lambda reply: None),
    )
    return stream


def is_assigned(b: GroupBroker) -> bool:
    group = b.host.groups.table.consumer["g"]
    return group.assignment_epoch == group.epoch


def targets(b: GroupBroker, start: int = 0) -> int:
    """How many were written from that offset on."""
    keys = [key for batch in b.batches(start) for key, _ in batch]
    return sum(isinstance(key, ConsumerGroupTargetAssignmentMetadataKey) for key in keys)


async def with_a_commit(b: GroupBroker) -> ShardHost[GroupShard]:
    await b.lead(1)
    commit = b.commit(5)
    b.replicate()
    await answered(commit)
    return b.shard

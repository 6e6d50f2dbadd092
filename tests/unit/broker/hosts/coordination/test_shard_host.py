"""A shard on its broker: when it answers, what it writes, how it ends with its leadership."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import BeatAnswer, OffsetsCommitted
from strandline_proto.batch import build_batch
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    RequestTimedOut,
)
from support.group_broker import ORDERS_ID, PARTITIONS, WAIT_S, answered, group_broker
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from pathlib import Path


ALL = {ORDERS_ID: tuple(range(PARTITIONS))}


async def test_a_commit_is_answered_when_it_is_committed_and_not_before(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        reply = b.commit(5)
        await asyncio.sleep(0)
        assert not reply.done()
        b.replicate()
        assert reply.done()
        assert await answered(reply) == OffsetsCommitted((None,))


async def test_nobody_reads_what_is_not_committed(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        commit = b.commit(5)
        b.replicate()
        await answered(commit)
        b.commit(9)
        read = asyncio.ensure_future(b.fetch())
        await b.turns()
        assert not read.done()
        b.replicate()
        assert await read == 9


async def test_commit_survives_failover(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        commit = b.commit(5)
        b.replicate()
        await answered(commit)
        await b.follow(2)
        await b.lead(3)
        await b.serves()
        assert await b.fetch() == 5


async def test_demoted_coordinator_does_not_ack(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        reply = b.commit(5)
        await b.follow(2)
        with pytest.raises(NotCoordinator, match="may have been done"):
            await answered(reply)
        with pytest.raises(NotCoordinator, match="broker 2"):
            await b.fetch()
        await b.lead(3)
        b.replicate()
        await b.serves()
        assert await b.fetch() == 5  # it came through, which its sender was not told


async def test_no_serve_before_committed_load(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        b.commit(9)
        await b.follow(2)
        await b.lead(3)
        await eventually(lambda: b.host.machine.state is ShardState.WAITING_HW, "it is read")
        with pytest.raises(CoordinatorLoadInProgress):
            await b.fetch()
        b.replicate()
        assert await b.fetch() == 9


async def test_unload_overtakes_load(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        commit = b.commit(5)
        b.replicate()
        await answered(commit)
        host = b.host
        with b.disk_stands_still():  # the load of epoch 2 is under way, and ends last
            host.resigned(1)
            host.elected(2, b.partition.log.log_end_offset)
            first = host.groups
            await b.turns()
            host.resigned(2)
            host.elected(3, b.partition.log.log_end_offset)
        await host.settled(WAIT_S)
        assert host.machine.epoch == 3
        assert host.machine.state is ShardState.ACTIVE
        assert host.groups is not first
        assert host.groups.group_ids() == ("g",)


async def test_replica_deleted_while_loading(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        reply = b.beat("m1")
        b.replicate()
        await answered(reply)
        await b.follow(2)
        await b.lead(3)
        host = b.host
        await b.delete()
        assert b.shards.hosts() == []
        assert host.machine.state is ShardState.INACTIVE
        assert host.groups.group_ids() == ()
        assert host.context.timers.running(host) == set()


async def test_a_deleted_replica_has_no_epoch_that_counts(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(7, isr=(1,))
        await answered(b.beat("m1"))
        host = b.host
        b.shards.deleted(b.partition)
        assert host.machine.state is ShardState.INACTIVE
        assert host.members() == 0


async def test_who_joins_a_large_group_has_its_epoch_at_once(tmp_path: Path) -> None:
    """Its target is no part of its own decision."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.set_topics({ORDERS_ID: ("orders", 400)})
        await answered(b.beat("m1"))
        joined = await answered(b.beat("m2"))
        assert isinstance(joined, BeatAnswer)
        assert joined.member_epoch == 2
        assert len(b.batches()) == 4, "m1; m2; the target of both; how m2 stands to it"


async def test_a_target_that_takes_long_is_computed_beside_the_loop(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.set_topics({ORDERS_ID: ("orders", 2_000)})
        await answered(b.beat("m1"))
        await answered(b.beat("m2"))
        group = b.host.groups.table.consumer["g"]
        assert (group.epoch, group.assignment_epoch) == (2, 1)
        await eventually(lambda: group.assignment_epoch == 2, "it has its target")
        assert {len(group.target(m)[ORDERS_ID]) for m in ("m1", "m2")} == {1_000}


async def test_a_record_that_does_not_parse_puts_its_shard_out_of_service(tmp_path: Path) -> None:
    member = b"\0\5\0\1g\0\2m1"
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        b.store(build_batch([(b"\0\x63what", b"\0\0ever")], timestamp_ms=1))
        b.replicate()
        await b.follow(2)
        await b.lead(3)
        await b.serves()
        assert await b.fetch() == -1  # of an unknown type: skipped
        b.store(build_batch([(member, b"\0\0not a member")], timestamp_ms=1))
        b.replicate()
        await b.follow(4)
        await b.lead(5)
        await b.host.settled(5)
        assert b.host.machine.state is ShardState.FAILED
        with pytest.raises(CoordinatorNotAvailable, match="log says why"):
            await b.fetch()


async def test_what_cannot_be_replayed_is_not_written_and_ends_the_process(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)

        def replay(*_: object) -> None:
            raise ValueError("no")

        b.host.groups.replay = replay  # type: ignore[method-assign, assignment] # a bug in it
        with pytest.raises(SystemExit, match="cannot replay"):
            b.commit(5)
        assert b.partition.log.log_end_offset == 0


async def test_a_refused_append_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_few_in_sync_refuse_before_anything_is_decided(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))
        await b.lead(1, isr=(1,), min_insync=2)
        with pytest.raises(CoordinatorNotAvailable, match="try again soon"):
            await answered(b.commit(6))
        assert b.partition.log.log_end_offset == 1
        assert await b.fetch() == 5  # what is committed can be read


async def test_a_decision_is_one_batch(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.beat("m1"))
        (batch,) = b.batches()
        assert len(batch) == 5, "member, group epoch, target of the member, target, assignment"


async def test_a_commit_that_nobody_replicates_is_given_up_in_time(tmp_path: Path) -> None:
    async with group_broker(tmp_path, offsets_commit_timeout_ms="20") as b:
        await b.lead(1)
        with pytest.raises(RequestTimedOut, match="it may still be"):
            await answered(b.commit(5))
        assert b.host.machine.waiting == 0


async def test_an_unload_leaves_nothing(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        joined = b.beat("m1")
        b.replicate()
        await answered(joined)
        host = b.host
        assert host.members() == 1
        await b.follow(2)
        assert (host.members(), host.machine.waiting, len(host.sessions)) == (0, 0, 0)
        assert host.groups.group_ids() == ()


async def test_sessions_are_full_after_a_load(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        joined = b.beat("m1")
        b.replicate()
        await answered(joined)
        await b.follow(2)
        await b.lead(3)
        await b.serves()
        assert b.host.members() == 1


async def test_a_new_leader_waits_for_the_metadata_that_made_it_one(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,), publish=False)
        with pytest.raises(CoordinatorLoadInProgress):
            await b.fetch()
        b.shards.published()
        assert await b.fetch() == -1


async def test_who_comes_late_to_its_role_serves_all_the_same(tmp_path: Path) -> None:
    """The metadata has named it the leader before it was one."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        assert await b.fetch() == -1
        b.shards.resigned(b.partition)
        b.shards.elected(b.partition, 2, 0)  # of which nothing is published yet
        with pytest.raises(CoordinatorLoadInProgress):
            await b.fetch()
        b.shards.resigned(b.partition)
        b.shards.deleted(b.partition)
        b.shards.elected(b.partition, 1, 0)
        assert await b.fetch() == -1


async def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))
        await b.set_topics({})
        assert b.host.groups.group_ids() == ()
        assert b.batches()[-1][0][1] is None

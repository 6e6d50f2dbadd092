"""A shard on its broker: when it answers, what it writes, how it ends with its leadership."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.commands import BeatAnswer, ConsumerBeat, OffsetsCommitted
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey
from strandline_broker.hosts.coordination.waiting import CommitWaits
from strandline_broker.hosts.groups import topics_watch
from strandline_proto.batch import build_batch
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    RequestTimedOut,
)
from strandline_proto.ids import TopicId
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


async def test_a_commit_that_waits_is_seen_with_the_offset_that_it_needs(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        first, second = b.commit(5), b.commit(6)
        await asyncio.sleep(0)
        end = b.partition.log.log_end_offset
        assert b.shards.waits(b.partition, 9) == CommitWaits([end - 1, end], 2)
        assert b.shards.waits(b.partition, 1) == CommitWaits([end - 1], 2), "the first ones only"
        b.replicate()
        assert first.done()
        assert second.done()
        assert b.shards.waits(b.partition, 9) == CommitWaits([], 0)
        b.shards.deleted(b.partition)
        assert b.shards.waits(b.partition, 9) is None


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


async def test_a_deleted_replica_has_no_epoch_that_counts(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(7, isr=(1,))
        await answered(b.beat("m1"))
        host = b.host
        b.shards.deleted(b.partition)
        assert host.machine.state is ShardState.INACTIVE
        assert host.members() == 0


async def test_a_replica_that_is_here_again_is_coordinated_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from the log of before, whoever forgot to say that it is gone."""
    async with group_broker(tmp_path) as b:
        await b.lead(7, isr=(1,))
        await answered(b.beat("m1"))
        with monkeypatch.context() as patched:
            patched.setattr(b.shards, "deleted", lambda partition: None)
            await b.delete()
        await b.lead(8, isr=(1,))
        assert b.shard.partition is b.partition
        await b.serves()
        assert b.host.members() == 0


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


async def test_what_cannot_be_replayed_is_not_written_and_ends_the_process(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)

        def replay(*_: object) -> None:
            raise ValueError("no")

        b.host.groups.replay = replay  # type: ignore[method-assign, assignment] # a bug in it
        with pytest.raises(SystemExit, match="cannot replay"):
            b.commit(5)
        assert b.partition.log.log_end_offset == 0


async def test_few_in_sync_refuse_before_anything_is_decided(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))
        await b.lead(1, isr=(1,), min_insync=2)
        with pytest.raises(CoordinatorNotAvailable, match=r"broker 1: .* needs 2"):
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


async def test_who_comes_late_to_its_role_loads_what_is_there_at_once(tmp_path: Path) -> None:
    """I-88: nothing else need be published after the metadata that has named it."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))
        b.shards.resigned(b.partition)
        b.shards.deleted(b.partition)
        assert b.shards.hosts() == []
        b.shards.elected(b.partition, 1, b.partition.log.log_end_offset)
        assert [host.partition for host in b.shards.hosts()] == [b.partition]
        await b.serves()
        assert await b.fetch() == 5


async def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))
        await b.set_topics({})
        assert b.host.groups.group_ids() == ()
        assert b.batches()[-1][0][1] is None


async def test_topics_that_change_while_few_are_in_sync_are_looked_at_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_watch, "RETRY_S", 0.01)
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.beat("m1"))
        await b.lead(1, isr=(1,), min_insync=2)
        await b.set_topics({ORDERS_ID: ("orders", 6)})
        await b.set_topics({ORDERS_ID: ("orders", 6)})
        assert b.host.groups.table.consumer["g"].epoch == 1
        await b.lead(1, isr=(1,))
        group = b.host.groups.table.consumer["g"]
        await eventually(lambda: group.assignment_epoch == 2, "it has the new partitions")
        assert group.target("m1") == {ORDERS_ID: tuple(range(6))}


async def test_regular_expressions_are_resolved_again_though_no_change_was_told(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        b.submit(
            ConsumerBeat(
                group_id="g",
                member_id="m1",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_regex="ord.*|more",
                owned={},
            )
        )
        group = b.host.groups.table.consumer["g"]
        more = TopicId(b"m" * 16)
        b.topics[more] = ("more", 1)
        await b.lead(1, isr=(1,), publish=False)
        assert group.target("m1") == ALL
        b.host.topics.refresh()
        assert group.target("m1") == {**ALL, more: (0,)}
        end = b.partition.log.log_end_offset
        b.host.topics.refresh()
        assert b.partition.log.log_end_offset == end


async def test_a_broken_record_is_skipped_where_the_configuration_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what parses is not, though it is named."""
    for named in ("", "0:0, 0:1, 7:2"):
        async with group_broker(tmp_path / named[:1], offsets_load_skip_records=named) as b:
            await b.lead(1, isr=(1,))
            await answered(b.commit(5))
            b.store(build_batch([(b"\0\5\0\1g\0\2m1", b"\0\0not a member")], timestamp_ms=1))
            await b.follow(2)
            await b.lead(3, isr=(1,))
            await b.shard.settled(WAIT_S)
            said = capsys.readouterr().out
            if named:
                assert await b.fetch() == 5
                assert "a record is skipped" in said
                assert "offset=1" in said
            else:
                assert b.host.machine.state is ShardState.FAILED
                assert "partition=__consumer_offsets:0" in said
                assert "offsets.load.skip.records=0:1" in said


async def test_who_may_be_taken_for_dead_says_what_is_committed_after_a_write(
    tmp_path: Path,
) -> None:
    """Another coordinator may have committed more since (P-101). That one follows in this epoch as
    long as it reads what is written after the question, so none has been elected then (I-106).
    """
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        await b.serves()
        done = b.commit(7)
        b.replicate()
        await done
        before = b.partition.log.log_end_offset
        b.host.context.is_sure = lambda: False
        assert b.host.committed_offsets("g", {ORDERS_ID: (0,)}) == ()
        read = asyncio.ensure_future(b.fetch())
        await asyncio.sleep(0)
        assert b.batches(before) == [[(OffsetCommitKey("g", "", 0), None)]]
        b.replicate(before)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not read.done(), "the follower has not read the write"
        b.replicate()
        assert await read == 7
        assert b.host.groups.group_ids() == ("g",)
        b.host.context.is_sure = lambda: True
        assert await b.fetch() == 7
        assert b.partition.log.log_end_offset == before + 1


async def test_one_write_serves_all_who_asked_before_it(tmp_path: Path) -> None:
    """Who asks later waits for the next: the follower may have read the first before that."""
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        await b.serves()
        before = b.partition.log.log_end_offset
        b.host.context.is_sure = lambda: False
        first = asyncio.ensure_future(b.fetch())
        await asyncio.sleep(0)
        later = [asyncio.ensure_future(b.fetch()) for _ in range(50)]
        await asyncio.sleep(0)
        assert len(b.batches(before)) == 1
        b.replicate()
        assert await first == -1
        assert not any(read.done() for read in later)
        await eventually(lambda: len(b.batches(before)) == 2, "the next write")
        b.replicate()
        assert await asyncio.gather(*later) == [-1] * 50
        assert len(b.batches(before)) == 2


async def test_who_cannot_prove_that_it_leads_says_no_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline_broker.hosts.groups.leadership_proof.PROOF_S", 0.05)
    async with group_broker(tmp_path) as b:
        await b.lead(1, min_insync=2)
        await b.serves()
        done = b.commit(7)
        b.replicate()
        await done
        b.host.context.is_sure = lambda: False
        with pytest.raises(CoordinatorNotAvailable, match="a write of its own has to be committed"):
            await b.fetch()
        read = asyncio.ensure_future(b.fetch())
        await eventually(lambda: b.host.machine.waiting > 0, "a write")
        other = asyncio.ensure_future(b.fetch())
        await asyncio.sleep(0)
        await b.follow(2)
        for each in (read, other):
            with pytest.raises(NotCoordinator):
                await each
        await b.lead(3, min_insync=2)
        b.replicate()
        await b.serves()
        await b.lead(3, isr=(1,), min_insync=2)
        with pytest.raises(CoordinatorNotAvailable, match="in sync"):
            await b.fetch()

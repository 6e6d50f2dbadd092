"""End markers of transactions that pass through the shard of a group (I-104, I-164, P-104)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.groups.markers import write_marker
from strandline_proto.errors import (
    InvalidProducerEpoch,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionCoordinatorFenced,
)
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId, TopicId
from support.group_broker import OFFSETS_ID, answered, group_broker
from support.transactional_broker import TransactionalProducer

if TYPE_CHECKING:
    from pathlib import Path

MARKER = EndMarker(ProducerId(7), ProducerEpoch(1), True, LeaderEpoch(1), 2)


async def test_a_marker_is_answered_when_it_is_committed(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        producer = TransactionalProducer(b)
        staged = producer.commit(5)
        await b.turns()
        b.replicate()
        await staged
        ended = producer.end()
        await b.turns()
        assert not ended.done()
        assert b.host.groups.table.offset("g", "orders", 0) is not None, "its state is the log's"
        b.replicate()
        await ended
        assert (await producer.fetch()).offset == 5


async def test_a_repeated_marker_succeeds_once_the_first_is_committed(tmp_path: Path) -> None:
    """I-156: also across the data of the next transaction, which it does not touch."""
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        producer = TransactionalProducer(b)
        staged = producer.commit(5)
        await b.turns()
        b.replicate()
        await staged
        first, again = producer.end(), producer.end(epoch=1)
        await b.turns()
        assert not first.done()
        assert not again.done()
        b.replicate()
        await first
        await again
        end = b.partition.log.log_end_offset
        await producer.end(epoch=1)
        assert b.partition.log.log_end_offset == end == 2
        staged = producer.commit(6)
        await b.turns()
        b.replicate()
        await staged
        with pytest.raises(InvalidProducerEpoch):
            await producer.end(epoch=1)
        assert (await producer.fetch(stable=False)).offset == 5
        assert (await producer.fetch()).error is not None


async def test_a_marker_of_an_older_coordinator_changes_nothing(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        await producer.commit(5)
        await producer.end(coordinator_epoch=5)
        await producer.commit(6)
        with pytest.raises(TransactionCoordinatorFenced):
            await producer.end(coordinator_epoch=4, is_commit=False)
        assert b.host.groups.table.pending.is_pending("g", "orders", 0)


async def test_a_marker_is_written_where_the_transaction_has_no_offsets(tmp_path: Path) -> None:
    """The client has added the group and committed nothing; the shard has not been asked before."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await write_marker(b.shards, (OFFSETS_ID, 0), MARKER)
        assert b.partition.log.log_end_offset == 1


async def test_a_shard_that_does_not_serve_says_that_it_is_not_the_leader(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        for key in ((OFFSETS_ID, 0), (TopicId(b"x" * 16), 0)):
            with pytest.raises(NotLeaderOrFollower):
                await write_marker(b.shards, key, MARKER)
        await b.lead(1)
        b.commit(5)
        await b.follow(2)
        await b.lead(3)
        with pytest.raises(NotLeaderOrFollower):  # it waits for the high watermark
            await write_marker(b.shards, (OFFSETS_ID, 0), MARKER)
        b.replicate()
        await b.serves()
        await b.lead(3, isr=(1,), min_insync=2)
        with pytest.raises(NotLeaderOrFollower):
            await write_marker(b.shards, (OFFSETS_ID, 0), MARKER)


async def test_a_marker_that_is_not_committed_in_time_is_asked_for_again(tmp_path: Path) -> None:
    async with group_broker(tmp_path, offsets_commit_timeout_ms="50") as b:
        await b.lead(1)
        with pytest.raises(RequestTimedOut):
            await write_marker(b.shards, (OFFSETS_ID, 0), MARKER)
        b.replicate()
        await write_marker(b.shards, (OFFSETS_ID, 0), MARKER)
        assert b.partition.log.log_end_offset == 1


async def test_a_leader_that_is_deposed_does_not_answer_a_marker(tmp_path: Path) -> None:
    """P-101."""
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        producer = TransactionalProducer(b)
        ended = producer.end()
        await b.turns()
        await b.follow(2)
        with pytest.raises(NotLeaderOrFollower):
            await ended


async def test_watchers_learn_of_groups_whose_offsets_a_marker_decides(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        await producer.commit(5)
        b.host.context.events.is_watched = True
        before = b.host.context.changed.number
        await producer.end()
        assert b.host.context.changed.since(before) == ["g"]
        assert (await answered(b.commit(6))) is not None

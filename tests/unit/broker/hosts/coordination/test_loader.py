"""Loading a shard from a log that compaction has been at (I-112)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.hosts.coordination import loader
from strandline_broker.hosts.coordination.loader import CannotLoad, load_state
from strandline_broker.storage.segment.damaged_ranges import DamagedRange
from strandline_proto.batch import build_batch, prefix
from strandline_proto.errors import CoordinatorNotAvailable
from strandline_proto.ids import Offset
from support.fake_broker_sync import resealed
from support.group_broker import ORDERS, ORDERS_ID, group_broker
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.group_broker import GroupBroker

LAST_OFFSET_DELTA_AT, COUNT_AT, RECORDS_AT = 23, 57, 61


def commits(base_offset: int, *offsets: int) -> bytes:
    """A batch of commits, one for each partition from 0 on."""
    records = [
        (
            codec.encode_key(OffsetCommitKey("g", ORDERS, partition)),
            codec.encode_value(
                OffsetCommitValue(offset=Offset(at), commit_timestamp_ms=1, topic_id=ORDERS_ID)
            ),
        )
        for partition, at in enumerate(offsets)
    ]
    batch = build_batch(records, timestamp_ms=1)
    return prefix(base_offset, len(batch) - 12, 0) + batch[16:]


def empty(base_offset: int, span: int) -> bytes:
    """What is left of a batch of so many offsets when all of its records are gone."""
    batch = bytearray(commits(base_offset, 1)[:RECORDS_AT])
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA_AT, span - 1)
    struct.pack_into(">i", batch, COUNT_AT, 0)
    return prefix(base_offset, len(batch) - 12, 0) + resealed(batch)[16:]


async def with_log(b: GroupBroker, batches: Sequence[bytes]) -> None:
    """Broker 1 has copied them, and leads from where they end."""
    await b.follow(0)
    b.partition.log.gaps.expect()
    b.partition.log.append_as_follower(b"".join(batches), leader_epoch=0, gaps_below=1_000)
    await b.lead(1, isr=(1,))
    await b.serves()


@pytest.mark.parametrize(
    ("batches", "end", "committed"),
    [
        ([commits(0, 5, 6)], 2, {0: 5, 1: 6}),
        ([commits(3, 5), commits(40, 7, 8)], 42, {0: 7, 1: 8}),
        ([commits(0, 5), empty(1, 9)], 10, {0: 5}),
        ([empty(0, 4), commits(9, 5), empty(20, 1)], 21, {0: 5}),
        ([empty(0, 4)], 4, {}),
    ],
)
async def test_a_load_comes_to_its_end_over_gaps_and_empty_batches(
    tmp_path: Path, batches: list[bytes], end: int, committed: dict[int, int]
) -> None:
    async with group_broker(tmp_path) as b:
        await with_log(b, batches)
        assert b.partition.log.log_end_offset == end
        found = {p: await b.fetch(p) for p in range(2)}
        assert found == {p: committed.get(p, -1) for p in range(2)}


async def test_a_load_takes_nothing_from_its_end_on(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await with_log(b, [commits(0, 5, 6), commits(2, 7)])
        for end, known in ((0, {}), (2, {0: 5, 1: 6}), (3, {0: 7, 1: 6})):
            groups = b.host.context.new_groups()
            await load_state(b.shard.context, b.partition, groups, end=end, is_current=lambda: True)
            found = {p: value.offset for _, p, value in groups.table.offsets_of("g")}
            assert found == known


async def test_a_load_that_nobody_wants_any_more_ends_early(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await with_log(b, [commits(0, 5)])
        groups = b.host.context.new_groups()
        await load_state(b.shard.context, b.partition, groups, end=1, is_current=lambda: False)
        assert groups.group_ids() == ()


async def test_a_log_that_ends_before_the_load_is_said_to(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await with_log(b, [commits(0, 5)])
        groups = b.host.context.new_groups()
        with pytest.raises(CannotLoad):
            await load_state(b.shard.context, b.partition, groups, end=9, is_current=lambda: True)


async def test_a_log_that_was_damaged_is_loaded_once_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk gave bytes of another place: a later look finds the log sound, in the same
    leadership.
    """
    monkeypatch.setattr(loader, "RETRY_S", 0.01)
    async with group_broker(tmp_path) as b:
        await with_log(b, [commits(0, 5, 6)])
        await b.follow(2)
        ranges = b.partition.log.damaged_ranges
        ranges.add(DamagedRange(0, 2, segment=0, position=0, resume=-1, why="misread"))
        await b.lead(3, isr=(1,))
        await b.shard.settled(5)
        assert isinstance(b.host.machine.refusal(), CoordinatorNotAvailable)
        ranges.replace(0, [])
        await eventually(lambda: b.host.machine.refusal() is None, "the shard serves")
        assert await b.fetch(0) == 5

"""What a coordinator counts, as a scrape shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.groups.effects import SessionTimer
from support.group_broker import answered, group_broker
from support.group_members import Member, served
from support.replica_nodes import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker


def shown(b: GroupBroker, name: str, **labels: str) -> float:
    value = b.shard.context.runtime.metrics.get_sample_value(name, labels)
    return 0.0 if value is None else value


def loads(b: GroupBroker) -> float:
    return shown(b, "strandline_group_shard_load_seconds_count")


async def test_groups_are_counted_by_their_state_and_members_by_their_sessions(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.commit(5))
        assert shown(b, "strandline_groups", state="Empty") == 1
        await answered(b.beat("m1"))
        assert shown(b, "strandline_groups", state="Stable") == 1
        assert shown(b, "strandline_group_members") == 1
        await answered(b.beat("m2"))
        assert shown(b, "strandline_groups", state="Reconciling") == 1
        assert shown(b, "strandline_group_members") == 2
        b.shard.on_timer(SessionTimer("g", "m2"), -1)
        await answered(b.beat("m1", -1))
        assert shown(b, "strandline_groups", state="Empty") == 1
        assert shown(b, "strandline_group_members") == 0


async def test_commits_and_rebalances_are_counted_as_they_are_written(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        for member_id, epoch in (("m1", 0), ("m2", 0), ("m2", -1)):
            await answered(b.beat(member_id, epoch))
        assert shown(b, "strandline_group_rebalances_total") == 3
        await answered(b.commit(5, member_id="m1", epoch=1))
        await answered(b.commit(5, member_id="m1", epoch=1, partition=1))
        assert shown(b, "strandline_group_offset_commits_total") == 2
        await b.set_topics({})  # which takes the offsets with it
        assert shown(b, "strandline_group_offset_commits_total") == 2


async def test_loads_are_timed_and_shards_counted_by_their_state(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        b.commit(5)
        assert shown(b, "strandline_group_shards", state="active") == 1
        assert loads(b) == 0
        await b.follow(2)
        await b.lead(3)
        await eventually(lambda: loads(b) == 1, "it is read")
        waits = "waiting for the high watermark"
        assert shown(b, "strandline_group_shards", state=waits) == 1
        assert shown(b, "strandline_groups", state="Empty") == 0, "it serves none yet"
        b.replicate()
        assert shown(b, "strandline_group_shards", state="active") == 1
        assert shown(b, "strandline_groups", state="Empty") == 1


async def test_open_streams_are_counted(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1, isr=(1,))
        member = Member(stub, "m1")
        await member.beat()
        await member.hears()
        assert shown(b, "strandline_group_streams") == 1
        member.call.cancel()
        await eventually(lambda: shown(b, "strandline_group_streams") == 0, "it is closed")

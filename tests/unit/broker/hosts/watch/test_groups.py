"""What a watcher sees of the groups: those that have changed, and nothing is noted without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.common.events import Events
from strandline_broker.hosts.groups.changed_groups import CHANGED_MAX, ChangedGroups, Rebalance
from strandline_broker.hosts.watch.groups import GroupView
from support.group_broker import ORDERS, ORDERS_ID, answered, group_broker
from support.hand_clock import HandClock
from support.watching import looked

if TYPE_CHECKING:
    from pathlib import Path


async def test_without_a_watcher_a_commit_leaves_no_trace(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.set_topics({ORDERS_ID: (ORDERS, 4)})
        await answered(b.beat("m1"))
        await answered(b.commit(7, group_id="other"))
        changed = b.host.context.changed
        assert (changed.number, changed.since(0)) == (0, [])
        assert b.replicas.events.last_number == 0


async def test_a_look_has_all_groups_and_then_those_that_have_changed(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.set_topics({ORDERS_ID: (ORDERS, 4)})
        await answered(b.commit(7, group_id="simple"))
        b.replicas.events.watched()
        view = GroupView(b.shards)
        (simple,) = looked(view).groups
        assert (simple.group_id, simple.coordinator_partition, simple.coordinator_epoch) == (
            "simple",
            0,
            1,
        )
        assert [(t, p, v.offset) for t, p, v in simple.commits] == [(ORDERS, 0, 7)]
        assert looked(view).size == 0
        await answered(b.beat("m1"))
        (joined,) = looked(view).groups
        assert joined.group_id == "g"
        assert joined.status is not None
        assert [member.member_id for member in joined.status.members] == ["m1"]
        assert joined.topics in ({}, {ORDERS_ID: ORDERS})
        rebalances = [event.what for event in b.replicas.events.since(0, 99)[1]]
        assert rebalances[0] == Rebalance("g", 1, "")
        await answered(b.commit(9, group_id="simple"))
        (again,) = looked(view).groups
        assert again.status is None
        assert [(p, v.offset) for _, p, v in again.commits] == [(0, 9)]


async def test_groups_of_a_shard_that_is_gone_are_removed(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await b.set_topics({ORDERS_ID: (ORDERS, 4)})
        await answered(b.commit(7, group_id="simple"))
        b.replicas.events.watched()
        view = GroupView(b.shards)
        looked(view)
        await b.follow(2)
        assert looked(view).removed_groups == ["simple"]
        assert looked(view).size == 0


def test_the_changes_are_bounded_and_a_watcher_that_missed_some_lists_all() -> None:
    events = Events(HandClock())
    changed = ChangedGroups(events)
    for number in range(CHANGED_MAX + 1):
        changed.note(f"g{number}")
    assert changed.since(0) is None
    assert changed.since(CHANGED_MAX) == [f"g{CHANGED_MAX}"]
    changed.note("g5")
    assert changed.since(CHANGED_MAX) == ["g5", f"g{CHANGED_MAX}"]
    events.watched()
    events.unwatched()
    assert changed.since(5) is None
    assert changed.since(changed.number) == []

"""What a watcher sees of a broker's replicas: each part once, until it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.coordination.waiting import CommitWaits
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.watch.content import Offsets, RoleKind, WaitersPart, WaitKind
from strandline_broker.hosts.watch.replicas import ReplicaView
from strandline_broker.hosts.watch.selection import ALL, Selection
from strandline_proto.batch import build_batch
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from support.hand_clock import HandClock
from support.listening import Listening
from support.replica_nodes import TOPIC, TOPIC_ID, Node, decide, run_node, state
from support.watching import looked

if TYPE_CHECKING:
    from pathlib import Path


def append(node: Node, *, acks: int = -1) -> None:
    check_leader(node.partition, None).appends.append(
        build_batch([(None, b"v")], timestamp_ms=1), acks=acks, on_done=lambda _: None
    )


def fetch(node: Node, broker_id: int, offset: int) -> None:
    role = check_leader(node.partition, None)
    role.carry_out(
        role.machine.on_follower_fetch(
            BrokerId(broker_id),
            broker_epoch=BrokerEpoch(broker_id),
            leader_epoch=LeaderEpoch(node.partition.leader_epoch),
            fetch_offset=Offset(offset),
            log_start_offset=Offset(0),
            now_ms=1_000_000,
        )
    )


def view_of(node: Node, selection: Selection = ALL) -> ReplicaView:
    return ReplicaView(HandClock(), node.replicas, node.metadata, selection, lambda *_: None)


async def test_a_first_look_has_every_part_and_the_next_one_nothing(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=4, isr=(1, 2)), node)
        view = view_of(node)
        (change,) = looked(view).replicas
        assert (change.topic, change.topic_id, change.partition) == (TOPIC, TOPIC_ID, 0)
        assert change.offsets == Offsets(0, 0, 0, 0, 0)
        assert change.standing is not None
        assert (change.standing.kind, change.standing.leader_epoch, change.standing.leader_id) == (
            RoleKind.LEADER,
            4,
            1,
        )
        assert (change.standing.isr, change.standing.proposed_isr) == ([1, 2], None)
        assert change.epochs is not None
        assert change.epochs.entries == [(4, 0)]
        assert change.followers is not None
        assert [(f.broker_id, f.fetch_offset) for f in change.followers] == [(2, None), (3, None)]
        assert change.waiters == WaitersPart((), 0)
        assert change.care is not None
        assert (change.care.condition, change.care.healing) == (None, False)
        assert looked(view).size == 0


async def test_only_the_parts_that_have_changed_are_added(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        view = view_of(node)
        looked(view)
        append(node)
        append(node)
        (change,) = looked(view).replicas
        assert change.offsets is not None
        assert (change.offsets.log_end, change.offsets.high_watermark) == (2, 0)
        assert change.waiters == WaitersPart(
            [(WaitKind.PRODUCE, 1, 1), (WaitKind.PRODUCE, 2, 1)], 2
        )
        assert (change.standing, change.epochs, change.followers, change.care) == (None,) * 4
        fetch(node, 2, 2)
        (change,) = looked(view).replicas
        assert change.offsets is not None
        assert change.offsets.high_watermark == 2
        assert change.waiters == WaitersPart((), 0)
        assert change.followers is not None
        assert [(f.broker_id, f.fetch_offset) for f in change.followers] == [(2, 2), (3, None)]
        assert change.followers[0].last_caught_up_ms == 1_000_000
        fetch(node, 2, 2)
        assert looked(view).size == 0, "a fetch of the same position is no change"


async def test_consumers_and_callers_of_a_coordinator_wait_with_their_offsets(
    tmp_path: Path,
) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        role = check_leader(node.partition, None)
        waits = CommitWaits([4, 4, 6], 5)
        view = ReplicaView(
            HandClock(), node.replicas, node.metadata, ALL, lambda partition, count: waits
        )
        first, second, third = Listening(7), Listening(3), Listening(7)
        role.consumer_listeners.update(dict.fromkeys([first, second, third]))
        role.replica_listeners[Listening(9)] = None
        (change,) = looked(view).replicas
        assert change.waiters == WaitersPart(
            [
                (WaitKind.GROUP, 4, 2),
                (WaitKind.GROUP, 6, 1),
                (WaitKind.FETCH, 3, 1),
                (WaitKind.FETCH, 7, 2),
            ],
            8,
        )
        assert looked(view).size == 0
        third.is_waiting = False
        second.offset = None
        waits = CommitWaits([], 0)
        (change,) = looked(view).replicas
        assert change.waiters == WaitersPart([(WaitKind.FETCH, 7, 1)], 1)
        role.consumer_listeners.clear()
        role.replica_listeners.clear()


async def test_a_replica_that_loses_its_role_loses_what_belongs_to_it(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        view = view_of(node)
        append(node)
        looked(view)
        await decide(state(2, epoch=1, isr=(1, 2)), node)
        (change,) = looked(view).replicas
        assert change.standing is not None
        assert (change.standing.kind, change.standing.leader_id) == (RoleKind.FOLLOWER, 2)
        assert (change.followers, change.waiters) == ([], WaitersPart((), 0))
        node.replicas.drop(node.partition, "removed")
        content = looked(view)
        assert [(r.topic, r.partition) for r in content.removed_replicas] == [(TOPIC, 0)]
        assert looked(view).size == 0


async def test_a_replica_out_of_service_says_why(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        view = view_of(node)
        looked(view)
        node.partition.put_out_of_service("the disk has failed")
        (change,) = looked(view).replicas
        assert change.standing is not None
        assert change.standing.kind is RoleKind.OFFLINE
        assert change.care is not None
        assert change.care.condition is ReplicaCondition.OUT_OF_SERVICE
        assert change.care.why == "the disk has failed"


async def test_a_proposed_isr_stands_beside_the_committed_one(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        view = view_of(node)
        looked(view)
        everybody = {BrokerId(b): BrokerEpoch(b) for b in (1, 2, 3)}
        check_leader(node.partition, None).on_eligible(everybody, offline=())
        fetch(node, 3, 0)
        (change,) = looked(view).replicas
        assert change.standing is not None
        assert (change.standing.isr, change.standing.proposed_isr) == ([1, 2], [1, 2, 3])
        assert change.followers is not None
        assert [f.in_maximal_isr for f in change.followers] == [True, True]


async def test_a_selection_leaves_other_replicas_out(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1, 2)), node)
        for selection, count in (
            (Selection({TOPIC: frozenset()}), 1),
            (Selection({TOPIC: frozenset([0])}), 1),
            (Selection({TOPIC: frozenset([1])}), 0),
            (Selection({"other": frozenset()}), 0),
        ):
            assert looked(view_of(node, selection)).size == count

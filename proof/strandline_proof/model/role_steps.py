"""Steps by which a broker gains and loses its role: pushes, deaths, stops and starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication import follower as f
from strandline_broker.core.replication.leader import Leader
from strandline_proof.model import logs, machines
from strandline_proof.model.fetch_steps import followed, overtaken
from strandline_proof.model.leader_steps import Done, led, orphan
from strandline_proof.model.values import (
    FetchRequest,
    LeaderView,
    Log,
    Node,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, Offset

if TYPE_CHECKING:
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_proof.model.values import Decided


def hold_push(node: Node, decided: Decided) -> Node:
    return node._replace(push=decided)


def on_push(node: Node) -> Done:
    """A push of an earlier decision arrives late."""
    assert node.push is not None
    return learn(node, node.push)


def learn(node: Node, decided: Decided) -> Done:
    """A decision of the controller arrives (I-34). Pushes keep their order, so no older decision
    follows.
    """
    node = node._replace(push=None)
    known, state = node.known, machines.pushed(decided)
    eligible = machines.pushed_eligible(decided)
    node = node._replace(eligible=eligible)
    if known is not None and not state.is_newer_than(known):
        return _on_eligible(node)
    if known is not None and known.leader_epoch == state.leader_epoch:
        node = node._replace(known=state)
        if isinstance(node.role, LeaderView):
            return _on_state(_on_eligible(node), state)
        return Done(node)
    node = node._replace(known=state, role=None, alter=orphan(node.alter))
    return _lead(node, state) if state.leader == node.broker_id else _follow(node, state)


def _on_eligible(node: Node) -> Done:
    if not isinstance(node.role, LeaderView):
        return Done(node)
    leader = machines.wake_leader(node.role)
    return led(node, leader, leader.on_eligible(machines.thawed_eligible(node.eligible)))


def _on_state(done: Done, state: PartitionState) -> Done:
    assert isinstance(done.node.role, LeaderView)
    leader = machines.wake_leader(done.node.role)
    after = led(done.node, leader, leader.on_state(state, machines.NOW_MS))
    return after if after.committed is not None else after._replace(committed=done.committed)


def _lead(node: Node, state: PartitionState) -> Done:
    log = logs.assign_epoch(node.log, state.leader_epoch)
    node = node._replace(log=log, fetch=None, late=None)
    end = Offset(len(log.entries))
    leader = Leader(
        BrokerId(node.broker_id),
        BrokerEpoch(node.broker_epoch),
        state,
        log_end_offset=end,
        log_start_offset=Offset(0),
        high_watermark=Offset(log.high_watermark),
        durable_offset=end,
        eligible=machines.thawed_eligible(node.eligible),
        offline=(),
        lag_ms_max=machines.LAG_MS_MAX,
        flush_always=False,
        now_ms=machines.NOW_MS,
    )
    return led(node, leader, leader.on_tick(machines.NOW_MS))


def _follow(node: Node, state: PartitionState) -> Done:
    told = machines.for_follower(state)
    node = node._replace(known=told, eligible=())
    follower = f.Follower(told)
    effects = follower.on_become_follower(
        log_end_offset=Offset(len(node.log.entries)),
        high_watermark=Offset(node.log.high_watermark),
    )
    log, cut = followed(node.log, effects, None)
    role = machines.rest_follower(follower, told)
    return Done(overtaken(node._replace(log=log, role=role)), cut=cut)


def kill_process(node: Node, keeps: int | None) -> Node:
    """The process dies; its log keeps `keeps` records, or all if None. Its checkpoint of the high
    watermark may be as old as possible.
    """
    log = node.log if keeps is None else logs.truncate(node.log, keeps)
    return _ended(node, log._replace(high_watermark=0))


def stop_process(node: Node) -> Node:
    """The process stops in order: everything is on disk, and a marker says so."""
    return _ended(node, node.log)._replace(stopped_cleanly=True)


def _ended(node: Node, log: Log) -> Node:
    return node._replace(
        is_up=False,
        stopped_cleanly=False,
        log=log,
        known=None,
        eligible=(),
        role=None,
        late=None,
        push=None,
        # Messages already sent may still arrive.
        fetch=node.fetch if isinstance(node.fetch, FetchRequest) else None,
        alter=orphan(node.alter),
    )


def start_process(node: Node, broker_epoch: int) -> Node:
    return node._replace(is_up=True, stopped_cleanly=False, broker_epoch=broker_epoch)

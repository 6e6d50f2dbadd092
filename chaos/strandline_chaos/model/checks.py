"""What must hold in every state of the model, by the numbers of REPLICATION.md."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from strandline_chaos.model import logs
from strandline_chaos.model.values import LeaderView, Violation
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from strandline_chaos.model.values import Decided, Ghost, Node


def check_state(decided: Decided, nodes: tuple[Node, ...], ghost: Ghost) -> None:
    _check_decided(decided)
    for node in nodes:
        problem = logs.problem(node.log)
        if problem is not None:
            raise Violation(f"{problem}, on broker {node.broker_id}")
        if node.log.high_watermark > len(ghost.committed):
            raise Violation(
                f"I-13: broker {node.broker_id} believes {node.log.high_watermark} committed,"
                f" {len(ghost.committed)} are"
            )
    for a, b in combinations(nodes, 2):
        _check_matching(a, b)
    _check_completeness(decided, nodes, ghost)


def _check_decided(decided: Decided) -> None:
    leader, isr = decided.leader, decided.isr
    if not isr or len(set(isr)) != len(isr) or (leader != NO_LEADER and leader not in isr):
        raise Violation(f"I-22: leader {leader}, ISR {isr}")
    for member in isr:
        broker = decided.brokers[member - 1]
        is_last_without_leader = isr == (member,) and leader == NO_LEADER
        if (broker.is_fenced or broker.is_stopping) and not is_last_without_leader:
            raise Violation(f"I-23: broker {member} is fenced or stopping, and in the ISR {isr}")


def _check_matching(a: Node, b: Node) -> None:
    """I-3 and I-4: the same epoch at the same offset means the same record, and all before it."""
    same_so_far = True
    for at, (mine, theirs) in enumerate(zip(a.log.entries, b.log.entries, strict=False)):
        if mine[0] == theirs[0] and mine != theirs:
            raise Violation(
                f"I-3: at {at} broker {a.broker_id} holds {mine}, {b.broker_id} {theirs}"
            )
        if mine == theirs and not same_so_far:
            raise Violation(
                f"I-4: brokers {a.broker_id} and {b.broker_id} agree at {at} and differ before it"
            )
        same_so_far = same_so_far and mine == theirs


def _check_completeness(decided: Decided, nodes: tuple[Node, ...], ghost: Ghost) -> None:
    committed = ghost.committed
    end = len(committed)
    holders = [node for node in nodes if node.log.entries[:end] == committed]
    if not holders:
        raise Violation(f"I-17: no broker holds the {end} committed records")
    for node in nodes:
        if not node.is_up:
            continue
        role, registered = node.role, decided.brokers[node.broker_id - 1]
        is_current = (
            isinstance(role, LeaderView) and role.state.leader_epoch == decided.leader_epoch
        )
        if is_current and node not in holders:
            raise Violation(
                f"I-14: leader {node.broker_id} of epoch {decided.leader_epoch} lacks committed"
                f" records: it holds {node.log.entries}, committed are {committed}"
            )
        is_candidate = (
            node.broker_id in decided.isr
            and not registered.is_fenced
            and registered.epoch == node.broker_epoch
        )
        if is_candidate and node not in holders:
            raise Violation(
                f"I-15: broker {node.broker_id} is in the ISR {decided.isr} and lacks committed"
                f" records: it holds {node.log.entries}, committed are {committed}"
            )
        if is_current:
            assert isinstance(role, LeaderView)
            _check_superset(decided, role)


def _check_superset(decided: Decided, role: LeaderView) -> None:
    joins = () if role.proposal is None else role.proposal.joins
    maximal = {m.broker_id for m in (*role.isr, *joins)}
    if not set(decided.isr) <= maximal:
        raise Violation(
            f"I-16: the controller counts {decided.isr} as in sync, leader {role.me.broker_id}"
            f" only {sorted(maximal)}"
        )

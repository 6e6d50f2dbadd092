"""The invariants that hold in every state of the model, by their numbers in
docs/internals/invariants.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_proof.model import logs
from strandline_proof.model.values import MIN_ISR, LeaderView, Violation

if TYPE_CHECKING:
    from strandline_proof.model.values import Decided, Ghost, Node


def check_node(node: Node, ghost: Ghost) -> bool:
    problem = logs.problem(node.log)
    if problem is not None:
        raise Violation(f"{problem}, on broker {node.broker_id}")
    if node.log.high_watermark > len(ghost.committed):
        raise Violation(
            f"I-13: broker {node.broker_id} believes {node.log.high_watermark} committed,"
            f" {len(ghost.committed)} are"
        )
    return True


def check_decided(decided: Decided) -> bool:
    leader, isr, elr = decided.leader, decided.isr, decided.elr
    members = (*isr, *elr, *decided.last_known_elr)
    if len(set(members)) != len(members) or (leader in isr) != bool(isr):
        raise Violation(f"I-22: leader {leader}, ISR {isr}, ELR {elr}")
    if elr and len(isr) >= MIN_ISR:
        raise Violation(f"I-50: ISR {isr} has the minimum, and there is the ELR {elr}")
    if decided.is_recovering and len(isr) > 1:
        raise Violation(f"I-49: the ISR {isr} has grown before its leader has recovered")
    for member in isr:
        broker = decided.brokers[member - 1]
        if broker.is_fenced or broker.is_stopping:
            raise Violation(f"I-23: broker {member} is fenced or stopping, and in the ISR {isr}")
    return True


def check_matching(a: Node, b: Node) -> bool:
    """I-3 and I-4: equal epochs at one offset mean equal records there and before it."""
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
    return True


def check_held(one: Node, two: Node, three: Node, ghost: Ghost) -> bool:
    if not any(_holds(node, ghost) for node in (one, two, three)):
        raise Violation(f"I-17: no broker holds the {len(ghost.committed)} committed records")
    return True


def _holds(node: Node, ghost: Ghost) -> bool:
    return node.log.entries[: len(ghost.committed)] == ghost.committed


def check_member(decided: Decided, node: Node, ghost: Ghost) -> bool:
    """Checks what a leader and a candidate must hold, and what a leader counts."""
    if not node.is_up:
        return True
    registered = decided.brokers[node.broker_id - 1]
    if isinstance(node.role, LeaderView) and node.role.state.leader_epoch == decided.leader_epoch:
        _check_superset(decided, node.role)
        if not _holds(node, ghost):
            raise Violation(
                f"I-14: leader {node.broker_id} of epoch {decided.leader_epoch} lacks committed"
                f" records: it holds {node.log.entries}, committed are {ghost.committed}"
            )
    is_candidate = (
        node.broker_id in (*decided.isr, *decided.elr)
        and not registered.is_fenced
        and registered.epoch == node.broker_epoch
    )
    if is_candidate and not _holds(node, ghost):
        raise Violation(
            f"I-15: broker {node.broker_id} is in ISR {decided.isr} or ELR {decided.elr} and lacks"
            f" committed records: it holds {node.log.entries}, committed are {ghost.committed}"
        )
    return True


def _check_superset(decided: Decided, role: LeaderView) -> None:
    joins = () if role.proposal is None else role.proposal.joins
    maximal = {m.broker_id for m in (*role.isr, *joins)}
    if not set(decided.isr) <= maximal:
        raise Violation(
            f"I-16: the controller counts {decided.isr} as in sync, leader {role.me.broker_id}"
            f" only {sorted(maximal)}"
        )

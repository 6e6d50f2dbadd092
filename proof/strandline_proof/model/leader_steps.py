"""A leader's steps: its machine from the core carries each one out, on values.

Each function takes a broker at rest and returns it after the step. No function looks at another
broker, except that a leader receives a follower's fetch; so the results can be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.core.replication.isr_proposal import HighWatermarkRaised, ProposeIsr
from strandline_proof.model import logs, machines
from strandline_proof.model.values import (
    MIN_ISR,
    IsrRequest,
    IsrResponse,
    LeaderView,
    Node,
    Violation,
)
from strandline_proto.errors import (
    RequestTimedOut,
)
from strandline_proto.ids import Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.replication.isr_proposal import Effect
    from strandline_broker.core.replication.leader import Leader
    from strandline_proof.model.values import Entry


class Done(NamedTuple):
    node: Node
    committed: int | None = None
    """The high watermark, if this step raised it on a leader."""
    sender: Node | None = None
    """The sender of the fetch that was served, as the answer finds it."""
    cut: tuple[tuple[int, Entry], ...] = ()
    """The records that a follower has truncated, with their offsets."""


def append(node: Node) -> Done:
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    entry = (leader.leader_epoch, node.broker_id, node.broker_epoch)
    node = node._replace(log=logs.append(node.log, (entry,)))
    return led(node, leader, leader.on_append(Offset(len(node.log.entries))))


def time_passes(node: Node) -> Done:
    """The leader checks its lag allowance after no follower has fetched for longer than that."""
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    leader.followers = {
        b: known._replace(
            fetched_ms=machines.OLD_MS,
            caught_up_ms=None if known.caught_up_ms is None else machines.OLD_MS,
        )
        for b, known in leader.followers.items()
    }
    return led(node, leader, leader.on_tick(machines.NOW_MS))


def retry(node: Node) -> Done:
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    return led(node, leader, leader.on_tick(machines.NOW_MS))


def on_isr_response(node: Node) -> Done:
    """The controller's answer arrives."""
    response = node.alter
    assert isinstance(response, IsrResponse)
    node = node._replace(alter=None)
    if not _leads_in(node, response.leader_epoch):
        return Done(node)
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    if isinstance(response.outcome, type):
        error = response.outcome()
        effects = leader.on_isr_refused(machines.REQUEST_ID, error, machines.NOW_MS)
    else:
        effects = leader.on_isr_answer(machines.REQUEST_ID, response.outcome)
    return led(node, leader, effects)


def give_up_on_isr_response(node: Node) -> Done:
    """No answer came in time. The request may still reach the controller."""
    waiting = node.alter
    assert waiting is not None
    unanswered = waiting._replace(is_awaited=False) if isinstance(waiting, IsrRequest) else None
    node = node._replace(alter=unanswered)
    if not _leads_in(node, waiting.leader_epoch):
        return Done(node)
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    error = RequestTimedOut()
    return led(node, leader, leader.on_isr_refused(machines.REQUEST_ID, error, machines.NOW_MS))


def _leads_in(node: Node, leader_epoch: int) -> bool:
    role = node.role
    return isinstance(role, LeaderView) and role.state.leader_epoch == leader_epoch


def led(node: Node, leader: Leader, effects: Sequence[Effect]) -> Done:
    """Carries out a leader's effects, and puts the leader to rest."""
    committed = None
    for effect in effects:
        match effect:
            case HighWatermarkRaised(to):
                if to <= node.log.high_watermark and committed is not None:
                    raise Violation(f"I-10: the high watermark of broker {node.broker_id} fell")
                if len(leader.isr) < MIN_ISR:
                    raise Violation(f"I-9: the high watermark moves with the ISR {leader.isr}")
                node = node._replace(log=node.log._replace(high_watermark=to))
                committed = int(to)
            case ProposeIsr() as asked:
                if isinstance(node.role, LeaderView) and node.role.proposal is not None:
                    pass  # a repeated request: the controller judges it once more
                else:
                    _check_proposal(node, leader, asked)
                request = IsrRequest(
                    isr=asked.isr,
                    leader_epoch=asked.leader_epoch,
                    partition_epoch=asked.partition_epoch,
                    broker_epoch=node.broker_epoch,
                    is_awaited=True,
                )
                node = node._replace(alter=request)
    return Done(node._replace(role=machines.rest_leader(leader)), committed)


def _check_proposal(node: Node, leader: Leader, asked: ProposeIsr) -> None:
    """I-24 and I-26, by what this broker knows."""
    me = node.broker_id
    if all(member.broker_id != me for member in asked.isr):
        raise Violation(f"I-26: broker {me} proposes an ISR without itself: {asked.isr}")
    for member in set(asked.isr) - set(leader.isr):
        end = leader.followers[member.broker_id].log_end_offset
        if end is None or end < max(leader.high_watermark, leader.epoch_start):
            raise Violation(
                f"I-24: broker {member.broker_id} is to join at {end}, below the high watermark"
                f" {leader.high_watermark} or the epoch's start {leader.epoch_start}"
            )
        if (member.broker_id, member.broker_epoch) not in node.eligible:
            raise Violation(f"I-24: {member} is to join, eligible are {node.eligible}")


def orphan(message: IsrRequest | IsrResponse | None) -> IsrRequest | None:
    return message._replace(is_awaited=False) if isinstance(message, IsrRequest) else None

"""Fetches: how a leader's broker serves them, and what a follower does with the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication import follower as f
from strandline_proof.model import logs, machines
from strandline_proof.model.leader_steps import Done, led
from strandline_proof.model.values import (
    FetchRequest,
    FetchResponse,
    FollowerView,
    LeaderView,
    Log,
    Node,
    Violation,
)
from strandline_proto.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_proof.model.values import Entry


def serve(node: Node, sender: Node) -> Done:
    """Serves a fetch of `sender` at once. The answer waits at the sender, unless the sender's
    process is dead or the answer would change nothing there.
    """
    return _served(node, sender, next_fetch(sender))


def serve_sent(node: Node, sender: Node) -> Done:
    """Serves a fetch that was sent earlier; the incarnation that sent it may be dead."""
    assert isinstance(sender.fetch, FetchRequest)
    return _served(node, sender, sender.fetch)


def _served(node: Node, sender: Node, request: FetchRequest) -> Done:
    done, response = _answer(node, sender.broker_id, request)
    silent = sender._replace(fetch=None)
    if not sender.is_up or sender.broker_epoch != request.broker_epoch:
        return done._replace(sender=silent)
    answered = sender._replace(fetch=response)
    says_nothing = on_fetch_response(answered).node == silent
    return done._replace(sender=silent if says_nothing else answered)


def _answer(node: Node, sender: int, request: FetchRequest) -> tuple[Done, FetchResponse]:
    """Serves a fetch in the order of `rpc` and `hosts` (I-33, I-39, P-35)."""
    position, log = request.position, node.log
    try:
        if not isinstance(node.role, LeaderView):
            raise NotLeaderOrFollower
        leader = machines.wake_leader(node.role)
        leader.check_fetch(
            BrokerId(sender),
            broker_epoch=BrokerEpoch(request.broker_epoch),
            leader_epoch=position.leader_epoch,
        )
        diverging = _divergence(log, position)
        if diverging is not None:
            answer = f.FetchAnswer(0, log.high_watermark, 0, diverging=diverging)
            return Done(node), FetchResponse(position, answer, ())
        entries = log.entries[position.fetch_offset :]
        effects = leader.on_follower_fetch(
            BrokerId(sender),
            broker_epoch=BrokerEpoch(request.broker_epoch),
            leader_epoch=position.leader_epoch,
            fetch_offset=position.fetch_offset,
            log_start_offset=Offset(0),
            now_ms=machines.NOW_MS,
        )
        done = led(node, leader, effects)
    except WireError as error:
        return Done(node), FetchResponse(
            position, f.FetchAnswer(error.code, log.high_watermark, 0), ()
        )
    high_watermark = done.node.log.high_watermark
    answer = f.FetchAnswer(0, high_watermark, 0, has_records=bool(entries))
    return done, FetchResponse(position, answer, entries)


def _divergence(log: Log, position: f.FetchPosition) -> tuple[int, int] | None:
    end = len(log.entries)
    if position.last_fetched_epoch >= 0:
        found, at = logs.History(log).end_offset_for(position.last_fetched_epoch, end)
        if found < 0:
            raise OffsetOutOfRange
        if found < position.last_fetched_epoch or at < position.fetch_offset:
            return found, at
    if position.fetch_offset > end:
        raise OffsetOutOfRange
    return None


def may_fetch(node: Node) -> bool:
    role = node.role
    return isinstance(role, FollowerView) and machines.wake_follower(role).may_fetch


def next_fetch(node: Node) -> FetchRequest:
    assert isinstance(node.role, FollowerView)
    follower = machines.wake_follower(node.role)
    end, latest = Offset(len(node.log.entries)), logs.History(node.log).latest()
    return FetchRequest(follower.leader, follower.next_fetch(end, latest), node.broker_epoch)


def send(node: Node) -> Node:
    return node._replace(fetch=next_fetch(node))


def lose_fetch(node: Node) -> Node:
    return node._replace(fetch=None)


def on_fetch_response(node: Node) -> Done:
    """The answer to a fetch arrives."""
    response = node.fetch
    assert isinstance(response, FetchResponse)
    node = node._replace(fetch=None)
    if not isinstance(node.role, FollowerView):
        return Done(node)
    follower = machines.wake_follower(node.role)
    log = node.log
    effects = follower.on_answer(
        response.position,
        response.answer,
        log_start_offset=Offset(0),
        log_end_offset=Offset(len(log.entries)),
        high_watermark=Offset(log.high_watermark),
        history=logs.History(log),
    )
    log, cut = followed(log, effects, response)
    if log.entries and log.entries[-1][0] > follower.leader_epoch:
        raise Violation(
            f"I-2: broker {node.broker_id} follows in epoch {follower.leader_epoch} and has"
            f" appended a record of epoch {log.entries[-1][0]}"
        )
    role = machines.rest_follower(follower, node.role.told)
    return Done(node._replace(log=log, role=role), cut=cut)


def on_late_response(node: Node) -> Done:
    """The answer of an earlier leader arrives; a fetch of the new leader may be under way."""
    now = node.fetch
    done = on_fetch_response(node._replace(fetch=node.late, late=None))
    return done._replace(node=done.node._replace(fetch=now))


def overtaken(node: Node) -> Node:
    """The broker follows a new leader. An answer of the old leader is late from then on, and is
    dropped if it says nothing.
    """
    if not isinstance(node.fetch, FetchResponse):
        return node
    silent = node._replace(fetch=None)
    late = silent._replace(late=node.fetch)
    return silent if on_late_response(late).node == silent else late


def followed(
    log: Log, effects: Sequence[f.Effect], response: FetchResponse | None
) -> tuple[Log, tuple[tuple[int, Entry], ...]]:
    cut: tuple[tuple[int, Entry], ...] = ()
    for effect in effects:
        match effect:
            case f.TruncateTo(offset, below_high_watermark, _):
                if below_high_watermark:
                    raise Violation(f"I-41: a follower cuts at {offset}, below its high watermark")
                cut = tuple(enumerate(log.entries))[offset:]
                log = logs.truncate(log, offset)
            case f.RefuseTruncation(offset):
                raise Violation(f"I-41: a follower was to cut at {offset}, and has refused")
            case f.TruncateFully():
                raise Violation("I-45: a log is dropped, though nothing was deleted anywhere")
            case f.Append():
                assert response is not None
                log = logs.append(log, response.entries)
            case f.AdvanceHighWatermark(leader_high_watermark):
                to = f.follower_high_watermark(
                    log.high_watermark,
                    log_start_offset=0,
                    leader_high_watermark=leader_high_watermark,
                    log_end_offset=len(log.entries),
                )
                log = log._replace(high_watermark=to)
            case _:
                pass
    return log, cut

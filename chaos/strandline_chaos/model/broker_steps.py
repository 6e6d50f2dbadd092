"""What one broker does: the machines of the core carry it out, on values.

Each function takes a node at rest and gives the node afterwards; none looks at another node, except
that a leader is given the fetch of a follower. So their results can be kept and used again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.core import follower as f
from strandline_broker.core.isr_proposal import HighWatermarkRaised, ProposeIsr
from strandline_broker.core.leader import Leader
from strandline_chaos.model import logs, machines
from strandline_chaos.model.values import (
    MIN_ISR,
    FetchRequest,
    FetchResponse,
    FollowerView,
    IsrRequest,
    IsrResponse,
    LeaderView,
    Log,
    Node,
    Violation,
)
from strandline_proto.errors import (
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RequestTimedOut,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.isr_proposal import Effect
    from strandline_broker.core.partition_state import PartitionState
    from strandline_chaos.model.values import Decided, Entry


class Done(NamedTuple):
    node: Node
    committed: int | None = None
    """The high watermark, if this step raised it on a leader."""
    sender: Node | None = None
    """Of the fetch that was served, as the answer finds it."""
    cut: tuple[tuple[int, Entry], ...] = ()
    """What a follower has truncated: offsets and records."""


# Leading


def append(node: Node) -> Done:
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    entry = (leader.leader_epoch, node.broker_id, node.broker_epoch)
    node = node._replace(log=logs.append(node.log, (entry,)))
    return _led(node, leader, leader.on_append(Offset(len(node.log.entries))))


def time_passes(node: Node) -> Done:
    """Nobody has fetched for longer than the lag allowance, and the leader looks."""
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    leader.followers = {
        b: replace(
            known,
            fetched_ms=machines.OLD_MS,
            caught_up_ms=None if known.caught_up_ms is None else machines.OLD_MS,
        )
        for b, known in leader.followers.items()
    }
    return _led(node, leader, leader.on_tick(machines.NOW_MS))


def retry(node: Node) -> Done:
    assert isinstance(node.role, LeaderView)
    leader = machines.wake_leader(node.role)
    return _led(node, leader, leader.on_tick(machines.NOW_MS))


def hear_isr_outcome(node: Node) -> Done:
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
    return _led(node, leader, effects)


def give_up_on_isr_outcome(node: Node) -> Done:
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
    return _led(node, leader, leader.on_isr_refused(machines.REQUEST_ID, error, machines.NOW_MS))


def _leads_in(node: Node, leader_epoch: int) -> bool:
    role = node.role
    return isinstance(role, LeaderView) and role.state.leader_epoch == leader_epoch


def _led(node: Node, leader: Leader, effects: Sequence[Effect]) -> Done:
    """Carry out what a leader wishes, and put it to rest."""
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
                    pass  # asked again: the controller judges it anew
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
    """I-24 and I-26, by this broker's own knowledge."""
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


def serve(node: Node, sender: Node) -> Done:
    """A fetch of `sender` reaches `node` at once. The answer waits at the sender, unless it is gone
    or the answer would change nothing there.
    """
    return _served(node, sender, next_fetch(sender))


def serve_sent(node: Node, sender: Node) -> Done:
    """The same for a fetch that was sent a while ago, perhaps by an incarnation that is no more."""
    assert isinstance(sender.fetch, FetchRequest)
    return _served(node, sender, sender.fetch)


def _served(node: Node, sender: Node, request: FetchRequest) -> Done:
    done, response = _answer(node, sender.broker_id, request)
    silent = sender._replace(fetch=None)
    if not sender.is_up or sender.broker_epoch != request.broker_epoch:
        return done._replace(sender=silent)
    answered = sender._replace(fetch=response)
    says_nothing = hear_fetch(answered).node == silent
    return done._replace(sender=silent if says_nothing else answered)


def _answer(node: Node, sender: int, request: FetchRequest) -> tuple[Done, FetchResponse]:
    """What a leader's broker does, in the order of `rpc` and `hosts` (I-33, I-39, P-35)."""
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
        done = _led(node, leader, effects)
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


# Following


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


def hear_fetch(node: Node) -> Done:
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
    log, cut = _followed(log, effects, response)
    if log.entries and log.entries[-1][0] > follower.leader_epoch:
        raise Violation(
            f"I-2: broker {node.broker_id} follows in epoch {follower.leader_epoch} and has"
            f" appended a record of epoch {log.entries[-1][0]}"
        )
    role = machines.rest_follower(follower, node.role.told)
    return Done(node._replace(log=log, role=role), cut=cut)


def _followed(
    log: Log, effects: Sequence[f.Effect], response: FetchResponse | None
) -> tuple[Log, tuple[tuple[int, Entry], ...]]:
    cut: tuple[tuple[int, Entry], ...] = ()
    for effect in effects:
        match effect:
            case f.TruncateTo(offset, below_high_watermark):
                if below_high_watermark:
                    raise Violation(f"I-41: a follower cuts at {offset}, below its high watermark")
                cut = tuple(enumerate(log.entries))[offset:]
                log = logs.truncate(log, offset)
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


# Both


def learn(node: Node, decided: Decided) -> Done:
    """The controller's newest decision arrives (I-34)."""
    known, state = node.known, machines.pushed(decided)
    eligible = machines.pushed_eligible(decided)
    node = node._replace(eligible=eligible)
    if known is not None and not state.is_newer_than(known):
        return _on_eligible(Done(node))
    if known is not None and known.leader_epoch == state.leader_epoch:
        node = node._replace(known=state)
        if isinstance(node.role, LeaderView):
            leader = machines.wake_leader(node.role)
            return _on_eligible(_led(node, leader, leader.on_state(state, machines.NOW_MS)))
        return Done(node)
    node = node._replace(known=state, role=None, alter=_orphan(node.alter))
    return _lead(node, state) if state.leader == node.broker_id else _follow(node, state)


def _on_eligible(done: Done) -> Done:
    role = done.node.role
    if not isinstance(role, LeaderView):
        return done
    leader = machines.wake_leader(role)
    effects = leader.on_eligible(machines.thawed_eligible(done.node.eligible))
    after = _led(done.node, leader, effects)
    return after if after.committed is not None else after._replace(committed=done.committed)


def _orphan(message: IsrRequest | IsrResponse | None) -> IsrRequest | None:
    return message._replace(is_awaited=False) if isinstance(message, IsrRequest) else None


def _lead(node: Node, state: PartitionState) -> Done:
    log = logs.assign_epoch(node.log, state.leader_epoch)
    node = node._replace(log=log, fetch=None)
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
        lag_ms_max=machines.LAG_MS_MAX,
        flush_always=False,
        now_ms=machines.NOW_MS,
    )
    return _led(node, leader, leader.on_tick(machines.NOW_MS))


def _follow(node: Node, state: PartitionState) -> Done:
    told = machines.for_follower(state)
    node = node._replace(known=told, eligible=())
    follower = f.Follower(told)
    effects = follower.on_become_follower(
        log_end_offset=Offset(len(node.log.entries)),
        high_watermark=Offset(node.log.high_watermark),
    )
    log, cut = _followed(node.log, effects, None)
    role = machines.rest_follower(follower, told)
    return Done(node._replace(log=log, role=role), cut=cut)


def kill_process(node: Node, keeps: int | None) -> Node:
    """The process is gone; of its log `keeps` records are left, all if None. Its checkpoint of the
    high watermark may be as old as can be.
    """
    log = node.log if keeps is None else logs.truncate(node.log, keeps)
    has_lost = node.has_lost or keeps is not None
    return _ended(node, log._replace(high_watermark=0))._replace(has_lost=has_lost)


def stop_process(node: Node) -> Node:
    """A stop that was asked for: everything is on disk, and a marker says so."""
    return _ended(node, node.log)._replace(stopped_cleanly=True)


def _ended(node: Node, log: Log) -> Node:
    return node._replace(
        is_up=False,
        stopped_cleanly=False,
        log=log,
        known=None,
        eligible=(),
        role=None,
        # What has been sent may still arrive.
        fetch=node.fetch if isinstance(node.fetch, FetchRequest) else None,
        alter=_orphan(node.alter),
    )


def start_process(node: Node, broker_epoch: int, *, in_isr: bool) -> Node:
    return node._replace(
        is_up=True,
        stopped_cleanly=False,
        broker_epoch=broker_epoch,
        has_lost=node.has_lost and in_isr,
    )

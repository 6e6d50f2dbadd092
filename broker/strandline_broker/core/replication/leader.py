"""The leader's view of one partition in one leader epoch: the replicas in sync, and the committed
records.

Inputs are calls, requested actions are returned effects, and time is an argument. The host builds
one `Leader` for each leader epoch that it wins, and carries the effects out in order. When a newer
epoch begins it drops the machine, which abandons its proposal (I-28).

After every input these statements hold:

- The high watermark moves only with |ISR| at or above the minimum. It moves only to an offset that
  every member of the maximal ISR, and every replica about to join it, holds. A fetch in this epoch,
  from the incarnation that counts, must prove that (I-9, I-90).
- The high watermark never goes back (I-10).
- The maximal ISR holds every replica that the controller may count as in sync (I-16).
- The leader is in the ISR (I-22), and in every ISR that it proposes (I-26).
- At most one proposal is open. A proposal is withdrawn only if it is known not to have been applied
  (I-28).

The *maximal* ISR is the committed ISR plus the replicas that the open proposal adds. While the
result of a proposal is unknown, the controller may already have committed it, and may elect the new
member. Committing records without that member would lose them (P-5, P-6). A proposal to remove a
member changes nothing until it is committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strandline_broker.core.replication.fencing import check_leader_epoch
from strandline_broker.core.replication.isr_proposal import (
    NEWER_METADATA_WILL_TELL,
    RETRY_MS_MIN,
    Effect,
    HighWatermarkRaised,
    Proposal,
    ProposeIsr,
)
from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember, PartitionState
from strandline_broker.core.replication.remote_replica import RemoteReplica, check_incarnation
from strandline_proto.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    NotEnoughReplicas,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    WireError,
)
from strandline_proto.ids import UNKNOWN_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["Effect", "HighWatermarkRaised", "Leader", "ProposeIsr"]


class Leader:
    def __init__(
        self,
        me: BrokerId,
        my_broker_epoch: BrokerEpoch,
        state: PartitionState,
        *,
        log_end_offset: Offset,
        log_start_offset: Offset,
        high_watermark: Offset,
        durable_offset: Offset,
        eligible: Mapping[BrokerId, BrokerEpoch],
        offline: Collection[BrokerId],
        lag_ms_max: int,
        flush_always: bool,
        now_ms: int,
    ) -> None:
        """Begin a leadership. `eligible` has the brokers that are unfenced and not shutting down,
        with their current epochs. `offline` has brokers whose replica may not join all the same.
        Both are as of `state`, or newer.

        A member of the ISR gets a full lag allowance from now, because it was in sync a moment ago
        under the previous leader. No replica's end offset is known. Call `on_tick` at once: a sole
        member may have records to commit.
        """
        assert 0 <= log_start_offset <= high_watermark <= log_end_offset
        assert durable_offset <= log_end_offset
        self.leader_epoch = state.leader_epoch
        self.epoch_start = log_end_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        self.log_start_offset = log_start_offset
        self.durable_offset = durable_offset
        self.followers: dict[BrokerId, RemoteReplica] = {}
        self.isr: tuple[IsrMember, ...] = ()
        self._me = IsrMember(me, my_broker_epoch)
        self._eligible = dict(eligible)
        self._offline = frozenset(offline)
        self._lag_ms_max = lag_ms_max
        self._flush_always = flush_always
        self._now_ms = now_ms
        self._proposal: Proposal | None = None
        self._requests = 0
        self._join_not_before_ms = now_ms
        self._epoch_was_pushed = True
        """True once the current partition epoch was pushed. Its push names the replicas that may
        not join; an answer may arrive before it.
        """
        self._adopt(state)

    @property
    def proposed(self) -> tuple[IsrMember, ...] | None:
        """The requested ISR, while the controller's answer is unknown."""
        return None if self._proposal is None else self._proposal.request.isr

    @property
    def maximal_isr(self) -> tuple[IsrMember, ...]:
        """Every incarnation that the controller may count as in sync."""
        joins = () if self._proposal is None else sorted(self._proposal.joins)
        return (*self.isr, *joins)

    @property
    def end_offset_known(self) -> bool:
        """True if the high watermark has reached everything that earlier leaders may have committed
        (I-11).
        """
        return self.high_watermark >= self.epoch_start

    def below_min_isr(self) -> bool:
        return len(self.isr) < self._eff_min_insync

    def check_can_append_all(self) -> None:
        """Refuse an acks=all write that could not be committed (I-20), before it is written."""
        if self.below_min_isr():
            ids = ", ".join(str(m.broker_id) for m in self.isr)
            raise NotEnoughReplicas(
                f"{self._where} has ISR {{{ids}}}, needs {self._eff_min_insync} for acks=all;"
                " nothing was written, retry when more replicas are in sync"
            )

    def on_append(self, log_end_offset: Offset) -> list[Effect]:
        assert log_end_offset >= self.log_end_offset, (log_end_offset, self.log_end_offset)
        self.log_end_offset = log_end_offset
        return self._advance()

    def on_durable(self, durable_offset: Offset) -> list[Effect]:
        """Record that everything below `durable_offset` is on disk here."""
        assert durable_offset <= self.log_end_offset, (durable_offset, self.log_end_offset)
        self.durable_offset = max(self.durable_offset, durable_offset)
        return self._advance()

    def on_log_start(self, log_start_offset: Offset) -> list[Effect]:
        assert self.log_start_offset <= log_start_offset <= self.high_watermark
        self.log_start_offset = log_start_offset
        return []

    def low_watermark(self) -> int:
        """The lowest log start of this log and those of the live ISR members: none of them holds a
        record below it (I-75). The result is -1 while one of them has not fetched from this leader.
        """
        low: int = self.log_start_offset
        for member in self.maximal_isr:
            if member != self._me and self._eligible.get(member.broker_id) == member.broker_epoch:
                start = self.followers[member.broker_id].log_start_offset
                low = min(low, -1 if start is None else start)
        return low

    def on_follower_fetch(
        self,
        broker_id: BrokerId,
        *,
        broker_epoch: BrokerEpoch,
        leader_epoch: LeaderEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        now_ms: int,
        log_end_at_read: Offset | None = None,
    ) -> list[Effect]:
        """Record a follower's fetch that was read without error and without divergence (I-39,
        P-35).

        `now_ms` and `log_end_at_read` may be those of the fetch's arrival. A slow disk here then
        does not make the follower look late (P-57).
        """
        self.check_fetch(broker_id, broker_epoch=broker_epoch, leader_epoch=leader_epoch)
        if fetch_offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self._where}: broker {broker_id} asked for {fetch_offset},"
                f" the log ends at {self.log_end_offset}"
            )
        self._saw(now_ms)
        leader_end = self.log_end_offset if log_end_at_read is None else log_end_at_read
        self.followers[broker_id] = self.followers[broker_id].after_fetch(
            broker_epoch=broker_epoch,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end=leader_end,
            now_ms=now_ms,
        )
        # The proposal comes first: its member counts from now on (P-5).
        return self._propose_join(broker_id) + self._advance()

    def on_still_level(self, broker_id: BrokerId, *, broker_epoch: BrokerEpoch, at_ms: int) -> None:
        """Record that a follower was active at `at_ms` and held the whole log of that time. A
        follower that has everything does not repeat that for each partition (P-56).
        """
        follower = self.followers.get(broker_id)
        if follower is not None and follower.broker_epoch == broker_epoch:
            self.followers[broker_id] = follower.level_at(at_ms)

    def check_fetch(
        self, broker_id: BrokerId, *, broker_epoch: BrokerEpoch, leader_epoch: LeaderEpoch
    ) -> None:
        """Refuse a replica's fetch: epoch, then membership, then incarnation (I-33, P-73)."""
        if leader_epoch == UNKNOWN_EPOCH:
            raise FencedLeaderEpoch(
                f"{self._where}: broker {broker_id} fetches without a leader epoch"
            )
        check_leader_epoch(leader_epoch, self.leader_epoch, where=self._where)
        follower = self.followers.get(broker_id)
        if follower is None:
            raise UnknownLeaderEpoch(
                f"{self._where}: broker {broker_id} is no replica as far as its leader knows; retry"
            )
        counted = None
        for member in self.maximal_isr:
            if member.broker_id == broker_id:
                counted = member.broker_epoch
                break
        check_incarnation(
            broker_id,
            broker_epoch,
            counted=counted,
            eligible=self._eligible.get(broker_id),
            seen=follower.broker_epoch,
            where=self._where,
        )

    def on_state(self, state: PartitionState, now_ms: int) -> list[Effect]:
        """Take a push of this leader epoch, after the `on_eligible` of the same push. An equal
        state leaves a proposal open (I-34, P-79).
        """
        self._saw(now_ms)
        if state.leader_epoch < self.leader_epoch or state.partition_epoch < self.partition_epoch:
            return []
        assert state.leader_epoch == self.leader_epoch, "a newer leader epoch needs a new machine"
        if state.partition_epoch == self.partition_epoch and self._epoch_was_pushed:
            return []
        if state.partition_epoch > self.partition_epoch:
            # The controller compares and sets, so a request at the older epoch can
            # no longer be applied (I-27).
            self._proposal = None
        # An answer that arrived first gave the ISR of this epoch, but not its replicas.
        self._epoch_was_pushed = True
        self._adopt(state)
        return self._advance()

    def on_eligible(
        self, eligible: Mapping[BrokerId, BrokerEpoch], *, offline: Collection[BrokerId] = ()
    ) -> list[Effect]:
        """Take the brokers that may join.

        `offline` has brokers that may join while their replica may not. The controller raises the
        partition epoch with such a change, and that epoch ends an open proposal for the replica.
        The change must therefore arrive no later than the epoch, and no replica is proposed in an
        epoch that is not pushed yet. A replica proposed by mistake would be refused and no longer
        counted. The same request, arriving late, could then add it after its replica is back (I-15,
        I-16).
        """
        self._eligible, self._offline = dict(eligible), frozenset(offline)
        proposal = self._proposal
        if proposal is not None and proposal.refused and not self._any_eligible(proposal.joins):
            self._proposal = None
        return self._advance()

    def on_isr_answer(self, request_id: int, answer: IsrAnswer) -> list[Effect]:
        """Take the committed state: the controller applied a proposal, or the proposal equals what
        is committed.
        """
        if answer.leader_epoch != self.leader_epoch:
            return []
        if answer.partition_epoch > self.partition_epoch:
            self._proposal = None
            self._epoch_was_pushed = False
            self._adopt(
                replace(
                    self._state,
                    isr=answer.isr,
                    partition_epoch=answer.partition_epoch,
                    eff_min_insync=answer.eff_min_insync,
                    recovering=answer.recovering,
                    elr=answer.elr,
                )
            )
        elif answer.partition_epoch == self.partition_epoch and self._open(request_id) is not None:
            self._proposal = None
        return self._advance()

    def on_isr_refused(self, request_id: int, error: WireError, now_ms: int) -> list[Effect]:
        """Handle a refusal, or a call without an answer (then `error` says how it failed)."""
        self._saw(now_ms)
        proposal = self._open(request_id)
        if proposal is None:
            return []
        if isinstance(error, NEWER_METADATA_WILL_TELL):
            # An earlier attempt may have been applied; the push under way tells what is committed.
            return []
        if isinstance(error, IneligibleReplica):
            proposal.refused = True
            self._join_not_before_ms = now_ms + RETRY_MS_MIN
            # A refusal settles this attempt. An earlier one without an answer may still be applied
            # while the member to add may be eligible, so the member continues to count. After the
            # member was fenced it cannot be applied, as fencing raises the partition epoch (I-15,
            # I-27).
            if not proposal.unsure or not self._any_eligible(proposal.joins):
                self._proposal = None
                return self._advance()
        else:
            proposal.unsure = True
        proposal.retry_later(now_ms)
        return []

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Remove laggards from the ISR, retry requests without an answer, and record the time."""
        self._saw(now_ms)
        effects: list[Effect] = []
        proposal = self._proposal
        if proposal is None:
            effects += self._propose_shrink()
        elif proposal.retry_is_due(now_ms):
            proposal.ask_again(self._request(proposal.request.isr))
            effects.append(proposal.request)
        return effects + self._advance()

    @property
    def awaits_time(self) -> bool:
        """True if a tick may have an effect before the next input of another kind."""
        if self._proposal is not None or self._state.recovering:
            return True
        if self._now_ms < self._join_not_before_ms:
            return True
        in_sync = {m.broker_id for m in self.isr}
        for broker_id, follower in self.followers.items():
            if broker_id in in_sync:
                if follower.log_end_offset != self.log_end_offset:
                    return True
            elif self._is_about_to_join(broker_id, follower):
                return True
        return False

    @property
    def may_grow(self) -> bool:
        """True if a replica would be proposed if it repeated its last fetch. A follower that has
        everything need not fetch again for that to change.
        """
        return any(self._can_be_asked_for(b, f) for b, f in self.followers.items())

    def _saw(self, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)

    def _adopt(self, state: PartitionState) -> None:
        """Take a state that the controller has committed in this leader epoch."""
        assert state.leader == self._me.broker_id, state
        assert state.problem() is None, state.problem()
        before = set(self.isr)
        self._state = state
        self._where = state.where
        self.partition_epoch = state.partition_epoch
        self._eff_min_insync = state.eff_min_insync
        self.isr = tuple(m if m.broker_id != self._me.broker_id else self._me for m in state.isr)
        # The map is built separately and swapped once, so no reader sees it with members missing
        # (P-15).
        followers = {
            b: self.followers.get(b, RemoteReplica())
            for b in state.replicas
            if b != self._me.broker_id
        }
        for member in self.isr:
            if member == self._me or member in before:
                continue
            # A new member gets a full lag allowance; otherwise the next tick could remove it again.
            known = followers[member.broker_id]
            if known.broker_epoch != member.broker_epoch:
                known = RemoteReplica(broker_epoch=member.broker_epoch)
            followers[member.broker_id] = known._replace(caught_up_ms=self._now_ms)
        self.followers = followers

    def _open(self, request_id: int) -> Proposal | None:
        """The open proposal, if its latest attempt has this id (P-79)."""
        proposal = self._proposal
        matches = proposal is not None and proposal.request.request_id == request_id
        return proposal if matches else None

    def _any_eligible(self, members: Iterable[IsrMember]) -> bool:
        return any(self._eligible.get(m.broker_id) == m.broker_epoch for m in members)

    def _propose_join(self, broker_id: BrokerId) -> list[Effect]:
        """Ask to add the replica that has just fetched, if it may join (I-24)."""
        follower = self.followers[broker_id]
        if not self._can_be_asked_for(broker_id, follower):
            return []
        return self._propose((*self.isr, IsrMember(broker_id, follower.broker_epoch)))

    def _can_be_asked_for(self, broker_id: BrokerId, follower: RemoteReplica) -> bool:
        """True if a replica may be proposed. Both bounds on its log are needed. Below the epoch's
        start it may hold records that no leader committed (P-10). The high watermark need not have
        passed that start (P-74).
        """
        if self._proposal is not None or self._now_ms < self._join_not_before_ms:
            return False
        if not self._epoch_was_pushed:
            return False  # the controller may have begun the epoch to bar it (I-15, I-16)
        if self._state.recovering:
            return False  # the ISR stays {leader} until the recovery is recorded (I-49)
        if follower.log_end_offset is None or any(m.broker_id == broker_id for m in self.isr):
            return False
        if follower.log_end_offset < max(self.high_watermark, self.epoch_start):
            return False
        return self._may_join(broker_id, follower)

    def _may_join(self, broker_id: BrokerId, follower: RemoteReplica) -> bool:
        current = self._eligible.get(broker_id) == follower.broker_epoch
        return current and broker_id not in self._offline

    def _propose_shrink(self) -> list[Effect]:
        """Propose to remove laggards (I-25). A silent replica that holds everything is no laggard
        (P-56).
        """
        kept = tuple(m for m in self.isr if m == self._me or not self._lags(m))
        if kept != self.isr or self._state.recovering:
            return self._propose(kept)
        return []

    def _lags(self, member: IsrMember) -> bool:
        follower = self.followers[member.broker_id]
        level = follower.log_end_offset == self.log_end_offset
        return not level and not follower.was_caught_up_within(
            self._lag_ms_max, now_ms=self._now_ms
        )

    def _propose(self, isr: tuple[IsrMember, ...]) -> list[Effect]:
        assert self._proposal is None
        assert self._me in isr, isr
        request = self._request(isr)
        self._proposal = Proposal(request, joins=frozenset(isr) - frozenset(self.isr))
        return [request]

    def _request(self, isr: tuple[IsrMember, ...]) -> ProposeIsr:
        self._requests += 1
        # Ids differ from those of every other leader epoch, so a late answer to an earlier machine
        # is ignored here.
        request_id = (self.leader_epoch << 32) + self._requests
        return ProposeIsr(request_id, isr, self.leader_epoch, self.partition_epoch)

    def _advance(self) -> list[Effect]:
        """Raise the high watermark as far as I-9 and I-29 allow."""
        if self.below_min_isr():
            return []
        committed = self.durable_offset if self._flush_always else self.log_end_offset
        counted = {m.broker_id: m.broker_epoch for m in self.maximal_isr}
        for broker_id, follower in self.followers.items():
            if broker_id in counted:
                assert follower.broker_epoch == counted[broker_id], (broker_id, follower)
                if follower.log_end_offset is None:
                    return []
                committed = min(committed, follower.log_end_offset)
            elif self._is_about_to_join(broker_id, follower):
                assert follower.log_end_offset is not None
                committed = min(committed, follower.log_end_offset)
        if committed <= self.high_watermark:
            return []
        self.high_watermark = committed
        return [HighWatermarkRaised(committed)]

    def _is_about_to_join(self, broker_id: BrokerId, follower: RemoteReplica) -> bool:
        """True if the replica is about to join. A replica that keeps pace would never reach the
        high watermark unless it is waited for. A replica that may not join is not waited for
        (P-58).
        """
        return (
            follower.log_end_offset is not None
            and not self._state.recovering
            and self._may_join(broker_id, follower)
            and follower.was_caught_up_within(self._lag_ms_max, now_ms=self._now_ms)
        )

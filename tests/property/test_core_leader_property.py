"""Random histories of a leader, its followers and a controller that loses and delays messages.

The world here is what the leader cannot see: what each follower process really holds, what the
controller has really committed, which calls are still on their way. The dumb model of the
watermark keeps every fetch there ever was and looks the answer up in that list.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline_broker.core.replication.leader import (
    Effect,
    HighWatermarkRaised,
    Leader,
    ProposeIsr,
)
from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember, PartitionState
from strandline_proto.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    RequestTimedOut,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from support.partition_states import FIRST_EPOCHS, A, B, C, partition_state

LAG_MS, MIN_ISR, EPOCH = 50, 2, LeaderEpoch(5)
FOLLOWERS = st.sampled_from([B, C])


@dataclass
class Process:
    """One incarnation of a follower; a newer one may run beside it."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    held: int


@dataclass(frozen=True)
class Fetch:
    member: IsrMember
    offset: int
    leader_end: int
    at_ms: int


class LeaderHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.next_broker_epoch = 100
        self.registered = dict(FIRST_EPOCHS)
        self.fenced: set[BrokerId] = set()
        self.offline: set[BrokerId] = set()
        self.pushes: list[
            tuple[PartitionState, dict[BrokerId, BrokerEpoch], frozenset[BrokerId]]
        ] = []
        self.awaited: ProposeIsr | None = None
        self.on_their_way: list[ProposeIsr] = []
        self.answers: list[tuple[int, IsrAnswer | WireError]] = []
        self.fetches: list[Fetch] = []
        self.model_watermark = 0

    @initialize(
        end=st.integers(0, 5),
        committed=st.integers(0, 5),
        in_sync=st.sampled_from([(A, B, C), (A, B), (A, C), (A,)]),
        flush_always=st.booleans(),
    )
    def elected(
        self, end: int, committed: int, in_sync: tuple[BrokerId, ...], flush_always: bool
    ) -> None:
        committed = min(committed, end)
        self.state = partition_state(*in_sync, min_isr=MIN_ISR)
        self.model_watermark = committed
        self.flush_always = flush_always
        self.leader_metadata = self.eligible()
        self.leader_offline: frozenset[BrokerId] = frozenset()
        # Candidates hold what is committed (I-15); what else they hold is not known to the leader.
        self.processes = [
            Process(b, FIRST_EPOCHS[b], committed if b in in_sync else 0) for b in (B, C)
        ]
        self.leader = Leader(
            A,
            FIRST_EPOCHS[A],
            self.state,
            log_end_offset=Offset(end),
            log_start_offset=Offset(0),
            high_watermark=Offset(committed),
            durable_offset=Offset(end),
            eligible=self.eligible(),
            offline=(),
            lag_ms_max=LAG_MS,
            flush_always=flush_always,
            now_ms=0,
        )
        self.members = self.leader.isr
        self.joined_ms = dict.fromkeys(self.members, 0)

    def eligible(self) -> dict[BrokerId, BrokerEpoch]:
        return {b: e for b, e in self.registered.items() if b not in self.fenced}

    def see(self, effects: list[Effect]) -> None:
        for m in self.leader.isr:
            if m not in self.members:
                self.joined_ms[m] = self.now_ms
        self.members = self.leader.isr
        for e in effects:
            if isinstance(e, ProposeIsr):
                self.see_proposal(e)
        self.model_watermark = max(self.model_watermark, self.committed_by_the_model())
        raised = [e.to for e in effects if isinstance(e, HighWatermarkRaised)]
        assert self.leader.high_watermark == self.model_watermark, "I-9"
        assert raised in ([], [self.model_watermark])

    def see_proposal(self, asked: ProposeIsr) -> None:
        assert self.awaited is None, "I-28"
        assert A in [m.broker_id for m in asked.isr], "I-26"
        assert (asked.leader_epoch, asked.partition_epoch) == (5, self.leader.partition_epoch)
        first_time = asked.request_id not in {call.request_id for call in self.on_their_way}
        assert first_time
        self.awaited = asked
        self.on_their_way.append(asked)

    def committed_by_the_model(self) -> int:
        p = self.leader
        if len(p.isr) < MIN_ISR:
            return 0
        ends = [p.durable_offset if self.flush_always else p.log_end_offset]
        for broker_id in (B, C):
            counted = [m for m in p.maximal_isr if m.broker_id == broker_id]
            if counted:
                by_it = [f for f in self.fetches if f.member == counted[0]]
                ends.append(Offset(by_it[-1].offset if by_it else 0))
            else:
                last = next(
                    (f for f in self.fetches[::-1] if f.member.broker_id == broker_id), None
                )
                if last is not None and self.may_be_about_to_join(last.member):
                    ends.append(Offset(last.offset))
        return min(ends)

    def may_be_about_to_join(self, member: IsrMember) -> bool:
        eligible = self.leader_metadata.get(member.broker_id) == member.broker_epoch
        barred = member.broker_id in self.leader_offline
        return eligible and not barred and self.keeps_pace(member)

    def keeps_pace(self, member: IsrMember) -> bool:
        mine = [f for f in self.fetches if f.member == member]
        level = [self.joined_ms[member]] if member in self.joined_ms else []
        level += [f.at_ms for f in mine if f.offset >= f.leader_end]
        pairs = pairwise(mine)
        level += [a.at_ms for a, b in pairs if b.offset >= a.leader_end]
        return bool(level) and self.now_ms - max(level) <= LAG_MS

    def lags(self, member: IsrMember) -> bool:
        mine = [f.offset for f in self.fetches if f.member == member]
        level = mine[-1:] == [self.leader.log_end_offset]  # silent and level is fine (P-56)
        return not level and not self.keeps_pace(member)

    # The leader and its followers

    @rule(n=st.integers(1, 3))
    def append(self, n: int) -> None:
        self.see(self.leader.on_append(Offset(self.leader.log_end_offset + n)))

    @rule(n=st.integers(0, 4))
    def flush(self, n: int) -> None:
        to = min(self.leader.durable_offset + n, self.leader.log_end_offset)
        self.see(self.leader.on_durable(Offset(to)))

    @rule(which=st.integers(0, 5), copied=st.integers(0, 4))
    def fetch(self, which: int, copied: int) -> None:
        process = self.processes[which % len(self.processes)]
        member = IsrMember(process.broker_id, process.broker_epoch)
        held = min(process.held + copied, self.leader.log_end_offset)
        process.held = max(process.held, held)
        try:
            effects = self.leader.on_follower_fetch(
                member.broker_id,
                broker_epoch=member.broker_epoch,
                leader_epoch=EPOCH,
                fetch_offset=Offset(held),
                log_start_offset=Offset(0),
                now_ms=self.now_ms,
            )
        except WireError:
            return
        self.fetches.append(Fetch(member, held, self.leader.log_end_offset, self.now_ms))
        for e in effects:
            if isinstance(e, ProposeIsr):
                assert e.isr == (*self.leader.isr, member), "I-24"
                assert self.leader_metadata[member.broker_id] == member.broker_epoch, "I-24"
                assert held >= max(self.leader.high_watermark, self.leader.epoch_start), "I-24"
        self.see(effects)

    @rule(which=st.integers(0, 5))
    def stay_level(self, which: int) -> None:
        """Its session is heard while it has nothing to fetch: as good as one more fetch."""
        process = self.processes[which % len(self.processes)]
        member = IsrMember(process.broker_id, process.broker_epoch)
        ends = [f.offset for f in self.fetches if f.member == member]
        if ends[-1:] == [self.leader.log_end_offset]:
            self.leader.on_still_level(
                member.broker_id, broker_epoch=member.broker_epoch, at_ms=self.now_ms
            )
            newest = [f.member for f in self.fetches if f.member.broker_id == member.broker_id]
            if newest[-1] == member:  # of an incarnation that is over it says nothing (P-73)
                end = self.leader.log_end_offset
                self.fetches.append(Fetch(member, end, end, self.now_ms))

    @rule(n=st.integers(0, 3), but=st.sampled_from([None, B, C]))
    def replicate(self, n: int, but: BrokerId | None) -> None:
        """Records arrive and are copied by everyone, or by all but one."""
        if n > 0:
            self.append(n)
        for which, process in enumerate(self.processes):
            if process.broker_id != but:
                self.fetch(which, 10)

    @rule(ms=st.integers(0, 60))
    def tick(self, ms: int) -> None:
        self.now_ms += ms
        kept = tuple(m for m in self.leader.isr if m.broker_id == A or not self.lags(m))
        may_ask, is_awaited = self.leader.proposed is None, self.leader.awaits_time
        effects = self.leader.on_tick(self.now_ms)
        assert is_awaited or effects == [], "a tick that nobody waits for is left out"
        if may_ask:
            asked = [e.isr for e in effects if isinstance(e, ProposeIsr)]
            assert asked == ([] if kept == self.leader.isr else [kept]), "I-25"
        self.see(effects)

    # The controller

    def commit(self, isr: tuple[IsrMember, ...], *, new_epoch: bool = False) -> None:
        self.state = replace(
            self.state,
            isr=isr,
            partition_epoch=PartitionEpoch(self.state.partition_epoch + 1),
            leader_epoch=LeaderEpoch(self.state.leader_epoch + new_epoch),
        )

    def push(self) -> None:
        self.pushes.append((self.state, self.eligible(), frozenset(self.offline)))

    @rule(b=FOLLOWERS)
    def fence(self, b: BrokerId) -> None:
        """Even where it is in no ISR, what was asked before may not let it in any more (I-27)."""
        if b not in self.fenced:
            self.fenced.add(b)
            self.commit(tuple(m for m in self.state.isr if m.broker_id != b))
        self.push()

    @rule(b=FOLLOWERS)
    def unfence(self, b: BrokerId) -> None:
        self.fenced.discard(b)
        self.push()

    @rule(b=FOLLOWERS)
    def lose_the_directory(self, b: BrokerId) -> None:
        """The broker lives, and its replica does not."""
        if b not in self.offline:
            self.offline.add(b)
            self.commit(tuple(m for m in self.state.isr if m.broker_id != b))
            self.push()

    @rule(b=FOLLOWERS)
    def get_it_back(self, b: BrokerId) -> None:
        self.offline.discard(b)
        self.push()

    @rule(b=FOLLOWERS)
    def leave_and_return(self, b: BrokerId) -> None:
        """A short silence: the leader hears of both at once."""
        self.fence(b)
        self.unfence(b)
        while self.pushes:
            self.a_push_arrives()

    @rule(b=FOLLOWERS, lost=st.integers(0, 3), old_one_lives=st.booleans())
    def restart(self, b: BrokerId, lost: int, old_one_lives: bool) -> None:
        """A newer incarnation registers; if it lost records, the leader epoch goes up (P-73)."""
        current = next(
            p for p in self.processes if (p.broker_id, p.broker_epoch) == (b, self.registered[b])
        )
        if not old_one_lives:
            self.processes.remove(current)
        self.next_broker_epoch += 1
        self.registered[b] = BrokerEpoch(self.next_broker_epoch)
        self.processes.append(Process(b, self.registered[b], max(current.held - lost, 0)))
        self.fenced.add(b)
        if any(m.broker_id == b for m in self.state.isr):
            left = tuple(m for m in self.state.isr if m.broker_id != b)
            self.commit(left, new_epoch=lost > 0)
        self.push()

    @precondition(lambda self: self.pushes)
    @rule()
    def a_push_arrives(self) -> None:
        state, eligible, offline = self.pushes.pop(0)
        self.leader_metadata, self.leader_offline = eligible, offline
        effects = self.leader.on_eligible(eligible, offline=offline)
        if self.leader.proposed is None:
            self.awaited = None
        self.see(effects)
        if state.leader_epoch == EPOCH:
            before = self.leader.partition_epoch
            effects = self.leader.on_state(state, self.now_ms)
            if self.leader.partition_epoch > before:
                self.awaited = None
            self.see(effects)

    @precondition(lambda self: self.awaited is not None)
    @rule(ms=st.integers(LAG_MS, 2 * LAG_MS))
    def the_controller_is_slow(self, ms: int) -> None:
        """Long enough for the joiner to fall out of pace while nobody knows whether it is in."""
        self.tick(ms)
        self.replicate(1, B)
        self.replicate(1, C)

    @precondition(lambda self: self.on_their_way)
    @rule(which=st.integers(0, 5), answer_is_lost=st.booleans(), comes_again=st.booleans())
    def a_call_arrives(self, which: int, answer_is_lost: bool, comes_again: bool) -> None:
        call = self.on_their_way.pop(which % len(self.on_their_way))
        if comes_again:
            self.on_their_way.append(call)
        answer = self.decide(call)
        if self.awaited is None or call.request_id != self.awaited.request_id:
            return
        if answer_is_lost:
            answer = RequestTimedOut()
        self.answers.append((call.request_id, answer))

    @precondition(lambda self: self.on_their_way)
    @rule(which=st.integers(0, 5), b=FOLLOWERS)
    def a_call_comes_twice(self, which: int, b: BrokerId) -> None:
        """Answered the first time, and late the second: whom it names may be well again by then."""
        self.a_call_arrives(which, answer_is_lost=False, comes_again=True)
        while self.answers:
            self.an_answer_arrives(0)
        self.get_it_back(b)
        self.a_call_arrives(len(self.on_their_way) - 1, answer_is_lost=False, comes_again=False)

    def decide(self, call: ProposeIsr) -> IsrAnswer | WireError:
        """AlterPartition, in the order of the controller's checks."""
        if call.leader_epoch < self.state.leader_epoch:
            return FencedLeaderEpoch()
        if call.isr != self.state.isr:
            if call.partition_epoch < self.state.partition_epoch:
                return InvalidUpdateVersion()
            if any(self.eligible().get(m.broker_id) != m.broker_epoch for m in call.isr):
                return IneligibleReplica()
            if any(m.broker_id in self.offline for m in call.isr):
                return IneligibleReplica()
            self.commit(call.isr)
            self.push()
        s = self.state
        return IsrAnswer(s.leader, s.leader_epoch, s.isr, s.partition_epoch, MIN_ISR)

    @rule(b=FOLLOWERS)
    def the_answer_is_faster_than_the_push(self, b: BrokerId) -> None:
        """The leader asks to drop a laggard whom the controller has barred: the answer says that
        this is what is committed, and not why.
        """
        self.replicate(1, b)
        self.tick(2 * LAG_MS)
        self.lose_the_directory(b)
        while self.on_their_way:
            self.a_call_arrives(0, answer_is_lost=False, comes_again=False)
        while self.answers:
            self.an_answer_arrives(0)
        self.replicate(0, None)
        if self.on_their_way:
            self.a_call_comes_twice(0, b)

    @precondition(lambda self: self.awaited is not None)
    @rule()
    def a_call_times_out(self) -> None:
        """The call itself may still arrive."""
        assert self.awaited is not None
        self.answers.append((self.awaited.request_id, RequestTimedOut()))

    @precondition(lambda self: self.answers)
    @rule(which=st.integers(0, 5))
    def an_answer_arrives(self, which: int) -> None:
        request_id, answer = self.answers.pop(which % len(self.answers))
        if self.awaited is not None and self.awaited.request_id == request_id:
            self.awaited = None
        if isinstance(answer, WireError):
            self.see(self.leader.on_isr_refused(request_id, answer, self.now_ms))
            return
        effects = self.leader.on_isr_answer(request_id, answer)
        if self.leader.proposed is None:
            self.awaited = None
        self.see(effects)

    # What must hold

    @invariant()
    def every_candidate_holds_what_is_committed(self) -> None:
        for m in self.state.isr:
            for p in self.processes:
                if (p.broker_id, p.broker_epoch) == (m.broker_id, m.broker_epoch):
                    assert p.held >= self.leader.high_watermark, f"I-15: {m} would lose records"

    @invariant()
    def whoever_may_be_in_sync_counts(self) -> None:
        if self.state.leader_epoch == EPOCH:
            assert set(self.leader.maximal_isr) >= set(self.state.isr), "I-16"

    @invariant()
    def the_leader_stays_in(self) -> None:
        assert A in [m.broker_id for m in self.leader.isr], "I-22"

    @invariant()
    def offsets_are_in_order(self) -> None:
        p = self.leader
        assert 0 <= p.log_start_offset <= p.high_watermark <= p.log_end_offset, "I-6"
        if self.flush_always:
            assert p.high_watermark <= p.durable_offset, "I-93"


TestLeaderHistory = LeaderHistory.TestCase


def test_nobody_joins_by_a_late_call_of_an_epoch_that_the_answer_told_first() -> None:
    """One history of those above, which a planted bug is found by."""
    history = LeaderHistory()
    history.elected(end=0, committed=0, in_sync=(A, B, C), flush_always=False)
    history.the_answer_is_faster_than_the_push(C)
    assert history.leader.partition_epoch == history.state.partition_epoch == 1
    history.whoever_may_be_in_sync_counts()
    history.get_it_back(C)
    while history.pushes:
        history.a_push_arrives()
    history.replicate(1, None)
    assert history.leader.proposed is not None, "it is back, and its push has come"

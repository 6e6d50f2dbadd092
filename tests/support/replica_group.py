"""One partition's replicas in memory: the real machines of the core over the smallest of logs.

A test drives it message by message, so it can stop anywhere: a broker learns of an election when it
is told to, a fetch is answered when it is served, and the answer counts when it is delivered. The
controller here only elects from the ISR, compares and sets, and fences who is dead.
"""

from dataclasses import dataclass, field, replace

from strandline_broker.core.replication import follower as f
from strandline_broker.core.replication.leader import Effect as LeaderEffect
from strandline_broker.core.replication.leader import HighWatermarkRaised, Leader, ProposeIsr
from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember, PartitionState
from strandline_proto.errors import (
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    WireError,
)
from strandline_proto.ids import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
)
from support.partition_states import FIRST_EPOCHS, A, partition_state
from support.replica_log import Entry, ReplicaLog


@dataclass
class InFlight:
    """An answer that has been given and not yet delivered."""

    request: f.FetchPosition
    answer: f.FetchAnswer
    entries: list[Entry]


@dataclass
class Replica:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    log: ReplicaLog = field(default_factory=ReplicaLog)
    alive: bool = True
    known: PartitionState | None = None
    leader: Leader | None = None
    follower: f.Follower | None = None
    in_flight: InFlight | None = None
    removed: list[tuple[int, Entry]] = field(default_factory=list)
    """Every record that a truncation took away here, with its offset."""

    def apply(self, effects: list[f.Effect], entries: list[Entry]) -> None:
        log = self.log
        for effect in effects:
            match effect:
                case f.TruncateTo(offset):
                    self._remember_removed(offset)
                    log.truncate_to(offset)
                case f.TruncateFully(start_at):
                    log.truncate_fully(start_at)
                case f.Append():
                    for entry in entries:
                        log.append(entry)
                case f.AdvanceHighWatermark(leader_high_watermark):
                    log.high_watermark = f.follower_high_watermark(
                        log.high_watermark,
                        log_start_offset=log.log_start_offset,
                        leader_high_watermark=leader_high_watermark,
                        log_end_offset=log.log_end_offset,
                    )
                case f.RaiseLogStart(to):
                    start = f.follower_log_start(
                        log.log_start_offset, leader_log_start=to, high_watermark=log.high_watermark
                    )
                    log.drop_before(start)
                case _:
                    pass

    def _remember_removed(self, offset: int) -> None:
        for at in range(offset, self.log.log_end_offset):
            self.removed.append((at, self.log.at(at)))


class ReplicaGroup:
    def __init__(self, *, min_isr: int = 2, truncate_to_high_watermark: bool = False) -> None:
        self.truncate_to_high_watermark = truncate_to_high_watermark
        self.decided = partition_state(*FIRST_EPOCHS, leader=A, leader_epoch=0, min_isr=min_isr)
        self.replicas = {b: Replica(b, e) for b, e in FIRST_EPOCHS.items()}
        self.acknowledged: dict[str, int] = {}
        """Value to offset: committed in the leader epoch in which it was appended (I-19)."""
        self._waiting: dict[str, tuple[int, int]] = {}
        self._broker_epochs = 100
        for b in self.replicas:
            self.learn(b)

    # The controller

    def isr_ids(self) -> list[BrokerId]:
        return [m.broker_id for m in self.decided.isr]

    def kill(self, broker_id: BrokerId) -> None:
        """SIGKILL: what has been written stays. The controller sees it at once."""
        replica = self.replicas[broker_id]
        replica.alive = False
        replica.leader = replica.follower = replica.in_flight = replica.known = None
        left = tuple(m for m in self.decided.isr if m.broker_id != broker_id)
        led = self.decided.leader == broker_id
        if len(left) < len(self.decided.isr) and left:
            self._decide(isr=left)
        if led:
            alive = [m.broker_id for m in left if self.replicas[m.broker_id].alive]
            self._decide(leader=alive[0] if alive else NO_LEADER, next_epoch=True)

    def restart(self, broker_id: BrokerId, *, high_watermark: int | None = None) -> None:
        """A new incarnation on the same log, with the watermark of its last checkpoint."""
        replica = self.replicas[broker_id]
        assert not replica.alive
        self._broker_epochs += 1
        replica.broker_epoch = BrokerEpoch(self._broker_epochs)
        replica.alive = True
        log = replica.log
        if high_watermark is not None:
            log.high_watermark = Offset(
                max(log.log_start_offset, min(high_watermark, log.high_watermark))
            )
        if self.isr_ids() == [broker_id]:
            # The last member of the ISR leads again when it returns (I-22).
            member = IsrMember(broker_id, replica.broker_epoch)
            self._decide(isr=(member,), leader=broker_id, next_epoch=True)

    def elect(self, broker_id: BrokerId) -> None:
        assert broker_id in self.isr_ids()
        assert self.replicas[broker_id].alive
        self._decide(leader=broker_id, next_epoch=True)

    def eligible(self) -> dict[BrokerId, BrokerEpoch]:
        return {b: r.broker_epoch for b, r in self.replicas.items() if r.alive}

    def _decide(
        self,
        *,
        isr: tuple[IsrMember, ...] | None = None,
        leader: BrokerId | None = None,
        next_epoch: bool = False,
    ) -> None:
        now = self.decided
        self.decided = replace(
            now,
            isr=now.isr if isr is None else isr,
            leader=now.leader if leader is None else leader,
            leader_epoch=LeaderEpoch(now.leader_epoch + next_epoch),
            partition_epoch=PartitionEpoch(now.partition_epoch + 1),
        )

    def _alter(self, asked: ProposeIsr) -> IsrAnswer | WireError:
        now = self.decided
        if asked.leader_epoch < now.leader_epoch:
            return FencedLeaderEpoch()
        if asked.partition_epoch < now.partition_epoch:
            return InvalidUpdateVersion()
        assert all(self.eligible().get(m.broker_id) == m.broker_epoch for m in asked.isr)
        self._decide(isr=asked.isr)
        now = self.decided
        return IsrAnswer(
            now.leader, now.leader_epoch, now.isr, now.partition_epoch, now.eff_min_insync
        )

    # The brokers

    def learn(self, broker_id: BrokerId) -> None:
        """The controller's newest decision reaches this broker."""
        replica, state = self.replicas[broker_id], self.decided
        known = replica.known
        if not replica.alive or (known is not None and not state.is_newer_than(known)):
            if replica.leader is not None:
                self._carry_out(replica, replica.leader.on_eligible(self.eligible()))
            return
        replica.known = state
        if known is not None and known.leader_epoch == state.leader_epoch:
            if replica.leader is not None:
                self._carry_out(replica, replica.leader.on_eligible(self.eligible()))
                self._carry_out(replica, replica.leader.on_state(state, 0))
            elif replica.follower is not None:
                replica.follower.on_state(state)
            return
        self._waiting = {v: w for v, w in self._waiting.items() if w[0] != broker_id}
        if state.leader == broker_id:
            self._lead(replica, state)
        else:
            self._follow(replica, state)

    def _lead(self, replica: Replica, state: PartitionState) -> None:
        log = replica.log
        log.assign_epoch(state.leader_epoch)
        replica.follower = None
        replica.leader = Leader(
            replica.broker_id,
            replica.broker_epoch,
            state,
            log_end_offset=log.log_end_offset,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            durable_offset=log.log_end_offset,
            eligible=self.eligible(),
            offline=(),
            lag_ms_max=1000,
            flush_always=False,
            now_ms=0,
        )
        self._carry_out(replica, replica.leader.on_tick(0))

    def _follow(self, replica: Replica, state: PartitionState) -> None:
        replica.leader = None
        replica.follower = f.Follower(
            state, truncate_to_high_watermark=self.truncate_to_high_watermark
        )
        effects = replica.follower.on_become_follower(
            log_end_offset=replica.log.log_end_offset, high_watermark=replica.log.high_watermark
        )
        replica.apply(effects, [])

    def produce(self, broker_id: BrokerId, value: str) -> None:
        """Append with acks=all, whatever the size of the ISR."""
        replica = self.replicas[broker_id]
        assert replica.leader is not None
        offset = replica.log.log_end_offset
        replica.log.append(Entry(replica.leader.leader_epoch, value))
        self._waiting[value] = (broker_id, offset)
        self._carry_out(replica, replica.leader.on_append(replica.log.log_end_offset))

    def ask(self, broker_id: BrokerId, *, limit: int = 1000) -> None:
        """A follower fetches and its leader answers; nothing has arrived back yet."""
        replica = self.replicas[broker_id]
        follower, log = replica.follower, replica.log
        if follower is None or not follower.may_fetch:
            return
        request = follower.next_fetch(log.log_end_offset, log.latest())
        leader = self.replicas[follower.leader]
        try:
            answer, entries = self._serve(leader, replica, request, limit)
        except WireError as e:
            own = leader.log
            answer = f.FetchAnswer(e.code, own.high_watermark, own.log_start_offset)
            entries = []
        replica.in_flight = InFlight(request, answer, entries)

    def deliver(self, broker_id: BrokerId) -> list[f.Effect]:
        """The answer arrives, and the follower does what it says."""
        replica = self.replicas[broker_id]
        arrived, replica.in_flight = replica.in_flight, None
        if arrived is None or replica.follower is None:
            return []
        log = replica.log
        effects = replica.follower.on_answer(
            arrived.request,
            arrived.answer,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            history=log,
        )
        replica.apply(effects, arrived.entries)
        return effects

    def fetch(self, broker_id: BrokerId) -> list[f.Effect]:
        self.ask(broker_id)
        return self.deliver(broker_id)

    def _serve(
        self, at: Replica, replica: Replica, request: f.FetchPosition, limit: int
    ) -> tuple[f.FetchAnswer, list[Entry]]:
        """Epoch and membership, then the read, then what the leader learns from it (I-39)."""
        leader, log = at.leader, at.log
        if leader is None:
            raise NotLeaderOrFollower
        leader.check_fetch(
            replica.broker_id,
            broker_epoch=replica.broker_epoch,
            leader_epoch=request.leader_epoch,
        )
        start = request.fetch_offset
        if start < log.log_start_offset:
            raise OffsetOutOfRange
        if request.last_fetched_epoch != -1:
            epoch, end = log.end_offset_for(request.last_fetched_epoch, log.log_end_offset)
            if epoch == -1:
                raise OffsetOutOfRange
            if epoch < request.last_fetched_epoch or end < start:
                own = (log.high_watermark, log.log_start_offset)
                return f.FetchAnswer(0, *own, diverging=(epoch, end)), []
        if start > log.log_end_offset:
            raise OffsetOutOfRange
        entries = log.read(start, limit=limit)
        effects = leader.on_follower_fetch(
            replica.broker_id,
            broker_epoch=replica.broker_epoch,
            leader_epoch=request.leader_epoch,
            fetch_offset=start,
            log_start_offset=replica.log.log_start_offset,
            now_ms=0,
        )
        self._carry_out(at, effects)
        return (
            f.FetchAnswer(
                0, log.high_watermark, log.log_start_offset, has_records=len(entries) > 0
            ),
            entries,
        )

    def _carry_out(self, replica: Replica, effects: list[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case HighWatermarkRaised(to):
                    replica.log.high_watermark = to
                    for value, (broker_id, offset) in list(self._waiting.items()):
                        if broker_id == replica.broker_id and offset < to:
                            self.acknowledged[value] = offset
                            del self._waiting[value]
                case ProposeIsr() as asked:
                    self._answer(replica, asked)

    def _answer(self, replica: Replica, asked: ProposeIsr) -> None:
        assert replica.leader is not None
        answer = self._alter(asked)
        if isinstance(answer, WireError):
            effects = replica.leader.on_isr_refused(asked.request_id, answer, 0)
        else:
            effects = replica.leader.on_isr_answer(asked.request_id, answer)
        self._carry_out(replica, effects)

    def run(self, *brokers: BrokerId, rounds: int = 8) -> None:
        """Everyone learns what is decided, and these followers fetch until all is quiet."""
        for _ in range(rounds):
            for b in brokers:
                self.learn(b)
            for b in brokers:
                self.fetch(b)

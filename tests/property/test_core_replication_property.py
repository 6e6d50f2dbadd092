"""Three replicas through elections, crashes, stale leaders and late answers.

Checked after every step: logs match (I-4), epochs agree with logs (I-5), offsets are in order
(I-6), whoever may be elected holds what is committed (I-14, I-15), no cut takes a committed record
(I-41), what was acknowledged stays (I-19).
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline_broker.core.replication.follower import Backoff, Discard, TruncateTo
from strandline_proto.ids import BrokerId
from support.examples import examples
from support.partition_states import A, B, C
from support.replica_group import InFlight, Replica, ReplicaGroup
from support.replica_log import Entry

BROKERS = st.sampled_from([A, B, C])


class Replication(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = ReplicaGroup(min_isr=2)
        self.committed: dict[int, Entry] = {}
        self.values = 0
        self.held_up: dict[BrokerId, InFlight] = {}

    def replica(self, broker_id: BrokerId) -> Replica:
        return self.group.replicas[broker_id]

    @rule(b=BROKERS, n=st.integers(1, 3))
    def produce(self, b: BrokerId, n: int) -> None:
        if self.replica(b).leader is not None:
            for _ in range(n):
                self.values += 1
                self.group.produce(b, f"v{self.values}")

    @rule(b=BROKERS, limit=st.integers(1, 3))
    def ask(self, b: BrokerId, limit: int) -> None:
        """An answer is given and held up: fetches go on, epochs may pass, and then it arrives."""
        self.group.ask(b, limit=limit)
        arriving, self.replica(b).in_flight = self.replica(b).in_flight, None
        if arriving is not None:
            self.held_up.setdefault(b, arriving)

    @rule(b=BROKERS)
    def deliver(self, b: BrokerId) -> None:
        self.replica(b).in_flight = self.held_up.pop(b, None)
        self.group.deliver(b)

    @rule(n=st.integers(1, 3), but=st.sampled_from([None, A, B, C]))
    def replicate(self, n: int, but: BrokerId | None) -> None:
        """Everyone, or everyone but one, hears of the leader and copies what it appends."""
        present = [b for b in (A, B, C) if b != but]
        for b in present:
            self.group.learn(b)
        if self.group.decided.leader in present:
            self.produce(self.group.decided.leader, n)
        for _ in range(3):
            for b in present:
                self.group.fetch(b)

    @rule(b=BROKERS, rounds=st.integers(0, 3))
    def push_and_fetch(self, b: BrokerId, rounds: int) -> None:
        self.group.learn(b)
        for _ in range(rounds):
            self.group.fetch(b)

    @rule(b=BROKERS)
    def kill(self, b: BrokerId) -> None:
        if self.replica(b).alive:
            self.group.kill(b)
            self.held_up.pop(b, None)

    @rule(b=BROKERS, checkpoint=st.integers(0, 5))
    def restart(self, b: BrokerId, checkpoint: int) -> None:
        if not self.replica(b).alive:
            self.group.restart(b, high_watermark=checkpoint)

    @rule(b=BROKERS, n=st.integers(0, 3), hears=st.booleans())
    def elect(self, b: BrokerId, n: int, hears: bool) -> None:
        """It may lead and append before anyone else has heard of it."""
        if b in self.group.isr_ids() and self.replica(b).alive:
            self.group.elect(b)
            if hears:
                self.group.learn(b)
                self.produce(b, n)

    @rule(b=BROKERS, by=st.sampled_from([None, A, B, C]), rounds=st.integers(1, 4))
    def an_answer_is_overtaken(self, b: BrokerId, by: BrokerId | None, rounds: int) -> None:
        """By later fetches, perhaps in a later epoch; then it arrives (P-4)."""
        self.ask(b, 3)
        if by is not None:
            self.elect(by, 2, True)
        self.push_and_fetch(b, rounds)
        self.deliver(b)

    @rule(b=BROKERS, keep=st.integers(0, 3))
    def drop_old_records(self, b: BrokerId, keep: int) -> None:
        replica = self.replica(b)
        start = replica.log.high_watermark - keep
        if replica.leader is not None and start > replica.log.log_start_offset:
            replica.log.drop_before(start)

    def teardown(self) -> None:
        """Once everyone is back and told everything, the replicas are the same."""
        for b in (A, B, C):
            if not self.replica(b).alive:
                self.group.restart(b)
        self.group.run(A, B, C, rounds=40)
        self.produce(self.group.decided.leader, 1)
        self.group.run(A, B, C, rounds=10)
        self.nothing_is_broken()
        assert sorted(self.group.isr_ids()) == [A, B, C]
        first, *others = (self.replica(b).log for b in (A, B, C))
        for log in others:
            assert log.log_end_offset == first.log_end_offset
            assert log.high_watermark == first.high_watermark == first.log_end_offset
            assert log.at(log.log_end_offset - 1) == first.at(first.log_end_offset - 1)

    @invariant()
    def nothing_is_broken(self) -> None:
        for replica in self.group.replicas.values():
            self.watch_commits(replica)
        for replica in self.group.replicas.values():
            check_log(replica)
            for at, entry in replica.removed:
                assert self.committed.get(at) != entry, f"I-41: {entry} at {at} was committed"
            replica.removed.clear()
        self.check_candidates()
        self.check_logs_match()
        for value, offset in self.group.acknowledged.items():
            assert self.committed[offset].value == value, "I-19"

    def watch_commits(self, replica: Replica) -> None:
        log = replica.log
        for at in range(log.log_start_offset, log.high_watermark):
            assert self.committed.setdefault(at, log.at(at)) == log.at(at), "I-18"

    def check_candidates(self) -> None:
        for b in self.group.isr_ids():
            log = self.replica(b).log
            for at, entry in self.committed.items():
                if at >= log.log_start_offset:
                    assert at < log.log_end_offset, f"I-15: {b} lacks {at}"
                    assert log.at(at) == entry, f"I-15: {b} differs at {at}"

    def check_logs_match(self) -> None:
        logs = [r.log for r in self.group.replicas.values()]
        for one in logs:
            for other in logs:
                start = max(one.log_start_offset, other.log_start_offset)
                end = min(one.log_end_offset, other.log_end_offset)
                same = [one.at(o) == other.at(o) for o in range(start, end)]
                for o in range(start, end):
                    if one.at(o).epoch == other.at(o).epoch:
                        assert all(same[: o - start + 1]), f"I-4: the logs match at {o}, not before"


def check_log(replica: Replica) -> None:
    log = replica.log
    assert 0 <= log.log_start_offset <= log.high_watermark <= log.log_end_offset, "I-6"
    epochs = [e.epoch for e in log.entries]
    assert epochs == sorted(epochs), "I-2"
    for (e1, s1), (e2, s2) in zip(log.epochs, log.epochs[1:], strict=False):
        assert e1 < e2, "I-5"
        assert s1 < s2, "I-5"
    for at, entry in enumerate(log.entries, start=log.log_start_offset):
        assert [e for e, s in log.epochs if s <= at][-1:] == [entry.epoch], "I-5"
    assert all(s <= log.log_end_offset for _, s in log.epochs), "I-5"


TestReplication = Replication.TestCase
TestReplication.settings = settings(max_examples=examples(80))


def test_rounds_of_reconciliation_end_with_equal_histories() -> None:
    """P-2: one answer is not enough after two elections in a row without common records."""
    group = ReplicaGroup()
    a, b = group.replicas[A].log, group.replicas[B].log
    for epoch in (0, 0, 2, 2, 5):
        a.append(Entry(epoch, f"a{epoch}"))
    for epoch in (0, 1, 3, 3, 4, 6):
        b.append(Entry(epoch, f"b{epoch}"))
    a.entries[0] = b.entries[0]
    for _ in range(7):
        group.elect(B)
    group.learn(B)
    group.learn(A)
    effects = [group.fetch(A) for _ in range(6)]
    assert not any(isinstance(e, Backoff) for round_ in effects for e in round_)
    cuts = [e.offset for round_ in effects for e in round_ if isinstance(e, TruncateTo)]
    assert cuts == [4, 2, 1]
    assert a.entries == b.entries


def test_a_late_divergence_of_the_last_epoch_takes_nothing_away() -> None:
    """P-4: the answer was right when it was given; since then its record has been committed."""
    group = ReplicaGroup()
    group.produce(A, "x")
    group.run(B, C, rounds=2)
    group.produce(A, "y")
    group.fetch(B)
    group.elect(C)
    group.learn(C)
    group.learn(B)
    group.ask(B)
    late, group.replicas[B].in_flight = group.replicas[B].in_flight, None
    assert late is not None
    assert late.answer.diverging == (0, 1)
    group.elect(A)
    group.run(A, B, C, rounds=3)
    assert group.acknowledged.keys() >= {"x"}
    assert group.replicas[A].log.high_watermark == 2
    group.replicas[B].in_flight = late
    (effect,) = group.deliver(B)
    assert isinstance(effect, Discard)
    assert group.replicas[B].log.values() == ["x", "y"]

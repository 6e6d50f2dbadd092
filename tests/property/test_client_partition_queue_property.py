"""Whatever happens on the way, a producer's words about its records are true.

The machine plays a partition queue against a dumb log with a leader's sequence rules. Requests and
answers are lost, refused, delayed and answered late in any order; leaders change; deadlines pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline._core.backoff import Backoff
from strandline._core.chosen_queue import ChosenQueue
from strandline._core.delivery_terms import Answer, Identity, QueueOptions
from strandline._core.partition_queue import PartitionQueue, Settled
from strandline.errors import TopicRecreated
from strandline_proto import errors
from strandline_proto.batch import add_sequence, check_batch, read_records
from support.examples import examples

REFUSALS = [
    errors.NotLeaderOrFollower.code,
    errors.NotEnoughReplicas.code,
    errors.FencedLeaderEpoch.code,
    errors.KafkaStorageError.code,
    errors.RecordTooLarge.code,
    errors.InvalidRecord.code,
    errors.UnknownTopicId.code,
]
UNKNOWNS = [
    errors.RequestTimedOut.code,
    errors.NotEnoughReplicasAfterAppend.code,
    errors.NotLeaderOrFollower.code,
]

if TYPE_CHECKING:
    from strandline._core.producer_batch import ProducerBatch


@dataclass
class Sent:
    batch: ProducerBatch
    attempt: int
    data: bytes
    log: Log


class Log:
    """A log with the size and sequence checks of a leader that never forgets."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.last: dict[int, tuple[int, int]] = {}
        self.held: dict[tuple[int, int, int, int], int] = {}
        self.size_max = 1 << 20

    def append(self, data: bytes) -> tuple[int, int]:
        """(error code, base offset)"""
        if len(data) > self.size_max:
            return errors.RecordTooLarge.code, -1
        header = check_batch(data)
        sequences = header.base_sequence, header.last_sequence
        key = (header.producer_id, header.producer_epoch, *sequences)
        if header.producer_id >= 0:
            if key in self.held:
                return 0, self.held[key]
            epoch, last = self.last.get(header.producer_id, (-1, -1))
            if header.producer_epoch < epoch:
                return errors.InvalidProducerEpoch.code, -1
            if header.producer_epoch == epoch and header.last_sequence <= last:
                return 0, -1
            expected = 0 if header.producer_epoch > epoch else add_sequence(last, 1)
            if header.base_sequence != expected:
                return errors.OutOfOrderSequenceNumber.code, -1
            self.last[header.producer_id] = (header.producer_epoch, header.last_sequence)
        base = len(self.values)
        self.held[key] = base
        self.values += [r.value or b"" for r in read_records(data, 0, header)]
        return 0, base


class QueueMachine(RuleBasedStateMachine):
    idempotent = True

    def __init__(self) -> None:
        super().__init__()
        options = QueueOptions(
            acks=-1 if self.idempotent else 1,
            idempotent=self.idempotent,
            max_in_flight=5,
            linger_ms=0,
            batch_size=600,
            compression=0,
            delivery_timeout_ms=1000,
        )
        self.queue = PartitionQueue("orders", b"o" * 16, 0, options, Backoff())
        self.log = Log()
        self.logs = [self.log]
        """Of the topic, and of those of its name before."""
        self.now = 0.0
        self.sent: list[Sent] = []
        """On the wire to the current leader, in order."""
        self.answers: list[tuple[Sent, Answer]] = []
        self.next_value = 0
        self.values: dict[int, list[bytes]] = {}
        self.fate: dict[bytes, str] = {}
        self.epoch = 0
        self.leader_epoch = 0
        self.released = 0

    def note(self, settled: list[Settled]) -> None:
        for batch, error in settled:
            assert len(batch.waiters) == batch.count
            self.released += batch.reserved
            if isinstance(error, errors.RecordTooLarge):
                assert batch.count == 1, "what can be split does not fail for its size"
            for _, _, value in batch.waiters:
                assert value not in self.fate, "settled twice"
                if error is None:
                    self.fate[value] = "acknowledged"
                elif getattr(error, "may_have_been_written", False):
                    self.fate[value] = "unknown"
                else:
                    self.fate[value] = "failed"
                if error is None and batch.base_offset >= 0:
                    index = next(i for i, _, v in batch.waiters if v == value)
                    at = slice(batch.base_offset + index, batch.base_offset + index + 1)
                    assert [value] in [log.values[at] for log in self.logs]

    @rule(count=st.integers(1, 9), size=st.sampled_from([0, 1, 30, 150]))
    def send(self, count: int, size: int) -> None:
        for _ in range(count):
            value = b"%06d" % self.next_value + bytes(size)
            self.next_value += 1
            batch = self.queue.open_batch(self.now)
            if batch.append(batch.count, 0, None, value, []) is None:
                self.queue.close_open()
                batch = self.queue.open_batch(self.now)
                batch.append(0, 0, None, value, [])
            batch.waiters.append((batch.count, 0, value))
            batch.count += 1
            batch.reserved += 1

    @rule(size_max=st.sampled_from([90, 120, 160, 250, 1 << 20]))
    def the_limit_is_altered(self, size_max: int) -> None:
        """A record of 30 bytes fits into each of them, one of 150 does not."""
        self.log.size_max = size_max

    @rule()
    def take(self) -> None:
        batch = self.queue.take(self.now)
        if batch is not None:
            self.queue.sent_epoch = self.leader_epoch
            self.sent.append(Sent(batch, batch.attempt, batch.data, self.log))

    @precondition(lambda self: self.queue.wants_identity)
    @rule()
    def identity(self) -> None:
        self.queue.on_identity(Identity(7, self.epoch))
        self.epoch += 1

    @precondition(lambda self: self.sent)
    @rule()
    def leader_appends(self) -> None:
        sent = self.sent.pop(0)
        code, base = sent.log.append(sent.data)
        self.answers.append((sent, Answer(code, "", code == 0, base, self.leader_epoch)))

    @precondition(lambda self: self.sent)
    @rule(code=st.sampled_from(REFUSALS))
    def leader_refuses(self, code: int) -> None:
        self.answers.append((self.sent.pop(0), Answer(code, "", False)))

    @precondition(lambda self: self.sent)
    @rule(code=st.sampled_from(UNKNOWNS))
    def leader_appends_and_answers_unknown(self, code: int) -> None:
        sent = self.sent.pop(0)
        refused, _ = sent.log.append(sent.data)
        self.answers.append((sent, Answer(refused or code, "", refused == 0)))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answer_arrives(self, data: st.DataObject) -> None:
        sent, answer = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        self.note(
            self.queue.on_answer(sent.batch, sent.attempt, answer, now_ms=self.now, chance=0.5)
        )

    @precondition(lambda self: self.sent or self.answers)
    @rule(appended=st.booleans())
    def connection_breaks(self, appended: bool) -> None:
        """What was on the wire may still be appended, in order; all answers are lost."""
        lost = [sent for sent, _ in self.answers]
        for sent in self.sent:
            if appended:
                sent.log.append(sent.data)
            lost.append(sent)
        self.sent, self.answers = [], []
        for sent in lost:
            self.note(
                self.queue.on_lost(
                    sent.batch,
                    sent.attempt,
                    ConnectionError("broken"),
                    sent=True,
                    now_ms=self.now,
                    chance=0.5,
                )
            )

    @rule()
    def the_topic_is_created_again(self) -> None:
        """What is on the wire still goes to the log that was deleted, or is refused there."""
        self.log = Log()
        self.logs.append(self.log)
        self.note(self.queue.on_recreated(b"n" * 16, TopicRecreated("created again")))
        self.queue.on_leader_moved(self.leader_epoch)

    @rule()
    def leader_moves(self) -> None:
        """The old leader still has what was on the wire to it; only its answers may come, late."""
        self.leader_epoch += 1
        self.sent.clear()
        self.queue.on_leader_moved(self.leader_epoch)

    @rule(ms=st.sampled_from([10, 50, 700]))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.note(self.queue.on_expiry(self.now))

    @invariant()
    def words_are_true(self) -> None:
        written = [value for log in self.logs for value in log.values]
        for value, fate in self.fate.items():
            if fate == "acknowledged":
                assert value in written
            if fate == "failed":
                assert value not in written, "a definite failure became visible (I-21)"

    @invariant()
    def in_flight_is_bounded(self) -> None:
        assert sum(batch.outstanding for batch in self.queue.in_flight) <= 5

    @invariant()
    def each_is_there_once_and_in_order(self) -> None:
        written = [value for log in self.logs for value in log.values]
        assert len(written) == len(set(written))
        if self.idempotent:
            assert all(log.values == sorted(log.values) for log in self.logs), "I-59"

    def teardown(self) -> None:
        """Once the network is well again, everything is settled before its deadline."""
        for _ in range(2000):
            self.note(self.queue.on_expiry(self.now))
            if self.queue.idle:
                break
            if self.queue.wants_identity:
                self.identity()
            self.take()
            while self.sent:
                self.leader_appends()
            while self.answers:
                sent, answer = self.answers.pop(0)
                self.note(
                    self.queue.on_answer(
                        sent.batch, sent.attempt, answer, now_ms=self.now, chance=0.5
                    )
                )
            if not self.queue.in_flight or not any(b.outstanding for b in self.queue.in_flight):
                self.now += 5
            elif not self.sent:
                self.now += 200  # its request is on no wire any more: only the deadline is left
        assert self.queue.idle
        assert len(self.fate) == self.next_value
        assert self.released == self.next_value, "each record's room is given back once"
        self.words_are_true()
        self.each_is_there_once_and_in_order()


class PlainQueueMachine(QueueMachine):
    idempotent = False


TestIdempotentQueue = QueueMachine.TestCase
TestIdempotentQueue.settings = settings(max_examples=examples(80), stateful_step_count=60)
TestPlainQueue = PlainQueueMachine.TestCase
TestPlainQueue.settings = settings(max_examples=examples(40), stateful_step_count=50)


LIMITS = st.sampled_from([140, 160, 250, 500, 1 << 20])
"""Each record fits into the lowest."""


def _run_of_a_task(log: Log, batches: list[list[bytes]], limit: int, answers: int) -> list[bytes]:
    """A task sends its batches under the identity it chose, and dies after so many answers; the
    values that were acknowledged.
    """
    options = QueueOptions(-1, True, 3, 0, 1, 0, 1e9)
    queue = ChosenQueue("orders", b"o" * 16, 0, options, Backoff(), identity=Identity(1 << 62, 0))
    for values in batches:
        batch = queue.new_batch(0, 1 << 20)
        for value in values:
            assert batch.append(batch.count, 0, None, value, []) is not None
            batch.waiters.append((batch.count, 0, value))
            batch.count += 1
        queue.ready.append(batch)
    log.size_max = limit
    done: list[bytes] = []
    now = 0.0
    while not queue.idle and answers > 0:
        now += 1000
        taken = []
        while (part := queue.take(now)) is not None:
            taken.append((part, part.attempt, part.data))
        assert taken, "what is not settled can be sent"
        for part, attempt, data in taken[:answers]:
            code, base = log.append(data)
            answer = Answer(code, "", code == 0, base, 1)
            settled = queue.on_answer(part, attempt, answer, now_ms=now, chance=0.5)
            for whole, error in settled:
                if error is None:
                    done += [value for _, _, value in whole.waiters]
            answers -= 1
    return done


@given(
    sizes=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=12), min_size=1, max_size=6),
    runs=st.lists(st.integers(1, 12), max_size=4),
    limits=st.lists(LIMITS, min_size=5, max_size=5).map(lambda limits: sorted(limits)[::-1]),
)
def test_a_task_that_is_run_again_finds_its_own_parts(
    sizes: list[list[int]], runs: list[int], limits: list[int]
) -> None:
    """I-59: the same limit cuts the same parts, and a lower one cuts these."""
    numbers = iter(range(1000))
    batches = [[b"%06d" % next(numbers) + bytes(size) for size in batch] for batch in sizes]
    everything = [value for batch in batches for value in batch]
    log = Log()
    for limit, answers in zip(limits, runs, strict=False):
        _run_of_a_task(log, batches, limit, answers)
        assert log.values == everything[: len(log.values)]
    assert sorted(_run_of_a_task(log, batches, limits[-1], 10_000)) == everything
    assert log.values == everything

"""Producers that lose answers and send again, against their whole histories (I-55 to I-59)."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strandline_broker.core.replication.producer_state import (
    BATCHES_REMEMBERED,
    Duplicate,
    ProducerStates,
)
from strandline_proto.batch import BatchHeader, add_sequence
from strandline_proto.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from support.batch_headers import batch_header

PRODUCERS = st.integers(0, 2)
FIRST_SEQUENCE = 0


class ProducerHistory(RuleBasedStateMachine):
    """The model keeps the log and looks everything up in it; nothing is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.leader = ProducerStates(1000)
        self.follower = ProducerStates(1000)
        self.log: list[BatchHeader] = []

    def of_epoch(self, producer_id: int, epoch: int) -> list[BatchHeader]:
        return [h for h in self.log if (h.producer_id, h.producer_epoch) == (producer_id, epoch)]

    def epoch_of(self, producer_id: int) -> int:
        return max((h.producer_epoch for h in self.log if h.producer_id == producer_id), default=-1)

    def expected(self, sent: BatchHeader) -> str | BatchHeader:
        """What a broker that remembers everything does."""
        current = self.epoch_of(sent.producer_id)
        if sent.producer_epoch < current:
            return "fenced"
        mine = self.of_epoch(sent.producer_id, sent.producer_epoch)
        for index, h in enumerate(reversed(mine)):
            if (h.base_sequence, h.record_count) == (sent.base_sequence, sent.record_count):
                return h if index < BATCHES_REMEMBERED else "forgotten"
        count = sum(h.record_count for h in mine)
        if sent.base_sequence == count:
            return "accepted"
        return "forgotten" if sent.base_sequence + sent.record_count <= count else "out of order"

    def send(self, sent: BatchHeader) -> None:
        expected = self.expected(sent)
        try:
            answer = self.leader.check(sent, 0)
        except InvalidProducerEpoch:
            assert expected == "fenced"
            return
        except OutOfOrderSequenceNumber:
            assert expected == "out of order"
            return
        if isinstance(answer, Duplicate):
            end = max(h.next_offset for h in self.log if h.producer_id == sent.producer_id)
            if isinstance(expected, BatchHeader):
                assert answer.base_offset == expected.base_offset
                assert answer.last_offset == expected.last_offset
                assert answer.required_offset == expected.next_offset
            else:
                assert expected == "forgotten"
                assert answer.base_offset == -1
                assert answer.required_offset == end, "not before all of it is committed (P-41)"
            return
        assert expected == "accepted"
        end = self.log[-1].next_offset if self.log else 0
        appended = batch_header(
            sent.producer_id,
            sent.producer_epoch,
            sent.base_sequence,
            sent.record_count,
            offset=end,
        )
        self.log.append(appended)
        self.leader.on_append(appended, 0)
        self.follower.on_append(appended, 0)

    @rule(producer_id=PRODUCERS, records=st.integers(1, 4))
    def the_next_batch(self, producer_id: int, records: int) -> None:
        epoch = max(self.epoch_of(producer_id), 0)
        sequence = sum(h.record_count for h in self.of_epoch(producer_id, epoch))
        self.send(batch_header(producer_id, epoch, sequence, records))

    @rule(producer_id=PRODUCERS, data=st.data())
    def an_old_batch_again(self, producer_id: int, data: st.DataObject) -> None:
        mine = [h for h in self.log if h.producer_id == producer_id]
        if mine:
            self.send(data.draw(st.sampled_from(mine)))

    @rule(
        producer_id=PRODUCERS,
        epoch=st.integers(0, 3),
        sequence=st.integers(0, 30),
        records=st.integers(1, 4),
    )
    def anything(self, producer_id: int, epoch: int, sequence: int, records: int) -> None:
        self.send(batch_header(producer_id, epoch, sequence, records))

    @rule()
    def the_follower_takes_over(self) -> None:
        self.leader, self.follower = self.follower, self.leader

    @rule(keep=st.integers(0, 30))
    def the_end_of_the_log_is_cut(self, keep: int) -> None:
        del self.log[keep:]
        self.leader.rebuild([(h, None) for h in self.log], 0)
        self.follower.rebuild([(h, None) for h in self.log], 0)

    @invariant()
    def every_sequence_is_in_the_log_once_and_in_order(self) -> None:
        expected: dict[tuple[int, int], int] = {}
        for h in self.log:
            producer = (h.producer_id, h.producer_epoch)
            assert h.base_sequence == expected.get(producer, FIRST_SEQUENCE), "I-59"
            expected[producer] = add_sequence(h.base_sequence, h.record_count)

    @invariant()
    def the_state_is_the_same_everywhere_and_after_a_replay(self) -> None:
        replayed = ProducerStates(1000)
        replayed.rebuild([(h, None) for h in self.log], 5)
        assert replayed.snapshot() == self.leader.snapshot() == self.follower.snapshot(), "I-58"


TestProducerHistory = ProducerHistory.TestCase

"""Idempotent producers, one behaviour per test."""

import pytest

from strandline_broker.core.replication.producer_state import Accept, Duplicate, ProducerStates
from strandline_proto.batch import SEQUENCE_MAX, BatchHeader, add_sequence
from strandline_proto.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from strandline_proto.ids import Offset
from support.batch_headers import batch_header

P, DAY = 7, 86_400_000


def states(*appended: BatchHeader) -> ProducerStates:
    s = ProducerStates(DAY)
    for header in appended:
        s.on_append(header, 0)
    return s


def run_of(batches: int, *, first_offset: int = 100) -> list[BatchHeader]:
    """Batches of ten records each, in order: sequences from 0, offsets from `first_offset`."""
    return [
        batch_header(P, 0, 10 * i, 10, offset=first_offset + 10 * i, timestamp=1000 + i)
        for i in range(batches)
    ]


def test_a_batch_of_no_producer_is_accepted_and_leaves_nothing() -> None:
    anonymous = batch_header(-1, -1, -1)
    s = states(anonymous, anonymous)
    assert s.check(anonymous, 0) == Accept()
    assert len(s) == 0


def test_a_producer_begins_at_zero() -> None:
    assert states().check(batch_header(P, 0, 0), 0) == Accept()
    with pytest.raises(OutOfOrderSequenceNumber, match="producer 7 begins epoch 0 here with"):
        states().check(batch_header(P, 0, 1), 0)


def test_the_next_batch_in_order_is_accepted() -> None:
    s = states(*run_of(3))
    assert s.check(batch_header(P, 0, 30, 5), 0) == Accept()


def test_a_gap_is_refused() -> None:
    with pytest.raises(OutOfOrderSequenceNumber, match="sent sequence 31, expected 30"):
        states(*run_of(3)).check(batch_header(P, 0, 31), 0)


def test_a_batch_that_only_begins_in_the_past_is_refused() -> None:
    with pytest.raises(OutOfOrderSequenceNumber):
        states(*run_of(3)).check(batch_header(P, 0, 25, 10), 0)


@pytest.mark.parametrize("i", range(5))
def test_a_retry_of_one_of_the_last_five_gets_its_own_answer_again(i: int) -> None:
    s = states(*run_of(5))
    again = s.check(batch_header(P, 0, 10 * i, 10), 0)
    first = 100 + 10 * i
    assert again == Duplicate(first, first + 9, 1000 + i, Offset(first + 10))


def test_a_retry_that_is_no_longer_remembered_is_a_duplicate_of_unknown_place() -> None:
    s = states(*run_of(6))
    assert s.check(batch_header(P, 0, 0, 10), 0) == Duplicate(-1, -1, -1, Offset(160)), "P-80"


def test_a_retry_that_is_cut_otherwise_is_a_duplicate_of_unknown_place() -> None:
    s = states(*run_of(2))
    assert s.check(batch_header(P, 0, 5, 15), 0) == Duplicate(-1, -1, -1, Offset(120))
    assert s.check(batch_header(P, 0, 0, 5), 0) == Duplicate(-1, -1, -1, Offset(120))


def test_a_sequence_far_ahead_is_no_duplicate() -> None:
    s = states(batch_header(P, 0, 0, 10))
    with pytest.raises(OutOfOrderSequenceNumber):
        s.check(batch_header(P, 0, 2**30, 1), 0)


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    s = states(batch_header(P, 0, SEQUENCE_MAX - 1, 4, offset=50))  # the last one is 1
    assert s.check(batch_header(P, 0, 2), 0) == Accept()
    again = s.check(batch_header(P, 0, SEQUENCE_MAX - 1, 4), 0)
    assert again == Duplicate(50, 53, 0, Offset(54))
    older = run_of(6)
    begun = ProducerStates(DAY)
    begun.first_sequence = SEQUENCE_MAX - 30
    for header in older:
        sequence = add_sequence(begun.first_sequence, header.base_sequence)
        begun.on_append(header._replace(base_sequence=sequence), 0)
    forgotten = begun.check(batch_header(P, 0, SEQUENCE_MAX - 30, 10), 0)
    assert forgotten == Duplicate(-1, -1, -1, Offset(160))
    exact = states(batch_header(P, 0, SEQUENCE_MAX, 1))
    assert exact.check(batch_header(P, 0, 0), 0) == Accept()


def test_an_earlier_epoch_is_fenced() -> None:
    s = states(batch_header(P, 3, 0))
    for sequence in (0, 1):
        with pytest.raises(InvalidProducerEpoch, match="epoch 3 has taken its place"):
            s.check(batch_header(P, 2, sequence), 0)


def test_a_later_epoch_begins_at_zero() -> None:
    s = states(*run_of(3))
    assert s.check(batch_header(P, 1, 0, 10), 0) == Accept()
    with pytest.raises(OutOfOrderSequenceNumber):
        s.check(batch_header(P, 1, 30), 0)


def test_a_later_epoch_forgets_the_batches_of_the_earlier_one() -> None:
    s = states(*run_of(3), batch_header(P, 1, 0, 10, offset=130))
    assert s.check(batch_header(P, 1, 0, 10), 0) == Duplicate(130, 139, 0, Offset(140))
    assert s.check(batch_header(P, 1, 10, 10), 0) == Accept()


@pytest.mark.parametrize(("epoch", "sequence"), [(0, -1), (-1, 0)])
def test_a_producer_that_does_not_number_its_batches_is_refused(epoch: int, sequence: int) -> None:
    for s in (states(), states(*run_of(1))):
        with pytest.raises(OutOfOrderSequenceNumber, match="numbers its batches from 0"):
            s.check(batch_header(P, epoch, sequence), 0)


def test_producers_do_not_mix() -> None:
    s = states(*run_of(3))
    assert s.check(batch_header(P + 1, 0, 0), 0) == Accept()


def test_a_check_alone_changes_nothing() -> None:
    s = states(*run_of(3))
    before = s.snapshot()
    s.check(batch_header(P, 0, 30), 0)
    s.check(batch_header(P, 0, 20, 10), 0)
    assert s.snapshot() == before


def test_what_stands_in_the_log_is_never_refused() -> None:
    s = states(batch_header(P, 3, 40, 2, offset=9))
    assert s.check(batch_header(P, 3, 42), 0) == Accept(), "I-57: a replica takes what it is given"
    s.on_append(batch_header(P, 1, 7, offset=11), 0)
    (snapshot,) = s.snapshot()
    assert (snapshot.producer_epoch, [b.base_offset for b in snapshot.batches]) == (1, [11])


def test_a_marker_without_a_sequence_leaves_the_sequence_alone() -> None:
    s = states(*run_of(1), batch_header(P, 0, -1, offset=110))
    assert s.check(batch_header(P, 0, 10), 0) == Accept()


def test_replaying_the_log_gives_the_same_state() -> None:
    log = [batch_header(9, 2, 0, 3, offset=97), *run_of(7), batch_header(-1, -1, -1, offset=170)]
    replayed = states(batch_header(P, 5, 0))
    replayed.rebuild([(h, None) for h in log], 0)
    assert replayed.snapshot() == states(*log).snapshot(), "I-58"
    assert [s.producer_id for s in replayed.snapshot()] == [7, 9]


def test_a_producer_that_is_not_used_for_a_day_is_forgotten() -> None:
    s = states(*run_of(1))
    assert s.expire(DAY - 1) == []
    assert s.expire(DAY) == [P]
    with pytest.raises(OutOfOrderSequenceNumber):
        s.check(batch_header(P, 0, 10), DAY)


def test_an_append_and_a_retry_count_as_use() -> None:
    s = states(*run_of(1))
    s.check(batch_header(P, 0, 0, 10), 500)
    assert s.expire(DAY + 499) == []
    s.on_append(batch_header(P, 0, 10, offset=110), 600)
    s.on_append(batch_header(P, 0, 11, offset=111), 300)
    assert s.expire(DAY + 599) == [], "a replay with an older time takes nothing back"
    assert s.expire(DAY + 600) == [P]


TRANSACTIONAL, CONTROL = 0x10, 0x20


def transactional(header: BatchHeader) -> BatchHeader:
    return header._replace(attributes=TRANSACTIONAL)


def end_marker(offset: int, *, epoch: int = 0, timestamp: int = 0) -> BatchHeader:
    marker = batch_header(P, epoch, -1, offset=offset, timestamp=timestamp)
    return marker._replace(attributes=TRANSACTIONAL | CONTROL)


def test_a_transaction_is_open_from_its_first_batch_to_its_end_marker() -> None:
    s = states(*map(transactional, run_of(2)))
    assert s.entries() == [(P, 0, 19, 119, 9, 1001, -1, 100, -1)]
    s.on_append(end_marker(120, timestamp=5000), 0, 3)
    assert s.entries() == [(P, 0, 19, 119, 9, 5000, 3, -1, -1)], "as Kafka: the marker's timestamp"
    s.on_append(transactional(batch_header(P, 0, 20, 1, offset=121, timestamp=5001)), 0)
    assert s.entries() == [(P, 0, 20, 121, 0, 5001, 3, 121, -1)]


def test_a_control_batch_that_ends_no_transaction_changes_nothing() -> None:
    s = states(*run_of(1))
    before = s.snapshot()
    s.on_append(end_marker(110), 0, None)
    assert s.snapshot() == before


def test_after_a_marker_alone_a_producer_begins_at_zero() -> None:
    s = ProducerStates(DAY)
    s.on_append(end_marker(5, epoch=2, timestamp=8), 0, 1)
    assert s.entries() == [(P, 2, -1, -1, 0, 8, 1, -1, -1)]
    assert s.check(batch_header(P, 2, 0), 0) == Accept()
    with pytest.raises(OutOfOrderSequenceNumber):
        s.check(batch_header(P, 2, 3), 0)
    with pytest.raises(InvalidProducerEpoch):
        s.check(batch_header(P, 1, 0), 0)


def test_a_marker_of_a_later_epoch_forgets_the_batches_of_the_earlier_one() -> None:
    s = states(*run_of(2))
    s.on_append(end_marker(120, epoch=1), 0, 0)
    (snapshot,) = s.snapshot()
    assert (snapshot.producer_epoch, snapshot.batches) == (1, ())


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    s = states(*map(transactional, run_of(1)))
    assert s.expire(2 * DAY) == []
    s.on_append(end_marker(110), 10, 0)
    assert s.expire(DAY + 9) == [], "I-60: a marker is use, too"
    assert s.expire(DAY + 10) == [P]


def test_entries_give_the_last_batch_back_and_no_other() -> None:
    s = ProducerStates(DAY)
    s.rebuild([], 0, states(*run_of(3)).entries())
    assert s.check(batch_header(P, 0, 30, 5), 0) == Accept()
    assert s.check(batch_header(P, 0, 20, 10), 0) == Duplicate(120, 129, 1002, Offset(130))
    for older in (0, 10):
        again = s.check(batch_header(P, 0, older, 10), 0)
        assert again == Duplicate(-1, -1, -1, Offset(130)), "I-55, the second half"
    assert s.entries() == states(*run_of(3)).entries()


def test_entries_and_the_batches_behind_them_give_the_whole_state() -> None:
    log = run_of(7)
    s = ProducerStates(DAY)
    s.rebuild([(h, None) for h in log[4:]], 0, states(*log[:4]).entries())
    assert s.entries() == states(*log).entries()


def test_a_batch_over_the_wrap_comes_back_whole() -> None:
    s = ProducerStates(DAY)
    over_the_wrap = batch_header(P, 0, SEQUENCE_MAX - 1, 4, offset=50)
    s.rebuild([], 0, states(over_the_wrap).entries())
    assert s.check(over_the_wrap, 0) == Duplicate(50, 53, 0, Offset(54))
    assert s.check(batch_header(P, 0, 2), 0) == Accept()


def test_what_comes_back_from_a_file_counts_as_used_then() -> None:
    s = ProducerStates(DAY)
    s.rebuild([], 500, states(*run_of(1)).entries())
    assert s.expire(DAY + 499) == []
    assert s.expire(DAY + 500) == [P]


def test_of_what_is_known_and_what_is_read_the_further_is_kept() -> None:
    """I-60: a replay passes over what its disk cannot read."""
    log = run_of(3)
    for known, read in ((3, 2), (2, 3), (3, 0), (0, 3)):
        s = states(*log[:read])
        s.keep(states(*log[:known]))
        assert s.snapshot() == states(*log).snapshot()


def test_an_epoch_that_an_end_marker_began_is_further_than_any_batch_before() -> None:
    known = states(*run_of(2))
    known.on_append(end_marker(120, epoch=1), 0, 0)
    s = states(*run_of(2))
    s.keep(known)
    assert s.snapshot() == known.snapshot()


def test_who_is_kept_counts_as_used_when_it_was() -> None:
    s, known = states(), ProducerStates(DAY)
    known.on_append(run_of(1)[0], 500)
    s.keep(known)
    assert s.expire(DAY + 499) == []
    assert s.expire(DAY + 500) == [P]


def test_a_forgotten_producer_continues_with_any_sequence() -> None:
    assert states().check(batch_header(P, 4, 30, 10), 0, was_forgotten=True) == Accept()
    for known in (states(*run_of(2)), states(batch_header(P, 3, 0))):
        with pytest.raises(OutOfOrderSequenceNumber):
            known.check(batch_header(P, 4, 30, 10), 0, was_forgotten=True)


def begun_late() -> ProducerStates:
    """A producer that was forgotten, and continued with sequence 30: three batches up to 59."""
    return states(*(batch_header(P, 0, 30 + 10 * i, 10, offset=100 + 10 * i) for i in range(3)))


def test_what_comes_before_the_first_batch_is_no_duplicate() -> None:
    """P-80: a batch that may be in no log is not acknowledged."""
    s = begun_late()
    assert s.check(batch_header(P, 0, 60), 0) == Accept()
    assert s.check(batch_header(P, 0, 30, 10), 0) == Duplicate(100, 109, 0, Offset(110))
    assert s.check(batch_header(P, 0, 30, 20), 0) == Duplicate(-1, -1, -1, Offset(130))
    for sequence, count in ((20, 10), (0, 10), (25, 10), (0, 60), (29, 1)):
        with pytest.raises(OutOfOrderSequenceNumber, match="its batches here begin with 30"):
            s.check(batch_header(P, 0, sequence, count), 0)


def test_where_the_batches_begin_comes_back_from_a_file() -> None:
    s = ProducerStates(DAY)
    s.rebuild([], 0, begun_late().entries())
    assert s.entries() == begun_late().entries()
    assert s.check(batch_header(P, 0, 30, 10), 0) == Duplicate(-1, -1, -1, Offset(130))
    with pytest.raises(OutOfOrderSequenceNumber):
        s.check(batch_header(P, 0, 20, 10), 0)


def test_followers_know_where_the_batches_begin() -> None:
    """I-58: also one that has not forgotten the batches before a gap."""
    remembers = states(*run_of(2))
    for header in (batch_header(P, 0, 30, 10, offset=120), batch_header(P, 0, 40, 10, offset=130)):
        remembers.on_append(header, 0)
    assert remembers.check(batch_header(P, 0, 10, 10), 0) == Duplicate(110, 119, 1001, Offset(120))
    with pytest.raises(OutOfOrderSequenceNumber):
        remembers.check(batch_header(P, 0, 20, 10), 0)


def test_a_new_epoch_ends_what_was_known_of_the_first_batch() -> None:
    s = begun_late()
    s.on_append(batch_header(P, 1, 0, 10, offset=130), 0)
    assert s.check(batch_header(P, 1, 0, 5), 0) == Duplicate(-1, -1, -1, Offset(140))
    assert s.entries()[0][-1] == -1


def test_after_half_of_all_sequences_all_before_is_a_duplicate() -> None:
    half = 2**30
    s = states(batch_header(P, 0, 30, half - 1), batch_header(P, 0, half + 29, 1))
    assert s.entries()[0][-1] == 30
    s.on_append(batch_header(P, 0, half + 30, 1), 0)
    assert s.entries()[0][-1] == -1


def test_the_first_batch_may_lie_before_the_wrap() -> None:
    first = SEQUENCE_MAX - 9
    s = states(batch_header(P, 0, first, 10), batch_header(P, 0, 0, 10, offset=10))
    assert s.check(batch_header(P, 0, first, 5), 0) == Duplicate(-1, -1, -1, Offset(20))
    with pytest.raises(OutOfOrderSequenceNumber):
        s.check(batch_header(P, 0, first - 10, 10), 0)

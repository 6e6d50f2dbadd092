"""One partition's queue in a producer, case by case: order, sequences, retries."""

from __future__ import annotations

import pytest

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Answer, Identity
from strandline.errors import (
    DeliveryTimedOut,
    InvalidRecord,
    OutcomeUnknown,
)
from strandline_proto import errors
from support.partition_queues import DONE, add, make, refuse, sequence, take


def test_an_awaited_record_does_not_wait_for_the_linger() -> None:
    queue = make(linger_ms=100)
    batch = queue.open_batch(0)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    assert queue.take(0) is batch


def test_an_open_batch_lingers_while_another_is_in_flight() -> None:
    queue = make(linger_ms=100)
    first = add(queue)
    take(queue)
    batch = queue.open_batch(10)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    assert queue.take(50) is None
    assert queue.wake_at_ms(50) == 110
    assert queue.take(110) is batch
    assert first.outstanding


def test_a_flush_ends_the_linger() -> None:
    queue = make(linger_ms=100)
    add(queue)
    take(queue)
    batch = queue.open_batch(0)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    queue.flushing = True
    assert queue.take(1) is batch


def test_no_more_than_max_in_flight_are_under_way() -> None:
    queue = make(max_in_flight=2)
    for _ in range(3):
        add(queue)
    take(queue)
    take(queue)
    assert queue.take(0) is None
    assert queue.wake_at_ms(0) is None


def test_sequences_follow_the_record_counts() -> None:
    queue = make()
    add(queue, records=3)
    add(queue, records=2)
    add(queue)
    assert [sequence(take(queue)) for _ in range(3)] == [(0, 0), (0, 3), (0, 5)]


def test_nothing_is_sent_before_there_is_an_identity() -> None:
    queue = make()
    queue._identity = None
    assert queue.take(0) is None
    assert not queue.wants_identity
    add(queue)
    assert queue.take(0) is None
    assert queue.wants_identity


def test_a_retriable_refusal_sends_the_same_bytes_again_after_a_pause() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    before = batch.data
    assert refuse(queue, batch, errors.NotLeaderOrFollower.code) == []
    assert queue.take(19) is None
    assert queue.wake_at_ms(19) == 20
    assert queue.take(20) is batch
    assert batch.data is before
    assert batch.attempt == 2


def test_retries_wait_for_what_is_under_way_and_keep_the_order() -> None:
    queue = make()
    first, second, third = add(queue), add(queue), add(queue)
    take(queue)
    take(queue)
    refuse(queue, first, errors.NotLeaderOrFollower.code)
    assert queue.take(500) is None, "the second is still under way, the third must not pass"
    refuse(queue, second, errors.OutOfOrderSequenceNumber.code)
    assert [take(queue, 500) for _ in range(3)] == [first, second, third]


def test_a_newer_leader_is_used_at_once_without_the_old_ones_answer() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    queue.sent_epoch = 4
    queue.on_leader_moved(4)
    assert queue.take(0) is None
    queue.on_leader_moved(5)
    assert queue.take(0) is batch
    assert batch.may_be_written


def test_a_late_acknowledgement_of_an_earlier_attempt_counts() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    queue.on_leader_moved(1)
    take(queue)
    assert queue.on_answer(batch, 1, DONE, now_ms=0, chance=0) == [(batch, None)]
    assert batch.base_offset == 100
    assert queue.on_answer(batch, 2, DONE, now_ms=0, chance=0) == []
    assert queue.idle


def test_a_late_refusal_of_an_earlier_attempt_does_not_count() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    queue.on_leader_moved(1)
    take(queue)
    too_large = Answer(errors.RecordTooLarge.code, "", False)
    assert queue.on_answer(batch, 1, too_large, now_ms=0, chance=0) == []
    assert batch.outstanding


def test_a_definite_refusal_lets_the_next_batches_move_up_in_the_same_epoch() -> None:
    queue = make()
    first, second = add(queue, records=3), add(queue)
    take(queue)
    take(queue)
    [(batch, error)] = refuse(queue, first, errors.InvalidRecord.code)
    assert batch is first
    assert isinstance(error, InvalidRecord)
    assert not error.may_have_been_written
    refuse(queue, second, errors.OutOfOrderSequenceNumber.code)
    assert not queue.wants_identity
    assert take(queue, 500) is second
    assert sequence(second) == (0, 0)
    add(queue)
    assert sequence(take(queue, 500)) == (0, 1)


def test_a_batch_given_up_as_unknown_costs_a_new_epoch_before_anything_follows() -> None:
    queue = make()
    first = add(queue)
    take(queue)
    queue.on_lost(first, 1, ConnectionError(), sent=True, now_ms=0, chance=0)
    [(batch, error)] = queue.on_expiry(1000)
    assert batch is first
    assert isinstance(error, DeliveryTimedOut)
    assert error.may_have_been_written
    second = add(queue, 1000)
    assert queue.take(1000) is None
    assert queue.wants_identity
    assert queue.spent_identity == (9, 0)
    queue.on_identity(Identity(9, 1))
    assert take(queue, 1000) is second
    assert sequence(second) == (1, 0)


def test_what_may_be_written_is_resolved_under_its_own_number_before_the_epoch_is_raised() -> None:
    queue = make()
    first = add(queue, 0)
    second = add(queue, 500)
    take(queue, 500)
    take(queue, 500)
    for batch in (first, second):
        queue.on_lost(batch, 1, ConnectionError(), sent=True, now_ms=500, chance=0)
    queue.on_expiry(1000)
    assert first.settled
    assert not queue.wants_identity
    assert take(queue, 1000) is second
    assert sequence(second) == (0, 1)
    [(batch, error)] = refuse(queue, second, errors.OutOfOrderSequenceNumber.code)
    assert batch is second
    assert isinstance(error, OutcomeUnknown)
    assert queue.wants_identity


def test_a_leader_without_our_state_makes_us_go_on_under_a_new_epoch() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    assert refuse(queue, batch, errors.UnknownProducerId.code) == []
    assert queue.wants_identity
    queue.on_identity(Identity(9, 1))
    assert take(queue, 500) is batch
    assert sequence(batch) == (1, 0)


def test_a_batch_that_may_be_written_refuses_another_number() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    queue.on_lost(batch, 1, ConnectionError(), sent=True, now_ms=0, chance=0)
    with pytest.raises(AssertionError, match="keeps its number"):
        batch.renumber(1, 0, 0)


def test_sequences_wrap_after_the_largest() -> None:
    queue = make()
    queue._next_sequence = 2**31 - 1
    add(queue, records=2)
    add(queue)
    assert sequence(take(queue)) == (0, 2**31 - 1)
    assert sequence(take(queue)) == (0, 1)


def test_nothing_new_goes_out_while_there_is_a_hole_in_the_sequence() -> None:
    queue = make()
    first, second, third = add(queue), add(queue), add(queue)
    take(queue)
    take(queue)
    refuse(queue, first, errors.RecordTooLarge.code)
    assert queue.take(0) is None
    refuse(queue, second, errors.OutOfOrderSequenceNumber.code)
    assert [take(queue, 500) for _ in range(2)] == [second, third]
    assert [sequence(second), sequence(third)] == [(0, 0), (0, 1)]


def test_several_refusals_of_one_round_count_as_one_failure_and_success_forgets_them() -> None:
    backoff = Backoff()
    queue = make()
    queue._backoff = backoff
    batches = [add(queue) for _ in range(5)]
    for _ in batches:
        take(queue)
    for batch in batches:
        refuse(queue, batch, errors.NotEnoughReplicas.code)
    assert backoff.failures == 1
    queue.obstacle = ConnectionError("old news")
    take(queue, 500)
    queue.on_answer(batches[0], 2, DONE, now_ms=500, chance=0)
    assert backoff.failures == 0
    assert queue.obstacle is None


def test_the_hole_of_two_batches_begins_at_the_first_across_the_wrap_of_sequences() -> None:
    """P-42: the batch behind the hole takes the number that the broker expects."""
    queue = make()
    queue._next_sequence = 0x7FFFFFFF
    before, after = add(queue), add(queue)
    last = add(queue, 500)
    for batch in (before, after, last):
        assert take(queue, 500) is batch
    assert (before.base_sequence, after.base_sequence, last.base_sequence) == (0x7FFFFFFF, 0, 1)
    refuse(queue, before, errors.NotEnoughReplicas.code)
    for batch in (after, last):
        refuse(queue, batch, errors.OutOfOrderSequenceNumber.code)
    assert [batch for batch, _ in queue.on_expiry(1000)] == [before, after]
    assert sequence(take(queue, 1400)) == (0, 0x7FFFFFFF)

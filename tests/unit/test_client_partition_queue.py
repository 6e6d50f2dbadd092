"""One partition's queue in a producer, case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Answer, Identity, QueueOptions
from strandline._core.partition_queue import PartitionQueue
from strandline.errors import (
    DeliveryTimedOut,
    NotEnoughReplicas,
    OutcomeUnknown,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
from strandline_proto import errors
from strandline_proto.batch import check_batch

DONE = Answer(0, "", True, 100, 3)

if TYPE_CHECKING:
    from strandline._core.producer_batch import ProducerBatch


def make(
    *, idempotent: bool = True, linger_ms: float = 0, max_in_flight: int = 5
) -> PartitionQueue:
    options = QueueOptions(
        acks=-1 if idempotent else 1,
        idempotent=idempotent,
        max_in_flight=max_in_flight,
        linger_ms=linger_ms,
        batch_size=1000,
        compression=0,
        delivery_timeout_ms=1000,
    )
    queue = PartitionQueue("orders", b"i" * 16, 0, options, Backoff())
    if idempotent:
        queue.on_identity(Identity(9, 0))
    return queue


def add(queue: PartitionQueue, now_ms: float = 0, *, records: int = 1) -> ProducerBatch:
    """One closed batch of so many records."""
    batch = queue.open_batch(now_ms)
    for _ in range(records):
        batch.append(batch.count, 0, None, b"v", [])
        batch.count += 1
    queue.close_open()
    return batch


def take(queue: PartitionQueue, now_ms: float = 0) -> ProducerBatch:
    batch = queue.take(now_ms, 0.5)
    assert batch is not None
    return batch


def sequence(batch: ProducerBatch) -> tuple[int, int]:
    header = check_batch(batch.data)
    return header.producer_epoch, header.base_sequence


def refuse(
    queue: PartitionQueue, batch: ProducerBatch, code: int, *, appended: bool = False
) -> list[tuple[ProducerBatch, Exception | None]]:
    answer = Answer(code, "why", appended)
    return queue.on_answer(batch, batch.attempt, answer, now_ms=0, chance=0)


def test_an_awaited_record_does_not_wait_for_the_linger() -> None:
    queue = make(linger_ms=100)
    batch = queue.open_batch(0)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    assert queue.take(0, 0) is batch


def test_an_open_batch_lingers_while_another_is_in_flight() -> None:
    queue = make(linger_ms=100)
    first = add(queue)
    take(queue)
    batch = queue.open_batch(10)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    assert queue.take(50, 0) is None
    assert queue.wake_at_ms(50) == 110
    assert queue.take(110, 0) is batch
    assert first.outstanding


def test_a_flush_ends_the_linger() -> None:
    queue = make(linger_ms=100)
    add(queue)
    take(queue)
    batch = queue.open_batch(0)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    queue.flushing = True
    assert queue.take(1, 0) is batch


def test_no_more_than_max_in_flight_are_under_way() -> None:
    queue = make(max_in_flight=2)
    for _ in range(3):
        add(queue)
    take(queue)
    take(queue)
    assert queue.take(0, 0) is None
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
    assert queue.take(0, 0) is None
    assert not queue.wants_identity
    add(queue)
    assert queue.take(0, 0) is None
    assert queue.wants_identity


def test_a_retriable_refusal_sends_the_same_bytes_again_after_a_pause() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    before = batch.data
    assert refuse(queue, batch, errors.NotLeaderOrFollower.code) == []
    assert queue.take(19, 0) is None
    assert queue.wake_at_ms(19) == 20
    assert queue.take(20, 0) is batch
    assert batch.data is before
    assert batch.attempt == 2


def test_retries_wait_for_what_is_under_way_and_keep_the_order() -> None:
    queue = make()
    first, second, third = add(queue), add(queue), add(queue)
    take(queue)
    take(queue)
    refuse(queue, first, errors.NotLeaderOrFollower.code)
    assert queue.take(500, 0) is None, "the second is still under way, the third must not pass"
    refuse(queue, second, errors.OutOfOrderSequenceNumber.code)
    assert [take(queue, 500) for _ in range(3)] == [first, second, third]


def test_a_newer_leader_is_used_at_once_without_the_old_ones_answer() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    queue.sent_epoch = 4
    queue.on_leader_moved(4)
    assert queue.take(0, 0) is None
    queue.on_leader_moved(5)
    assert queue.take(0, 0) is batch
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
    [(batch, error)] = refuse(queue, first, errors.RecordTooLarge.code)
    assert batch is first
    assert isinstance(error, RecordTooLarge)
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
    assert queue.take(1000, 0) is None
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


def test_a_refusal_after_the_append_is_retried_only_by_an_idempotent_producer() -> None:
    code = errors.NotEnoughReplicasAfterAppend.code
    queue = make()
    batch = add(queue)
    take(queue)
    assert refuse(queue, batch, code, appended=True) == []
    queue = make(idempotent=False)
    batch = add(queue)
    take(queue)
    [(settled, error)] = refuse(queue, batch, code, appended=True)
    assert settled is batch
    assert isinstance(error, OutcomeUnknown)
    assert error.may_have_been_written


def test_without_idempotence_a_lost_answer_is_told_as_unknown_and_never_retried() -> None:
    queue = make(idempotent=False)
    batch = add(queue)
    take(queue)
    [(settled, error)] = queue.on_lost(
        batch, 1, ConnectionError("gone"), sent=True, now_ms=0, chance=0
    )
    assert settled is batch
    assert isinstance(error, OutcomeUnknown)
    assert "gone" in str(error)


def test_what_never_left_is_retried_even_without_idempotence() -> None:
    queue = make(idempotent=False)
    batch = add(queue)
    take(queue)
    assert queue.on_lost(batch, 1, ConnectionError(), sent=False, now_ms=0, chance=0) == []
    assert take(queue, 100) is batch


def test_an_expired_batch_that_was_never_sent_was_certainly_not_written() -> None:
    queue = make()
    batch = add(queue)
    queue.obstacle = NotEnoughReplicas("orders/0 has ISR {1}, needs 2")
    [(settled, error)] = queue.on_expiry(1000)
    assert settled is batch
    assert isinstance(error, DeliveryTimedOut)
    assert not error.may_have_been_written
    assert "NotEnoughReplicas: orders/0 has ISR {1}, needs 2" in str(error)
    assert "were not written" in str(error)


def test_a_timeout_names_the_last_refusal_as_its_cause() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    refuse(queue, batch, errors.NotEnoughReplicas.code)
    [(_, error)] = queue.on_expiry(1000)
    assert isinstance(error, DeliveryTimedOut)
    assert isinstance(error.cause, NotEnoughReplicas)
    assert not error.may_have_been_written


def test_an_open_batch_expires_too() -> None:
    queue = make()
    queue._identity = None
    batch = queue.open_batch(0)
    batch.append(0, 0, None, b"v", [])
    batch.count = 1
    assert queue.next_deadline_ms == 1000
    assert queue.on_expiry(999) == []
    [(settled, _)] = queue.on_expiry(1000)
    assert settled is batch
    assert queue.idle


def test_corrupt_bytes_are_sent_again_but_not_for_ever() -> None:
    queue = make()
    batch = add(queue)
    for attempt in (1, 2):
        assert take(queue, attempt * 100).attempt == attempt
        assert refuse(queue, batch, errors.CorruptMessage.code) == []
    take(queue, 300)
    [(settled, error)] = refuse(queue, batch, errors.CorruptMessage.code)
    assert settled is batch
    assert isinstance(error, errors.CorruptMessage)


def test_a_deleted_topic_settles_everything_honestly() -> None:
    queue = make()
    sent, waiting = add(queue), add(queue)
    take(queue)
    gone = UnknownTopicOrPartition("deleted")
    settled = dict(queue.on_hopeless(gone))
    assert isinstance(settled[sent], OutcomeUnknown)
    assert settled[waiting] is gone
    assert queue.idle


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


def test_the_oldest_wait_and_deadline_are_known() -> None:
    queue = make()
    assert queue.waiting_since_ms == float("inf")
    add(queue, 10)
    assert queue.next_deadline_ms == 1010
    take(queue, 30)
    assert queue.waiting_since_ms == 30
    assert str(queue) == "orders/0"


def test_what_was_not_written_is_not_sent_again_when_no_answer_can_come_in_time() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    refuse(queue, batch, errors.NotEnoughReplicas.code)
    assert queue.take(901, 0) is None
    [(_, error)] = queue.on_expiry(1000)
    assert isinstance(error, DeliveryTimedOut)
    assert not error.may_have_been_written
    late = add(queue, 1000)
    assert queue.take(1901, 0) is None
    assert queue.take(1900, 0) is late


def test_a_batch_under_way_at_its_deadline_may_have_been_written() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    [(settled, error)] = queue.on_expiry(1000)
    assert settled is batch
    assert isinstance(error, DeliveryTimedOut)
    assert error.may_have_been_written


def test_nothing_new_goes_out_while_there_is_a_hole_in_the_sequence() -> None:
    queue = make()
    first, second, third = add(queue), add(queue), add(queue)
    take(queue)
    take(queue)
    refuse(queue, first, errors.RecordTooLarge.code)
    assert queue.take(0, 0) is None
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

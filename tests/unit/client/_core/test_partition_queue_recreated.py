"""A topic is deleted and created again while a producer's batches are on their way."""

from __future__ import annotations

from strandline._core.delivery_terms import Answer, Identity
from strandline.errors import OutcomeUnknown, TopicRecreated
from strandline_proto import errors
from support.partition_queues import DONE, add, make, refuse, sequence, take

NEW = b"n" * 16
GONE = TopicRecreated("it was created again")


def test_what_was_refused_goes_to_the_new_topic_from_the_first_number_on() -> None:
    queue = make()
    first = add(queue, records=3)
    queue.on_answer(take(queue), 1, DONE, now_ms=0, chance=0)
    second, third = add(queue, records=2), add(queue)
    assert [take(queue), take(queue)] == [second, third]
    for batch in (second, third):
        refuse(queue, batch, errors.UnknownTopicId.code)
    assert queue.on_recreated(NEW, GONE) == []
    assert queue.topic_id == NEW
    assert [sequence(take(queue)) for _ in range(2)] == [(0, 0), (0, 2)]
    assert first.settled


def test_the_answers_of_the_old_topic_are_waited_for() -> None:
    queue = make()
    first, second = add(queue), add(queue)
    take(queue), take(queue)
    assert queue.on_recreated(NEW, GONE) == []
    add(queue)
    queue.on_leader_moved(0)
    assert queue.take(0) is None
    assert refuse(queue, first, errors.UnknownTopicId.code) == []
    assert queue.take(500) is None
    assert refuse(queue, second, errors.UnknownTopicId.code) == []
    assert [sequence(take(queue, 500)) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]


def test_what_was_acknowledged_by_the_old_topic_stays_so() -> None:
    queue = make()
    first, second = add(queue), add(queue)
    take(queue), take(queue)
    queue.on_recreated(NEW, GONE)
    assert queue.on_answer(first, 1, DONE, now_ms=0, chance=0) == [(first, None)]
    refuse(queue, second, errors.UnknownTopicId.code)
    assert sequence(take(queue, 500)) == (0, 0)


def test_what_may_be_in_the_old_log_is_unknown() -> None:
    queue = make()
    lost, late, timed_out, kept = add(queue), add(queue), add(queue), add(queue)
    for _ in range(4):
        take(queue)
    queue.on_lost(lost, 1, ConnectionError("gone"), sent=True, now_ms=0, chance=0)
    [(batch, error)] = queue.on_recreated(NEW, GONE)
    assert batch is lost
    assert isinstance(error, OutcomeUnknown)
    assert error.cause is GONE
    settled = queue.on_lost(late, 1, ConnectionError("gone"), sent=True, now_ms=0, chance=0)
    settled += refuse(queue, timed_out, errors.RequestTimedOut.code, appended=True)
    assert [batch for batch, _ in settled] == [late, timed_out]
    assert all(isinstance(error, OutcomeUnknown) for _, error in settled)
    refuse(queue, kept, errors.UnknownTopicId.code)
    assert take(queue, 500) is kept
    assert sequence(kept) == (0, 0)
    assert queue.on_answer(kept, 2, Answer(0, "", True, 0), now_ms=0, chance=0) == [(kept, None)]
    add(queue)
    assert sequence(take(queue, 500)) == (0, 1)


def test_without_numbers_what_was_refused_goes_there_too() -> None:
    queue = make(idempotent=False)
    batch = add(queue)
    refuse(queue, take(queue), errors.UnknownTopicId.code)
    assert queue.on_recreated(NEW, GONE) == []
    assert take(queue, 500) is batch


def test_a_queue_with_a_chosen_identity_fails() -> None:
    queue = make(chosen=Identity(1 << 62, 0))
    add(queue)
    refuse(queue, take(queue), errors.UnknownTopicId.code)
    [(_, error)] = queue.on_recreated(NEW, GONE)
    assert error is GONE
    assert queue.idle

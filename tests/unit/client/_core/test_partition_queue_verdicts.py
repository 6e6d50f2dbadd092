"""What a producer's partition queue says of records it gives up: deadlines, causes, honesty."""

from __future__ import annotations

from strandline.errors import (
    DeliveryTimedOut,
    NotEnoughReplicas,
    OutcomeUnknown,
    UnknownTopicOrPartition,
)
from strandline_proto import errors
from support.partition_queues import add, make, refuse, take


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


def test_without_idempotence_what_may_be_written_is_not_sent_again() -> None:
    """It would be two records."""
    queue = make(idempotent=False)
    batch = add(queue)
    take(queue)
    queue.on_lost(batch, 1, ConnectionError(), sent=True, now_ms=0, chance=0)
    assert queue.take(100) is None
    assert queue.idle


def test_what_never_left_is_retried_even_without_idempotence() -> None:
    queue = make(idempotent=False)
    batch = add(queue)
    take(queue)
    assert queue.on_lost(batch, 1, ConnectionError(), sent=False, now_ms=0, chance=0) == []
    assert take(queue, 100) is batch


def test_an_expired_batch_that_was_never_sent_was_certainly_not_written() -> None:
    queue = make()
    batch = add(queue)
    queue.obstacle = NotEnoughReplicas("orders:0 has ISR {1}, needs 2")
    [(settled, error)] = queue.on_expiry(1000)
    assert settled is batch
    assert isinstance(error, DeliveryTimedOut)
    assert not error.may_have_been_written
    assert "NotEnoughReplicas: orders:0 has ISR {1}, needs 2" in str(error)
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


def test_the_oldest_wait_and_deadline_are_known() -> None:
    queue = make()
    assert queue.waiting_since_ms == float("inf")
    add(queue, 10)
    assert queue.next_deadline_ms == 1010
    take(queue, 30)
    assert queue.waiting_since_ms == 30
    assert str(queue) == "orders:0"


def test_what_was_not_written_is_not_sent_again_when_no_answer_can_come_in_time() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    refuse(queue, batch, errors.NotEnoughReplicas.code)
    assert queue.take(901) is None
    [(_, error)] = queue.on_expiry(1000)
    assert isinstance(error, DeliveryTimedOut)
    assert not error.may_have_been_written
    late = add(queue, 1000)
    assert queue.take(1901) is None
    assert queue.take(1900) is late


def test_a_batch_under_way_at_its_deadline_may_have_been_written() -> None:
    queue = make()
    batch = add(queue)
    take(queue)
    [(settled, error)] = queue.on_expiry(1000)
    assert settled is batch
    assert isinstance(error, DeliveryTimedOut)
    assert error.may_have_been_written

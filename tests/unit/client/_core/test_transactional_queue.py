"""The queue of a partition in transactions: one identity each, and no repair of its sequence."""

from __future__ import annotations

import pytest

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Answer, Identity, QueueOptions
from strandline._core.transactional_queue import TransactionalQueue
from strandline.errors import OutOfOrderSequenceNumber, TransactionAborted
from strandline_proto.batch import read_header
from strandline_proto.errors import InvalidProducerEpoch, RecordTooLarge

OPTIONS = QueueOptions(
    acks=-1,
    idempotent=True,
    max_in_flight=5,
    linger_ms=0,
    batch_size=1 << 20,
    compression=0,
    delivery_timeout_ms=1_000,
    transactional_id="pay",
)
FIRST, NEXT = Identity(7, 0), Identity(7, 1)


def made(identity: Identity = FIRST) -> TransactionalQueue:
    queue = TransactionalQueue("orders", b"t" * 16, 0, OPTIONS, Backoff())
    queue.on_identity(identity)
    return queue


def put(queue: TransactionalQueue, records: int = 1) -> None:
    batch = queue.open_batch(0.0)
    for index in range(records):
        assert batch.append(index, 0, None, b"v" * 100, []) is not None
        batch.count += 1
    queue.close_open()


def sent(queue: TransactionalQueue) -> list[tuple[bool, int, int]]:
    found = []
    while (batch := queue.take(0.0)) is not None:
        header = read_header(batch.data)
        found.append((header.is_transactional, header.producer_epoch, header.base_sequence))
    return found


def test_each_transaction_numbers_its_batches_from_0_under_its_own_epoch() -> None:
    queue = made()
    for epoch, identity in ((0, FIRST), (1, NEXT)):
        queue.on_identity(identity)
        put(queue)
        put(queue)
        assert sent(queue) == [(True, epoch, 0), (True, epoch, 1)]
        for batch in list(queue.in_flight):
            answer = Answer(0, "", appended=True, base_offset=0)
            queue.on_answer(batch, batch.attempt, answer, now_ms=0, chance=0)
        queue.on_transaction_ended()
        put(queue)
        assert queue.take(0.0) is None  # without the identity of the next one
        assert queue.wants_identity
        queue.on_hopeless(TransactionAborted("x"))


def test_the_parts_of_a_batch_stay_in_the_transaction() -> None:
    queue = made()
    put(queue, 4)
    whole = queue.take(0.0)
    assert whole is not None
    refused = Answer(RecordTooLarge.code, "", appended=False)
    assert queue.on_answer(whole, whole.attempt, refused, now_ms=0, chance=0) == []
    assert sent(queue) == [(True, 0, 0), (True, 0, 2)]


@pytest.mark.parametrize("code", [InvalidProducerEpoch.code, OutOfOrderSequenceNumber.code])
def test_a_batch_that_does_not_fit_fails_and_gets_no_other_identity(code: int) -> None:
    queue = made()
    put(queue)
    batch = queue.take(0.0)
    assert batch is not None
    refused = Answer(code, "", appended=False)
    [(failed, error)] = queue.on_answer(batch, batch.attempt, refused, now_ms=0, chance=0)
    assert failed is batch
    assert error is not None


def test_a_batch_behind_an_unresolved_one_is_repeated_after_it() -> None:
    queue = made()
    put(queue)
    put(queue)
    first, second = queue.take(0.0), queue.take(0.0)
    assert first is not None
    assert second is not None
    refused = Answer(OutOfOrderSequenceNumber.code, "", appended=False)
    assert queue.on_answer(second, second.attempt, refused, now_ms=0, chance=0) == []
    assert not second.settled


def test_an_abort_is_the_outcome_of_every_record_and_says_what_may_be_in_the_log() -> None:
    queue = made()
    put(queue)
    put(queue)
    assert queue.take(0.0) is not None
    settled = queue.on_hopeless(TransactionAborted("aborted"))
    errors = [error for _, error in settled]
    assert [isinstance(error, TransactionAborted) for error in errors] == [True, True]
    assert [getattr(e, "may_have_been_written", None) for e in errors] == [True, False]
    queue.on_transaction_ended()

"""A queue whose producer id and epoch its user chose: numbers from 0, and nothing behind a hole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline._core.delivery_terms import Identity
from strandline.errors import (
    DeliveryTimedOut,
    InvalidProducerEpoch,
    OutcomeUnknown,
    OutOfOrderSequenceNumber,
    RecordTooLarge,
)
from strandline_proto import errors
from strandline_proto.batch import check_batch
from support.partition_queues import DONE, add, make, refuse, sequence, take

if TYPE_CHECKING:
    from strandline._core.partition_queue import PartitionQueue, Settled

CHOSEN = Identity((1 << 62) + 5, 7)


def dead(queue: PartitionQueue) -> bool:
    """Whether nothing more is sent, and no broker is asked for another identity."""
    add(queue, 10_000)
    return queue.take(10_000) is None and not queue.wants_identity


def names(settled: list[Settled]) -> list[str]:
    return [type(error).__name__ for _, error in settled]


def test_numbers_begin_at_0_under_the_identity_that_was_chosen() -> None:
    queue = make(chosen=CHOSEN)
    for records in (3, 2):
        add(queue, records=records)
    first, second = take(queue), take(queue)
    assert not queue.wants_identity
    assert [sequence(first), sequence(second)] == [(7, 0), (7, 3)]
    assert check_batch(first.data).producer_id == CHOSEN.producer_id
    assert queue.on_answer(first, 1, DONE, now_ms=0, chance=0) == [(first, None)]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errors.OutOfOrderSequenceNumber.code, OutOfOrderSequenceNumber),
        (errors.InvalidProducerEpoch.code, InvalidProducerEpoch),
        (errors.RecordTooLarge.code, RecordTooLarge),
    ],
)
def test_what_is_refused_for_good_takes_all_that_was_to_follow_with_it(
    code: int, kind: type[Exception]
) -> None:
    queue = make(chosen=CHOSEN, max_in_flight=1)
    for _ in range(3):
        add(queue)
    settled = refuse(queue, take(queue), code)
    assert names(settled) == [kind.__name__] * 3
    assert queue.idle
    assert dead(queue)


def test_what_may_be_in_the_log_is_called_unknown() -> None:
    queue = make(chosen=CHOSEN)
    add(queue)
    add(queue)
    first, second = take(queue), take(queue)
    settled = refuse(queue, first, errors.RecordTooLarge.code)
    assert [batch for batch, _ in settled] == [first, second]
    assert names(settled) == [RecordTooLarge.__name__, OutcomeUnknown.__name__]
    assert dead(queue)


def test_a_batch_behind_one_that_is_unresolved_waits_for_its_turn() -> None:
    """A leader that lost the first of two calls the second out of order."""
    queue = make(chosen=CHOSEN)
    add(queue)
    add(queue)
    first, second = take(queue), take(queue)
    assert refuse(queue, second, errors.OutOfOrderSequenceNumber.code) == []
    queue.on_lost(first, 1, OSError("broken"), sent=True, now_ms=0, chance=0)
    again = [take(queue, 500), take(queue, 500)]
    assert again == [first, second]
    assert [sequence(batch) for batch in again] == [(7, 0), (7, 1)]


def test_a_batch_that_expires_before_it_was_sent_takes_the_rest_with_it() -> None:
    """Else the next one would go out with its numbers, and be taken for it in the rerun."""
    queue = make(chosen=CHOSEN)
    add(queue, 0)
    add(queue, 900)
    settled = queue.on_expiry(1000)
    assert names(settled) == [DeliveryTimedOut.__name__] * 2
    assert dead(queue)


def test_a_batch_that_expires_under_way_takes_the_rest_with_it() -> None:
    queue = make(chosen=CHOSEN)
    add(queue, 0)
    add(queue, 0)
    add(queue, 900)
    first = take(queue)
    settled = queue.on_expiry(1000)
    assert settled[0][0] is first
    assert len(settled) == 3
    assert dead(queue)


def test_a_lost_answer_is_asked_for_again_under_the_same_numbers() -> None:
    queue = make(chosen=CHOSEN)
    add(queue)
    batch = take(queue)
    assert queue.on_lost(batch, 1, OSError("broken"), sent=True, now_ms=0, chance=0) == []
    data = batch.data
    assert take(queue, 500) is batch
    assert batch.data == data
    assert queue.on_answer(batch, 2, DONE, now_ms=0, chance=0) == [(batch, None)]

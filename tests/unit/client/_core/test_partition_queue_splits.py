"""A refused batch that is too large goes out again in parts, in its place in the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline._core.delivery_terms import Answer, Identity
from strandline._core.partition_queue import SMALLER_FOR_MS, PartitionQueue
from strandline.errors import OutcomeUnknown, RecordTooLarge
from strandline_proto import errors
from strandline_proto.batch import check_batch, read_records
from support.partition_queues import DONE, add, make, refuse, sequence, take

if TYPE_CHECKING:
    from strandline._core.producer_batch import ProducerBatch

TOO_LARGE = errors.RecordTooLarge.code


def filled(queue: PartitionQueue, count: int, size: int = 45, now_ms: float = 0) -> int:
    """How many of so many records are in the first batch that is made of them."""
    batches = []
    for i in range(count):
        batch = queue.open_batch(now_ms)
        if batch.append(batch.count, 0, None, b"%02d" % i + bytes(size), []) is None:
            queue.close_open()
            batch = queue.open_batch(now_ms)
            batch.append(0, 0, None, b"%02d" % i + bytes(size), [])
        batch.count += 1
        batches.append(batch)
    queue.close_open()
    return batches[0].count


def taken(queue: PartitionQueue, now_ms: float = 0) -> list[ProducerBatch]:
    found = []
    while (batch := queue.take(now_ms)) is not None:
        found.append(batch)
    return found


def test_the_parts_go_out_at_once_and_what_was_behind_them_follows_under_its_number() -> None:
    queue = make()
    filled(queue, 8)
    add(queue, records=2)
    first, second = taken(queue)
    assert refuse(queue, first, TOO_LARGE) == []
    assert queue.take(0) is None, "the batch behind it is under way"
    assert refuse(queue, second, errors.OutOfOrderSequenceNumber.code) == []
    sent = taken(queue)
    assert [sequence(batch) for batch in sent] == [(0, 0), (0, 4), (0, 8)]
    assert [batch.count for batch in sent] == [4, 4, 2]
    assert [queue.on_answer(b, 1, DONE, now_ms=0, chance=0) for b in sent[:2]] == [
        [(sent[0], None)],
        [(sent[1], None)],
    ]
    assert queue.on_answer(sent[2], 2, DONE, now_ms=0, chance=0) == [(sent[2], None)]
    assert queue.idle


def test_a_part_alone_waits_for_no_back_off() -> None:
    queue = make()
    filled(queue, 8)
    refuse(queue, take(queue), TOO_LARGE)
    assert len(taken(queue, now_ms=0)) == 2


def test_no_more_parts_are_under_way_than_a_leader_remembers() -> None:
    queue = make(max_in_flight=2)
    filled(queue, 16)
    refuse(queue, take(queue), TOO_LARGE)
    for batch in taken(queue):
        refuse(queue, batch, TOO_LARGE)
    first, second = taken(queue)
    assert queue.take(0) is None
    assert queue.on_answer(second, 1, DONE, now_ms=0, chance=0) == [(second, None)]
    [third] = taken(queue)
    assert [sequence(batch)[1] for batch in (first, second, third)] == [0, 4, 8]


def test_the_next_batches_are_as_small_as_the_parts_for_a_while() -> None:
    queue = make()
    assert filled(queue, 16) == 16
    refuse(queue, take(queue), TOO_LARGE)
    assert filled(queue, 16) == 8
    for now_ms, expected in ((SMALLER_FOR_MS - 1, 8), (SMALLER_FOR_MS, 16)):
        assert filled(queue, 16, now_ms=now_ms) == expected


def test_what_was_ready_is_cut_to_what_is_known_by_then() -> None:
    queue = make(max_in_flight=1)
    filled(queue, 16)
    filled(queue, 16)
    refuse(queue, take(queue), TOO_LARGE)
    refuse(queue, take(queue), TOO_LARGE)  # half of it: the limit is a quarter
    for _ in range(3 + 1):
        batch = take(queue)
        if batch.count == 16:
            break
        if batch.count == 8:
            refuse(queue, batch, TOO_LARGE)
            continue
        queue.on_answer(batch, batch.attempt, DONE, now_ms=0, chance=0)
    while (batch := take(queue)).count < 16:
        queue.on_answer(batch, batch.attempt, DONE, now_ms=0, chance=0)
    refuse(queue, batch, TOO_LARGE)
    assert [batch.count for batch in queue.in_flight] == [4, 4, 4, 4]


def test_a_record_that_is_too_large_alone_fails_by_name_and_the_rest_moves_up() -> None:
    queue = make()
    batch = queue.open_batch(0)
    for value in (b"a", b"l" * 500, b"z"):
        assert batch.append(batch.count, 0, b"key", value, [("h", b"12")]) is not None
        batch.count += 1
    queue.close_open()
    refuse(queue, take(queue), TOO_LARGE)
    small, large, last = taken(queue)
    assert queue.on_answer(small, 1, DONE, now_ms=0, chance=0) == [(small, None)]
    [(settled, error)] = refuse(queue, large, TOO_LARGE)
    assert settled is large
    assert isinstance(error, RecordTooLarge)
    assert (
        str(error) == "orders:0: a record of 506 bytes (key, value and headers) is too large: why"
    )
    assert refuse(queue, last, errors.OutOfOrderSequenceNumber.code) == []
    again = take(queue, 500)
    assert (again, sequence(again)) == (last, (0, 1))


def test_what_may_be_written_keeps_its_numbers_in_parts() -> None:
    """I-55: a leader that has the whole takes the parts for repetitions."""
    queue = make()
    filled(queue, 4)
    batch = take(queue)
    queue.on_lost(batch, 1, ConnectionError("gone"), sent=True, now_ms=0, chance=0)
    assert take(queue, 1000) is batch
    refuse(queue, batch, TOO_LARGE)
    parts = taken(queue, 1000)
    assert [sequence(part) for part in parts] == [(0, 0), (0, 2)]
    values = [r.value for p in parts for r in read_records(p.data, 0, check_batch(p.data))]
    assert [value[:2] for value in values if value] == [b"00", b"01", b"02", b"03"]
    [(_, error)] = queue.on_hopeless(ConnectionError("gone"))[:1]
    assert isinstance(error, OutcomeUnknown)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_refusal_of_what_was_appended_is_not_cut_without_numbers(idempotent: bool) -> None:
    queue = make(idempotent=idempotent)
    filled(queue, 4)
    settled = refuse(queue, take(queue), TOO_LARGE, appended=True)
    if idempotent:
        assert settled == []
    else:
        [(_, error)] = settled
        assert isinstance(error, OutcomeUnknown)


def test_a_queue_with_a_chosen_identity_cuts_the_same_halves_whatever_it_met_before() -> None:
    queue = make(chosen=Identity(1 << 62, 0), max_in_flight=1)
    filled(queue, 16)
    filled(queue, 16)
    for _ in range(2):
        while (batch := take(queue)).count > 4:
            refuse(queue, batch, TOO_LARGE)
        assert sum(b.count for b in queue.in_flight) == 16
        assert [b.count for b in queue.in_flight] == [4, 4, 8]
        queue.on_answer(batch, batch.attempt, Answer(0, "", True, 0), now_ms=0, chance=0)
        while queue.in_flight:
            if (batch := take(queue)).count > 4:
                refuse(queue, batch, TOO_LARGE)
            else:
                queue.on_answer(batch, batch.attempt, Answer(0, "", True, 0), now_ms=0, chance=0)

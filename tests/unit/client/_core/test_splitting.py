"""A batch that is too large is cut into parts that together are the whole."""

from __future__ import annotations

import pytest

from strandline._core.producer_batch import NO_SEQUENCE, ProducerBatch
from strandline._core.splitting import remaining, split
from strandline_proto.batch import SEQUENCE_MAX, check_batch, read_records

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

ROWS: list[Row] = [
    (1000, b"key", b"a" * 40, [("h", b"1"), ("none", None)]),
    (900, None, b"b" * 40, []),
    (1700, b"key", None, []),
    (1100, b"", b"d" * 300, []),
    (1200, None, b"", []),
    (1300, None, b"f" * 40, []),
]


def whole(rows: list[Row], *, sequence: int = 7, compression: int = 0) -> ProducerBatch:
    batch = ProducerBatch(size_max=1 << 20, compression=compression, created_ms=5, deadline_ms=9)
    for row in rows:
        assert batch.append(batch.count, *row) is not None
        batch.count += 1
    identity = (-1, -1) if sequence == NO_SEQUENCE else (44, 3)
    batch.seal(*identity, sequence)
    return batch


def rows_of(batch: ProducerBatch) -> list[Row]:
    header = check_batch(batch.data)
    return [
        (r.timestamp, r.key, r.value, list(r.headers)) for r in read_records(batch.data, 0, header)
    ]


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_the_parts_hold_every_record_in_order(compression: int) -> None:
    batch = whole(ROWS, compression=compression)
    limit, parts = split(batch, 1 << 20, compression)
    assert [row for part in parts for row in rows_of(part)] == ROWS
    assert {check_batch(part.data).compression for part in parts} == {compression}
    assert [part.count for part in parts] == [3, 1, 2]
    assert limit < 61 + sum(len(row[2] or b"") for row in ROWS)
    assert [(part.created_ms, part.deadline_ms) for part in parts] == [(5, 9)] * 3


def test_a_limit_below_the_half_is_kept() -> None:
    limit, parts = split(whole(ROWS), 61 + 60, 0)
    assert limit == 121
    assert [part.count for part in parts] == [1, 2, 1, 2]


def test_the_parts_share_out_the_sequence_over_its_end() -> None:
    _, parts = split(whole(ROWS, sequence=SEQUENCE_MAX - 3), 1 << 20, 0)
    headers = [check_batch(part.data) for part in parts]
    assert [h.base_sequence for h in headers] == [SEQUENCE_MAX - 3, SEQUENCE_MAX, 0]
    assert [h.last_sequence for h in headers] == [SEQUENCE_MAX - 1, SEQUENCE_MAX, 1]
    assert {(h.producer_id, h.producer_epoch) for h in headers} == {(44, 3)}


def test_without_a_number_the_parts_have_none() -> None:
    _, parts = split(whole(ROWS, sequence=NO_SEQUENCE), 1 << 20, 0)
    assert {check_batch(part.data).base_sequence for part in parts} == {NO_SEQUENCE}


def test_what_may_be_written_is_so_in_each_part() -> None:
    batch = whole(ROWS)
    batch.may_be_written = True
    assert all(part.may_be_written for part in split(batch, 1 << 20, 0)[1])


def test_room_and_waiting_callers_go_with_their_records() -> None:
    batch = whole(ROWS)
    batch.reserved = 600
    batch.waiters = [(0, 1000, "first"), (3, 1100, "fourth"), (5, 1300, "sixth")]
    batch.collectors = [(1, 2, "one"), (4, 1, "two")]
    _, parts = split(batch, 1 << 20, 0)
    assert sum(part.reserved for part in parts) == 600
    assert all(part.reserved > 0 for part in parts)
    assert [part.waiters for part in parts] == [
        [(0, 1000, "first")],
        [(0, 1100, "fourth")],
        [(1, 1300, "sixth")],
    ]
    assert [part.collectors for part in parts] == [[(1, 2, "one")], [], [(0, 1, "two")]]


def test_one_call_for_many_records_is_told_of_all_parts() -> None:
    batch = whole(ROWS)
    batch.collectors = [(0, 2, "one"), (2, 4, "two")]
    _, parts = split(batch, 1 << 20, 0)
    assert [part.collectors for part in parts] == [
        [(0, 2, "one"), (2, 1, "two")],
        [(0, 1, "two")],
        [(0, 2, "two")],
    ]


def test_two_records_are_parted_whichever_is_large() -> None:
    small: Row = (1, None, b"s", [])
    large: Row = (1, None, b"l" * 5000, [])
    for rows in ([small, large], [large, small], [small, small], [large, large]):
        _, parts = split(whole(rows), 1 << 20, 0)
        assert [rows_of(part) for part in parts] == [[rows[0]], [rows[1]]]


def test_who_waits_for_a_batch_waits_for_its_parts() -> None:
    batch, other = whole(ROWS), whole(ROWS)
    other.settled = True
    _, parts = split(batch, 1 << 20, 0)
    assert batch.settled
    assert list(remaining([batch, other])) == parts
    _, smaller = split(parts[0], 1 << 20, 0)
    parts[1].settled = smaller[0].settled = True
    assert list(remaining([batch])) == [*smaller[1:], parts[2]]

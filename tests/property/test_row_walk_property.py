"""The compiled walks of many batches and their twins find the same rows in any bytes, and refuse
arrays that do not fit.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline_proto.record_walk import INT64_MAX, INT64_MIN
from strandline_spark.source import row_walk
from strandline_spark.source.row_walk import SOUND, headers_in_python, rows_in_python
from support.examples import examples
from support.record_bytes import Fields, record
from support.record_runs import int64, runs, times

compiled = pytest.mark.skipif(not row_walk.IS_COMPILED, reason="no compiled walk here")

bases = st.integers(-5, 100) | int64
counts = st.integers(0, 9)
bodies = runs().map(lambda run: run[0]) | st.binary(max_size=60)
batches = st.lists(st.tuples(bodies, counts, bases, bases, times, st.just(-1) | times), max_size=3)


def _laid(made: list[Any]) -> tuple[bytes, Any]:
    """The bodies one after the other, and their table."""
    data, table = bytearray(b"\xff"), []
    for body, count, base, last, base_time, append_time in made:
        start = len(data)
        data += body
        table.append((start, len(data), count, base, last, base_time, append_time))
        data += b"\xff\x01"  # of no batch
    return bytes(data), np.array(table, np.int64).reshape(-1, 7)


def _arrays(rows: int) -> list[Any]:
    return [
        np.zeros(4 * rows + 1, np.int32),
        np.zeros((2, rows), np.bool_),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int32),
        np.zeros((3, rows), np.int32),
    ]


def _found(walk: Any, data: bytes, table: Any, start: int, stop: int) -> Any:
    arrays = _arrays(int(table[:, 2].sum()))
    rows, broken = walk(data, table, start, stop, *arrays)
    marks, nulls, offsets, timestamps, batch_of, headers = arrays
    if broken != SOUND:
        return rows, broken  # nobody looks at what was found before
    found = [marks[: 4 * rows + 1], nulls[:, :rows], offsets[:rows], timestamps[:rows]]
    return rows, broken, [a.tolist() for a in (*found, batch_of[:rows], headers[:, :rows])]


@compiled
@settings(max_examples=examples(100))
@given(batches, bases, bases)
def test_both_walks_find_the_same_rows(made: list[Any], start: int, stop: int) -> None:
    data, table = _laid(made)
    asked = data, table, start, stop
    assert _found(row_walk.rows, *asked) == _found(rows_in_python, *asked)


@compiled
@settings(max_examples=examples(50))
@given(runs(), bases, st.integers(0, 8))
def test_both_walks_find_the_same_rows_in_sound_records(
    run: tuple[bytes, int], base: int, first: int
) -> None:
    last = min(base + run[1], INT64_MAX) if abs(run[1]) < 99 else base
    data, table = _laid([(run[0], min(max(run[1], 0), 9), base, last, 100, -1)])
    asked = data, table, min(base + first, INT64_MAX), INT64_MAX
    assert _found(row_walk.rows, *asked) == _found(rows_in_python, *asked)


@compiled
@settings(max_examples=examples(80))
@given(st.lists(st.tuples(st.binary(max_size=20) | bodies, counts), max_size=3))
def test_both_walks_find_the_same_headers(made: list[tuple[bytes, int]]) -> None:
    data, table = _laid([(body, count, 0, 0, 0, -1) for body, count in made])
    places = np.ascontiguousarray(table[:, :3].T.astype(np.int32))
    total = int(places[2].sum())

    def found(walk: Any) -> Any:
        marks, nulls = np.zeros(4 * total + 1, np.int32), np.zeros(total, np.bool_)
        broken = walk(data, places, marks, nulls)
        return (broken, marks.tolist(), nulls.tolist()) if broken == SOUND else broken

    assert found(row_walk.headers) == found(headers_in_python)


@pytest.mark.parametrize("walk", [row_walk.rows, rows_in_python])
def test_where_keys_and_values_lie_and_what_was_said_of_them(walk: Any) -> None:
    first = record(Fields(0, 3, b"k", None, ((b"h", b"x"),)))
    second = record(Fields(1, -4, None, b"value", ()))
    data, table = _laid([(first + second, 2, 10, 11, 1000, -1), (first, 1, 12, 12, 1000, 77)])
    rows, broken, (marks, nulls, offsets, timestamps, batch_of, headers) = _found(
        walk, data, table, 10, 13
    )
    assert (rows, broken) == (3, SOUND)
    assert [data[marks[4 * i] : marks[4 * i + 1]] for i in range(3)] == [b"k", b"", b"k"]
    assert [data[marks[4 * i + 2] : marks[4 * i + 3]] for i in range(3)] == [b"", b"value", b""]
    assert marks[12] == marks[11]
    assert nulls == [[False, True, False], [True, False, True]]
    assert (offsets, timestamps, batch_of) == ([10, 11, 12], [1003, 996, 77], [0, 0, 1])
    assert headers[2] == [1, 0, 1]


@pytest.mark.parametrize("walk", [row_walk.rows, rows_in_python])
@pytest.mark.parametrize("beyond", [INT64_MIN, INT64_MAX])
def test_a_time_beyond_64_bits_is_set_to_the_nearest(walk: Any, beyond: int) -> None:
    one = record(Fields(0, 9 if beyond > 0 else -9, None, b"", ()))
    data, table = _laid([(one, 1, 0, 0, beyond, -1)])
    assert _found(walk, data, table, 0, 1)[2][3] == [beyond]


@compiled
@pytest.mark.parametrize("short", range(6))
def test_arrays_without_room_are_refused(short: int) -> None:
    data, table = _laid([(record(Fields(0, 0, None, b"", ())), 1, 0, 0, 0, -1)])
    arrays = _arrays(1)
    arrays[short] = arrays[short].ravel()[:-1].copy()
    with pytest.raises(ValueError, match="do not fit"):
        row_walk.rows(data, table, 0, 1, *arrays)


@compiled
@pytest.mark.parametrize(("column", "value"), [(0, -1), (0, 99), (1, 99), (2, -1), (2, 2)])
def test_a_batch_that_lies_elsewhere_is_refused(column: int, value: int) -> None:
    data, table = _laid([(record(Fields(0, 0, None, b"", ())), 1, 0, 0, 0, -1)])
    table[0, column] = value
    with pytest.raises(ValueError, match="do not fit"):
        row_walk.rows(data, table, 0, 1, *_arrays(1))


def _one(delta: int, **said: Any) -> bytes:
    return record(Fields(delta, 0, b"k", b"v", (), **said))


@pytest.mark.parametrize("walk", [row_walk.rows, rows_in_python])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(_one(1) + _one(1), id="an offset twice"),
        pytest.param(_one(1) + _one(0), id="an offset that goes back"),
        pytest.param(_one(0) + _one(3), id="an offset beyond the last"),
        pytest.param(_one(-1) + _one(0), id="an offset below the base"),
        pytest.param(_one(0) + _one(1, surplus=b"x"), id="bytes behind no headers"),
        pytest.param(_one(0) + _one(1, header_count=1, surplus=b"x"), id="half a header"),
        pytest.param(_one(0) + _one(1) + b"x", id="bytes behind the last record"),
        pytest.param(_one(0), id="a record too few"),
        pytest.param(_one(0) + _one(1, value_length=2), id="a value of another record"),
        pytest.param(_one(0) + _one(1, key_length=-2), id="a negative length"),
    ],
)
def test_a_batch_that_does_not_hold_its_records_is_named(walk: Any, body: bytes) -> None:
    sound = (_one(0) + _one(1), 2, 10, 11, 0, -1)
    assert _found(walk, *_laid([sound, sound]), 0, 99)[:2] == (4, SOUND)
    data, table = _laid([sound, (body, 2, 12, 14, 0, -1)])
    assert _found(walk, data, table, 0, 99)[1] == 1


@compiled
def test_batches_that_fit_alone_and_not_together_are_refused() -> None:
    data, table = _laid([(_one(0), 1, 0, 0, 0, -1), (_one(0), 1, 1, 1, 0, -1)])
    with pytest.raises(ValueError, match="do not fit"):
        row_walk.rows(data, table, 0, 9, *_arrays(1))

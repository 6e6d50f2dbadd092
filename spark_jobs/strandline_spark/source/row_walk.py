"""Walks over the records of many batches, which find positions. Arrow then copies the bytes.

A record has these fields, where all integers are zigzag varints unless noted:

    length, attributes (one byte), timestamp delta, offset delta, key length (-1: null), key,
    value length (-1: null), value, number of headers; for each header key length, key,
    value length (-1: null), value

Positions are 32-bit, like Arrow's binary offsets; the caller keeps the buffer below 2 GiB. The
walks trust no input: every read is bounded by the body's end. If a body does not hold exactly its
records, its batch is reported.

`rows` and `headers` are compiled from `_records.c` if a compiler was present at the installation;
they take about ten nanoseconds a record. Otherwise they are the functions here, which give the same
answers and take three microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from strandline_proto.decompression import Buffer

    Array = np.ndarray[Any, np.dtype[Any]]

SOUND: Final = -1
"""The value in place of the index of a broken batch if there is none."""
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class _Broken(Exception):
    pass


class _Record(NamedTuple):
    end: int
    timestamp_delta: int
    offset_delta: int
    marks: tuple[int, int, int, int]
    nulls: tuple[bool, bool]
    headers: tuple[int, int, int]


def rows_in_python(
    data: Buffer,
    batches: Array,
    start: int,
    stop: int,
    marks: Array,
    nulls: Array,
    offsets: Array,
    timestamps: Array,
    batch_of: Array,
    headers: Array,
) -> tuple[int, int]:
    """Returns the number of records of [start, stop) and SOUND, or the index of the first broken
    batch, and fills in their positions.

    `batches` (int64) has a row for each batch: body start, body end, record count, base offset,
    last offset, base timestamp, and the batch's append time or -1 where records carry their own.
    The other arrays have room for as many rows as the batches have records, n. For row i the walk
    sets

    * `marks[4i:4i+4]` (int32, 4n+1) to key start, key end, value start, value end
    * `nulls[:, i]` (bool, 2 x n) to (key is null, value is null)
    * `offsets[i]` and `timestamps[i]` (int64) to the record's; a timestamp beyond 64 bits to the
      nearest one within
    * `batch_of[i]` (int32) to its batch
    * `headers[:, i]` (int32, 3 x n) to the start and the end of its headers and their number

    Raises ValueError if the arrays do not fit the batches.
    """
    view, row, last_mark = memoryview(data), 0, 0
    for number, batch in enumerate(batches.tolist()):
        at, end, count, base_offset, last_offset, base_timestamp, append_time = batch
        previous = base_offset - 1
        try:
            for _ in range(count):
                found = _record(view, at, end)
                at, offset = found.end, base_offset + found.offset_delta
                _require(previous < offset <= last_offset)
                previous = offset
                if start <= offset < stop:
                    last_mark = found.marks[3]
                    marks[4 * row : 4 * row + 4] = found.marks
                    nulls[:, row] = found.nulls
                    offsets[row] = offset
                    own = min(max(base_timestamp + found.timestamp_delta, _INT64_MIN), _INT64_MAX)
                    timestamps[row] = append_time if append_time >= 0 else own
                    batch_of[row] = number
                    headers[:, row] = found.headers
                    row += 1
            _require(at == end)
        except _Broken:
            return row, number
    marks[4 * row] = last_mark
    return row, SOUND


def _record(view: memoryview, at: int, end: int) -> _Record:
    length, at = _varint(view, at, end)
    _require(0 < length <= end - at)
    record_end = at + length
    timestamp_delta, at = _varint(view, at + 1, record_end)
    offset_delta, at = _varint(view, at, record_end)
    key, key_end, key_is_null, at = _span(view, at, record_end, nullable=True)
    value, value_end, value_is_null, at = _span(view, at, record_end, nullable=True)
    count, at = _varint(view, at, record_end)
    _require(0 <= count * 2 <= record_end - at)
    _require(count > 0 or at == record_end)
    return _Record(
        record_end,
        timestamp_delta,
        offset_delta,
        (key, key_end, value, value_end),
        (key_is_null, value_is_null),
        (at, record_end, count),
    )


def headers_in_python(data: Buffer, places: Array, marks: Array, nulls: Array) -> int:
    """Returns the index of the first broken row, or SOUND, and fills in the positions of all
    headers.

    `places` holds the values that `rows` put into `headers`. Of n headers in all, number h gets
    `marks[4h:4h+4]` (int32, 4n+1): key start, key end, value start, value end. `nulls[h]` (bool) is
    true if its value is null.
    """
    view, header, last_mark = memoryview(data), 0, 0
    for row, (at, end, count) in enumerate(places.T.tolist()):
        try:
            for _ in range(count):
                key, key_end, _, at = _span(view, at, end, nullable=False)
                value, last_mark, is_null, at = _span(view, at, end, nullable=True)
                marks[4 * header : 4 * header + 4] = key, key_end, value, last_mark
                nulls[header] = is_null
                header += 1
            _require(at == end)
        except _Broken:
            return row
    marks[4 * header] = last_mark
    return SOUND


def _require(sound: bool) -> None:
    if not sound:
        raise _Broken


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """Returns (value, next position)."""
    raw = 0
    for shift in range(0, 64, 7):
        _require(at < end)
        byte = view[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= (1 << 64) - 1
            return (raw >> 1) ^ -(raw & 1), at
    raise _Broken


def _span(view: memoryview, at: int, end: int, *, nullable: bool) -> tuple[int, int, bool, int]:
    """Returns (start, end, is null, next position)."""
    length, at = _varint(view, at, end)
    _require((-1 if nullable else 0) <= length <= end - at)
    last = at + max(length, 0)
    return at, last, length < 0, last


_compiled: (
    tuple[Callable[..., tuple[int, int]], Callable[[Buffer, Array, Array, Array], int]] | None
)
try:
    from strandline_proto import _records
except ImportError:
    _compiled = None
else:
    _compiled = _records.rows, _records.headers

IS_COMPILED: Final = _compiled is not None
rows, headers = _compiled or (rows_in_python, headers_in_python)

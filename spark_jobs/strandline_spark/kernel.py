"""Compiled walks over the records of many batches. They find positions; Arrow then copies the
bytes.

A record (all integers zigzag varints unless said): length, attributes (one byte), timestamp delta,
offset delta, key length (-1: null), key, value length (-1: null), value, number of headers, and for
each header key length, key, value length (-1: null), value.

Positions are 32-bit, as Arrow's binary offsets are; the caller keeps the buffer below 2 GiB. The
kernels trust nothing: every read is bounded by the body's end, and a body that does not hold
exactly its records is reported by batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, np.dtype[Any]]

SOUND = -1
"""Returned in place of the index of a broken batch when there is none."""


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled at its first call and kept on disk, so that the next worker process starts at
    once.
    """
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    return compiled


@_compiled
def _varint(buffer: Array, at: int, end: int) -> tuple[int, int]:  # pragma: no cover - compiled
    """(value, next position); the position is -1 if no varint ends before `end`."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(64):
        byte = np.uint64(buffer[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            half = np.int64(value >> np.uint64(1))
            return int(half ^ -np.int64(value & np.uint64(1))), at
        shift += np.uint64(7)
    return 0, -1


@_compiled
def walk_records(  # noqa: C901 - one pass over one format; parts would cost a call for each record
    buffer: Array,
    batches: Array,
    start: int,
    stop: int,
    marks: Array,
    nulls: Array,
    offsets: Array,
    timestamps: Array,
    batch_of: Array,
    headers: Array,
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Positions of the records of [start, stop): (rows, SOUND or the index of the first broken
    batch).

    `batches` has a row for each batch: body start, body end, record count, base offset, last
    offset, base timestamp, and the batch's append time or -1 where records carry their own. For row
    i `marks[4i:4i+4]` is set to key start, key end, value start, value end, `nulls[:, i]` to (key
    is null, value is null), `headers[:, i]` to where its headers start and end and how many there
    are; `kept[b]` counts the rows of batch b.
    """
    row = 0
    last_mark = 0
    for b in range(batches.shape[0]):
        at, end = batches[b, 0], batches[b, 1]
        previous = batches[b, 3] - 1
        for _ in range(batches[b, 2]):
            length, at = _varint(buffer, at, end)
            if at < 0 or length <= 0 or length > end - at:
                return row, b
            record_end = at + length
            ts_delta, at = _varint(buffer, at + 1, record_end)
            if at < 0:
                return row, b
            offset_delta, at = _varint(buffer, at, record_end)
            if at < 0:
                return row, b
            key_length, at = _varint(buffer, at, record_end)
            if at < 0 or key_length < -1 or key_length > record_end - at:
                return row, b
            key_at = at
            at += max(key_length, 0)
            value_length, at = _varint(buffer, at, record_end)
            if at < 0 or value_length < -1 or value_length > record_end - at:
                return row, b
            value_at = at
            at += max(value_length, 0)
            header_count, at = _varint(buffer, at, record_end)
            if at < 0 or header_count < 0 or header_count * 2 > record_end - at:
                return row, b
            if header_count == 0 and at != record_end:
                return row, b
            offset = batches[b, 3] + offset_delta
            if offset <= previous or offset > batches[b, 4]:
                return row, b
            previous = offset
            if start <= offset < stop:
                marks[4 * row] = key_at
                marks[4 * row + 1] = key_at + max(key_length, 0)
                marks[4 * row + 2] = value_at
                last_mark = value_at + max(value_length, 0)
                marks[4 * row + 3] = last_mark
                nulls[0, row] = key_length < 0
                nulls[1, row] = value_length < 0
                offsets[row] = offset
                timestamps[row] = batches[b, 6] if batches[b, 6] >= 0 else batches[b, 5] + ts_delta
                batch_of[row] = b
                headers[0, row] = at
                headers[1, row] = record_end
                headers[2, row] = header_count
                row += 1
            at = record_end
        if at != end:
            return row, b
    marks[4 * row] = last_mark
    return row, SOUND


@_compiled
def walk_headers(
    buffer: Array, headers: Array, marks: Array, nulls: Array
) -> int:  # pragma: no cover - compiled
    """Positions of every header of the rows in `headers`, as in `walk_records`; the first broken
    row, or SOUND.

    Header h of all gets `marks[4h:4h+4]`: key start, key end, value start, value end.
    """
    header = 0
    last_mark = 0
    for row in range(headers.shape[1]):
        at, end = np.int64(headers[0, row]), np.int64(headers[1, row])
        for _ in range(headers[2, row]):
            key_length, at = _varint(buffer, at, end)
            if at < 0 or key_length < 0 or key_length > end - at:
                return row
            marks[4 * header] = at
            at += key_length
            marks[4 * header + 1] = at
            value_length, at = _varint(buffer, at, end)
            if at < 0 or value_length < -1 or value_length > end - at:
                return row
            marks[4 * header + 2] = at
            at += max(value_length, 0)
            last_mark = at
            marks[4 * header + 3] = at
            nulls[header] = value_length < 0
            header += 1
        if at != end:
            return row
    marks[4 * header] = last_mark
    return SOUND

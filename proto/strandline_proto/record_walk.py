"""One pass over the records of an uncompressed batch from an untrusted client: the first fault in
them, or the largest timestamp.

A record is a length and then, of exactly that total length: attributes, the deltas of timestamp and
offset, key, value, headers. Numbers are zigzag varints of 32 bits, the timestamp's of 64. Every
reader can read a batch that passes. Three faults would end a consumer: a number in more bytes than
it needs, an offset delta that skips, and a header's key that is not UTF-8.

`walk` is compiled from `_records.c` if a compiler was there when the package was installed: some
twenty nanoseconds a record. Without one it is `walk_in_python`, which gives the same answers and
takes three microseconds.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proto.decompression import Buffer

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
NO_TIMESTAMP: Final = -1
"""Timestamp of a record whose producer gave none. No limit on times applies to it."""


class Fault(enum.IntEnum):
    """The fault of a record. The last words of each line describe the number beside it in an
    answer.
    """

    SOUND = 0
    NUMBER = 1
    """A number has no end or the wrong size; the byte position in the records."""
    LENGTH = 2
    """The record is longer than the remaining bytes, or its length is negative; the length."""
    OFFSET_DELTA = 3
    """The offset delta is not the record's index; the delta."""
    KEY_LENGTH = 4
    VALUE_LENGTH = 5
    HEADER_COUNT = 6
    """More headers than bytes, or a negative number of them; the count."""
    HEADER_KEY_LENGTH = 7
    HEADER_KEY_TEXT = 8
    """A header's key is not UTF-8; the byte position of the key in the records."""
    HEADER_VALUE_LENGTH = 9
    SURPLUS = 10
    """The record is longer than its fields; the number of bytes."""
    NO_KEY = 11
    TIMESTAMP_DELTA = 12
    """The sum of the delta and the batch's base is no 64-bit number; the delta."""
    TIMESTAMP = 13
    """The timestamp is outside the accepted times; the timestamp."""
    TRAILING = 14
    """Bytes follow the last record; their number."""
    MISSING = 15
    """The bytes end before the record."""
    ATTRIBUTES = 16
    """The attributes are not 0: no attribute is defined, and readers take the byte for a varint;
    the byte.
    """


Answer = tuple[int, int, int, int]
"""(fault, index of its record, the fault's number, largest timestamp before it)."""


class _Refused(Exception):
    def __init__(self, fault: Fault, value: int) -> None:
        super().__init__(fault, value)
        self.fault = fault
        self.value = value


def walk_in_python(
    data: Buffer,
    at: int,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    /,
) -> Answer:
    """Walk `count` records that begin at byte `at` and must fill `data` to its end. Timestamps must
    be from `earliest` to `latest`, both inclusive.
    """
    if not 0 <= at <= len(data):
        raise ValueError(f"byte {at} is not within the batch")
    records = memoryview(data)[at:]
    position, index, max_timestamp = 0, 0, INT64_MIN
    try:
        while index < count:
            position, timestamp_delta, has_key = _record(records, position, index)
            timestamp = base_timestamp + timestamp_delta
            if needs_key and not has_key:
                raise _Refused(Fault.NO_KEY, 0)
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise _Refused(Fault.TIMESTAMP_DELTA, timestamp_delta)
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                raise _Refused(Fault.TIMESTAMP, timestamp)
            max_timestamp = max(max_timestamp, timestamp)
            index += 1
        if position != len(records):
            raise _Refused(Fault.TRAILING, len(records) - position)
    except _Refused as refused:
        return refused.fault, index, refused.value, max_timestamp
    return Fault.SOUND, index, 0, max_timestamp


def _record(records: memoryview, at: int, index: int) -> tuple[int, int, bool]:
    """(end of the record at byte `at`, its timestamp's delta, True if it has a key)."""
    if at == len(records):
        raise _Refused(Fault.MISSING, 0)
    length, at = _number(records, at, len(records), 32)
    if not 0 <= length <= len(records) - at:
        raise _Refused(Fault.LENGTH, length)
    end = at + length
    if length == 0:
        raise _Refused(Fault.NUMBER, at)
    if records[at] >= 0x80:
        raise _Refused(Fault.ATTRIBUTES, records[at])
    at += 1  # attributes, of which none is defined
    timestamp_delta, at = _number(records, at, end, 64)
    offset_delta, at = _number(records, at, end, 32)
    if offset_delta != index:
        raise _Refused(Fault.OFFSET_DELTA, offset_delta)
    key_length, at = _bytes(records, at, end, Fault.KEY_LENGTH)
    _, at = _bytes(records, at, end, Fault.VALUE_LENGTH)
    at = _headers(records, at, end)
    if at != end:
        raise _Refused(Fault.SURPLUS, end - at)
    return end, timestamp_delta, key_length != -1


def _headers(records: memoryview, at: int, end: int) -> int:
    count, at = _number(records, at, end, 32)
    if not 0 <= count <= end - at:
        raise _Refused(Fault.HEADER_COUNT, count)
    for _ in range(count):
        length, at = _bytes(records, at, end, Fault.HEADER_KEY_LENGTH, nullable=False)
        begin = at - length
        try:
            str(records[begin:at], "utf-8")
        except UnicodeDecodeError:
            raise _Refused(Fault.HEADER_KEY_TEXT, begin) from None
        _, at = _bytes(records, at, end, Fault.HEADER_VALUE_LENGTH)
    return at


def _bytes(
    records: memoryview, at: int, end: int, why: Fault, *, nullable: bool = True
) -> tuple[int, int]:
    """A length and the end of its bytes; -1 stands for null if `nullable`."""
    length, at = _number(records, at, end, 32)
    if length == -1 and nullable:
        return length, at
    if not 0 <= length <= end - at:
        raise _Refused(why, length)
    return length, at + length


def _number(records: memoryview, begin: int, end: int, bits: int) -> tuple[int, int]:
    raw, at, shift = 0, begin, 0
    while shift < bits and at < end:
        byte = records[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                break
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    raise _Refused(Fault.NUMBER, begin)


_compiled: Callable[[Buffer, int, int, int, int, int, bool], Answer] | None
try:
    from strandline_proto._records import walk as _compiled
except ImportError:
    _compiled = None

IS_COMPILED: Final = _compiled is not None
walk: Final = _compiled or walk_in_python

"""Decoding of the hot messages from bytes, with records as views of these bytes.

This reads only messages in the form that our own processes write. Other input (an unknown field, a
repeated one, bytes that are no message) is passed to protobuf, whose result counts. The outcome is
therefore always that of protobuf alone.

A view keeps the whole message alive. Records are therefore a view only if they are more than half
of the message, and copied otherwise. A holder of records thus keeps at most twice the memory that
it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline_proto import hot_messages as hot
from strandline_proto import hot_protobuf
from strandline_proto.v1 import fetch_pb2, produce_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strandline_proto.decompression import Buffer

Span = tuple[int, int]
Table = dict[int, tuple[int, int]]
Message = TypeVar("Message")

_LONG, _INT, _SPAN, _SPANS = range(4)
"""Kinds of fields: int64 (and bool), int32, bytes that occur once at most, and repeated ones."""
_MINUS_ONE: Final = b"\xff" * 9 + b"\x01"
_PARTITIONS: Final = 8
_BYTES_OF_EACH: Final = 16 << 10
"""Bytes that each partition beyond `_PARTITIONS` needs on average: protobuf is faster with small
ones.
"""


class _Unexpected(Exception):
    """The input must go to protobuf."""


def _table(*kinds: tuple[int, int]) -> Table:
    """Slot and kind of a field by its tag, of (number, kind) in the order of the slots."""
    return {
        number << 3 | (2 if kind >= _SPAN else 0): (slot, kind)
        for slot, (number, kind) in enumerate(kinds)
    }


def _scan(data: bytes, at: int, end: int, table: Table, slots: list[Any]) -> None:
    """Fill the slots with the fields between `at` and `end`, which is the message's end."""
    while at < end:
        slot, kind = table[data[at]]
        number = data[at + 1]
        at += 2
        if number > 127:
            number, at = _number(data, at - 1)
        if kind == _LONG:
            slots[slot] = number
        elif kind == _INT:
            if not -0x80000000 <= number <= 0x7FFFFFFF:
                raise _Unexpected
            slots[slot] = number
        else:
            span = at, at + number
            at += number
            if number < 0:
                raise _Unexpected
            if kind == _SPANS:
                slots[slot].append(span)
            elif slots[slot] is None:
                slots[slot] = span
            else:
                raise _Unexpected
    if at != end:
        raise _Unexpected


def _number(data: bytes, at: int) -> Span:
    """A number of more than one byte, and its end."""
    high = data[at + 1]
    if 0 < high < 128:
        return data[at] & 127 | high << 7, at + 2
    if high == 255 and data[at : at + 10] == _MINUS_ONE:
        return -1, at + 10
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise _Unexpected
    if byte == 0 or number >= 1 << 64:
        raise _Unexpected  # protobuf may refuse a length in more bytes than it needs
    return number - (1 << 64) if number >= 1 << 63 else number, at


def _bytes(data: bytes, span: Span | None) -> bytes:
    return b"" if span is None else data[span[0] : span[1]]


def _text(data: bytes, span: Span | None) -> str:
    return "" if span is None else data[span[0] : span[1]].decode()


def _records(data: bytes, span: Span | None) -> Buffer:
    if span is None:
        return b""
    start, end = span
    return memoryview(data)[start:end] if 2 * (end - start) >= len(data) else data[start:end]


def _pair(data: bytes, span: Span | None, table: Table) -> list[int] | None:
    """A message of two numbers."""
    if span is None:
        return None
    slots = [0, 0]
    _scan(data, *span, table, slots)
    return slots


_TOPIC: Final = _table((1, _SPAN), (2, _SPANS))


def _partitions(
    data: bytes, topics: list[Span], table: Table, defaults: Callable[[], list[Any]]
) -> Iterator[tuple[bytes, list[Any]]]:
    """The topic's id and the fields of each partition."""
    left = _PARTITIONS + len(data) // _BYTES_OF_EACH
    for start, end in topics:
        topic: list[Any] = [None, []]
        _scan(data, start, end, _TOPIC, topic)
        topic_id = _bytes(data, topic[0])
        left -= len(topic[1])
        if left < 0:
            raise _Unexpected
        for at, stop in topic[1]:
            slots = defaults()
            _scan(data, at, stop, table, slots)
            yield topic_id, slots


def _or_protobuf(
    fast: Callable[[bytes], Message], parse: Callable[[bytes], Any], of: Callable[[Any], Message]
) -> Callable[[bytes], Message]:
    def decode(data: bytes) -> Message:
        try:
            return fast(data)
        except (KeyError, IndexError, UnicodeDecodeError, _Unexpected):
            return of(parse(data))

    return decode


_LEADER: Final = _table((1, _INT), (2, _INT))
_NODE: Final = _table((1, _INT), (2, _SPAN), (3, _INT), (4, _SPAN))


def _leader(data: bytes, span: Span | None) -> hot.CurrentLeader | None:
    pair = _pair(data, span, _LEADER)
    return None if pair is None else hot.CurrentLeader(*pair)


def _nodes(data: bytes, spans: list[Span]) -> list[hot.NodeEndpoint]:
    nodes = []
    for start, end in spans:
        slots: list[Any] = [0, None, 0, None]
        _scan(data, start, end, _NODE, slots)
        node_id, host, port, rack = slots
        nodes.append(hot.NodeEndpoint(node_id, _text(data, host), port, _text(data, rack)))
    return nodes


_ABORTED: Final = _table((1, _LONG), (2, _LONG))


def _aborted(data: bytes, spans: list[Span]) -> tuple[hot.AbortedTransaction, ...]:
    return tuple(
        hot.AbortedTransaction(*pair)
        for span in spans
        if (pair := _pair(data, span, _ABORTED)) is not None
    )


# Produce

_PRODUCE: Final = _table((1, _LONG), (2, _INT), (3, _INT), (4, _SPAN), (5, _SPANS))
_PRODUCE_DATA: Final = _table((1, _INT), (2, _SPAN), (3, _INT))
_NO_DATA: Final = [0, None, None].copy
"""New slots for each call, as `_NO_RESULT` and `_NO_POSITION` have."""


def _produce_request(data: bytes) -> hot.ProduceRequest:
    slots: list[Any] = [0, 0, 0, None, []]
    _scan(data, 0, len(data), _PRODUCE, slots)
    correlation_id, acks, timeout_ms, transactional_id, topics = slots
    partitions = [
        hot.ProduceData(topic_id, index, _records(data, records), epoch)
        for topic_id, (index, records, epoch) in _partitions(data, topics, _PRODUCE_DATA, _NO_DATA)
    ]
    name = None if transactional_id is None else _text(data, transactional_id)
    return hot.ProduceRequest(correlation_id, acks, timeout_ms, partitions, name)


produce_request = _or_protobuf(
    _produce_request, produce_pb2.ProduceRequest.FromString, hot_protobuf.produce_request
)

_PRODUCED: Final = _table((1, _LONG), (2, _SPANS), (3, _SPANS))
_PRODUCE_RESULT: Final = _table(
    (1, _INT), (2, _INT), (3, _LONG), (4, _LONG), (5, _LONG), (7, _SPAN), (8, _SPAN), (9, _LONG),
    (10, _INT),
)  # fmt: skip
_NO_RESULT: Final = [0, 0, 0, 0, 0, None, None, 0, 0].copy


def _produce_response(data: bytes) -> hot.ProduceResponse:
    slots: list[Any] = [0, [], []]
    _scan(data, 0, len(data), _PRODUCED, slots)
    correlation_id, topics, nodes = slots
    results = []
    for topic_id, fields in _partitions(data, topics, _PRODUCE_RESULT, _NO_RESULT):
        index, code, base_offset, append_time, log_start, why, leader, appended, epoch = fields
        results.append(
            hot.ProduceResult(
                topic_id,
                index,
                code,
                base_offset,
                append_time,
                log_start,
                (),
                _text(data, why),
                _leader(data, leader),
                appended != 0,
                epoch,
            )
        )
    return hot.ProduceResponse(correlation_id, results, _nodes(data, nodes))


produce_response = _or_protobuf(
    _produce_response, produce_pb2.ProduceResponse.FromString, hot_protobuf.produce_response
)

# Fetch

_FETCH: Final = _table(
    (1, _LONG), (2, _SPAN), (3, _SPAN), (4, _INT), (5, _INT), (6, _INT), (7, _INT), (8, _INT),
    (9, _INT), (10, _SPANS),
)  # fmt: skip
_REPLICA: Final = _table((1, _INT), (2, _LONG))
_POSITION: Final = _table((1, _INT), (2, _INT), (3, _LONG), (4, _INT), (5, _LONG), (6, _INT))
_NO_POSITION: Final = ([0] * 6).copy


def _fetch_request(data: bytes) -> hot.FetchRequest:
    slots: list[Any] = [0, None, None, 0, 0, 0, 0, 0, 0, []]
    _scan(data, 0, len(data), _FETCH, slots)
    correlation_id, cluster_id, replica, wait, least, most, isolation, session, epoch, topics = (
        slots
    )
    state = _pair(data, replica, _REPLICA)
    return hot.FetchRequest(
        correlation_id,
        _text(data, cluster_id),
        None if state is None else hot.ReplicaState(*state),
        wait,
        least,
        most,
        isolation,
        session,
        epoch,
        [
            hot.FetchPartition(topic_id, *fields)
            for topic_id, fields in _partitions(data, topics, _POSITION, _NO_POSITION)
        ],
    )


fetch_request = _or_protobuf(
    _fetch_request, fetch_pb2.FetchRequest.FromString, hot_protobuf.fetch_request
)

_FETCHED: Final = _table((1, _LONG), (2, _INT), (3, _INT), (4, _SPANS), (5, _SPANS), (7, _SPAN))
_FETCH_RESULT: Final = _table(
    (1, _INT), (2, _INT), (3, _LONG), (4, _LONG), (5, _LONG), (6, _SPAN), (7, _SPAN), (9, _INT),
    (10, _SPAN), (11, _SPAN), (8, _SPANS),
)  # fmt: skip
_EPOCH_END: Final = _table((1, _INT), (2, _LONG))


def _fetch_response(data: bytes) -> hot.FetchResponse:
    slots: list[Any] = [0, 0, 0, [], [], None]
    _scan(data, 0, len(data), _FETCHED, slots)
    correlation_id, code, session_id, topics, nodes, why = slots
    results = [
        _fetch_result(data, topic_id, *fields)
        for topic_id, fields in _partitions(
            data,
            topics,
            _FETCH_RESULT,
            lambda: [0, 0, 0, 0, 0, None, None, 0, None, None, []],
        )
    ]
    nodes = _nodes(data, nodes)
    return hot.FetchResponse(correlation_id, code, session_id, results, nodes, _text(data, why))


def _fetch_result(
    data: bytes,
    topic_id: bytes,
    index: int,
    code: int,
    high_watermark: int,
    stable: int,
    log_start: int,
    diverging: Span | None,
    leader: Span | None,
    preferred: int,
    records: Span | None,
    why: Span | None,
    aborted: list[Span],
) -> hot.FetchResult:
    epoch_end = _pair(data, diverging, _EPOCH_END)
    return hot.FetchResult(
        topic_id,
        index,
        code,
        high_watermark,
        stable,
        log_start,
        None if epoch_end is None else hot.EpochEndOffset(*epoch_end),
        _leader(data, leader),
        preferred,
        _records(data, records),
        _text(data, why),
        _aborted(data, aborted) if aborted else (),
    )


fetch_response = _or_protobuf(
    _fetch_response, fetch_pb2.FetchResponse.FromString, hot_protobuf.fetch_response
)

# FetchRange

_RANGE: Final = _table(
    (1, _SPAN), (2, _INT), (3, _INT), (4, _LONG), (5, _LONG), (6, _INT), (7, _INT)
)


def _fetch_range_request(data: bytes) -> hot.FetchRangeRequest:
    slots: list[Any] = [None, 0, 0, 0, 0, 0, 0]
    _scan(data, 0, len(data), _RANGE, slots)
    return hot.FetchRangeRequest(_bytes(data, slots[0]), *slots[1:])


fetch_range_request = _or_protobuf(
    _fetch_range_request, fetch_pb2.FetchRangeRequest.FromString, hot_protobuf.fetch_range_request
)

_RANGED: Final = _table(
    (1, _INT), (2, _SPAN), (3, _LONG), (4, _LONG), (5, _INT), (7, _SPAN), (8, _LONG), (9, _LONG),
    (10, _SPAN), (11, _LONG), (6, _SPANS),
)  # fmt: skip


def _fetch_range_response(data: bytes) -> hot.FetchRangeResponse:
    slots: list[Any] = [0, None, 0, 0, 0, None, 0, 0, None, 0, []]
    _scan(data, 0, len(data), _RANGED, slots)
    code, why, base, following, epoch, records, start, watermark, leader, stable, aborted = slots
    return hot.FetchRangeResponse(
        code,
        _text(data, why),
        base,
        following,
        epoch,
        _records(data, records),
        start,
        watermark,
        _leader(data, leader),
        stable,
        _aborted(data, aborted) if aborted else (),
    )


fetch_range_response = _or_protobuf(
    _fetch_range_response,
    fetch_pb2.FetchRangeResponse.FromString,
    hot_protobuf.fetch_range_response,
)

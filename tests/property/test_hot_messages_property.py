"""The hot messages are protobuf's to the byte, and any bytes read as protobuf reads them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from strandline_proto import hot_messages as hot
from support.hot_wire import KINDS

int32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 300)
int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 300)
text = st.text(max_size=8)
records = st.binary(max_size=20) | st.integers(100, 400).map(bytes)
topic_ids = st.sampled_from([b"t" * 16, b"u" * 16, b"", b"odd"])
leaders = st.none() | st.builds(hot.CurrentLeader, int32, int32)
nodes = st.lists(st.builds(hot.NodeEndpoint, int32, text, int32, text), max_size=2)
errors = st.just(()) | st.lists(st.builds(hot.RecordError, int32, text), max_size=2).map(tuple)
aborted = st.just(()) | st.lists(st.builds(hot.AbortedTransaction, int64, int64), max_size=3).map(
    tuple
)
MESSAGES: dict[str, st.SearchStrategy[Any]] = {
    "produce_request": st.builds(
        hot.ProduceRequest,
        int64,
        int32,
        int32,
        st.lists(
            st.builds(hot.ProduceData, topic_ids, int32, records, st.none() | int32), max_size=11
        ),
        st.none() | text,
    ),
    "produce_response": st.builds(
        hot.ProduceResponse,
        int64,
        st.lists(
            st.builds(
                hot.ProduceResult,
                topic_ids,
                int32,
                int32,
                int64,
                int64,
                int64,
                errors,
                text,
                leaders,
                st.booleans(),
                int32,
            ),
            max_size=4,
        ),
        nodes,
    ),
    "fetch_request": st.builds(
        hot.FetchRequest,
        int64,
        text,
        st.none() | st.builds(hot.ReplicaState, int32, int64),
        int32,
        int32,
        int32,
        int32,
        int32,
        int32,
        st.lists(
            st.builds(hot.FetchPartition, topic_ids, int32, int32, int64, int32, int64, int32),
            max_size=11,
        ),
        st.just(())
        | st.lists(st.tuples(topic_ids, int32), max_size=3).map(
            lambda keys: tuple(sorted(keys, key=lambda key: key[0]))
        ),
    ),
    "fetch_response": st.builds(
        hot.FetchResponse,
        int64,
        int32,
        int32,
        st.lists(
            st.builds(
                hot.FetchResult,
                topic_ids,
                int32,
                int32,
                int64,
                int64,
                int64,
                st.none() | st.builds(hot.EpochEndOffset, int32, int64),
                leaders,
                int32,
                records,
                text,
                aborted,
            ),
            max_size=11,
        ),
        nodes,
        text,
    ),
    "fetch_range_request": st.builds(
        hot.FetchRangeRequest, topic_ids, int32, int32, int64, int64, int32, int32
    ),
    "fetch_range_response": st.builds(
        hot.FetchRangeResponse,
        int32,
        text,
        int64,
        int64,
        int32,
        records,
        int64,
        int64,
        leaders,
        int64,
        aborted,
    ),
}
some = st.one_of([st.tuples(st.just(name), MESSAGES[name]) for name in MESSAGES])


@given(some)
def test_a_message_has_the_bytes_that_protobuf_gives_it_and_comes_back(
    made: tuple[str, Any],
) -> None:
    name, message = made
    kind = KINDS[name]
    data = kind.encode(message)
    assert data == kind.to_protobuf(message).SerializeToString()
    assert kind.decode(data) == message
    assert kind.decode_by_protobuf(data) == message


def outcome(decode: Any, data: bytes) -> Any:
    try:
        return decode(data)
    except DecodeError:
        return DecodeError


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A message of which some bytes are others, are gone, are there again, or are too many."""
    name, message = draw(some)
    data = bytearray(KINDS[name].encode(message))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        until = draw(st.integers(at, min(len(data), at + 12)))
        data[at:until] = draw(
            st.binary(max_size=4)
            | st.sampled_from([b"", bytes(data[at:until]) * 2, b"\xff" * 9 + b"\x01", b"\x80\x00"])
        )
    return name, bytes(data)


@given(damaged())
@example(("produce_request", b"\x08" + b"\x80" * 9 + b"\x03"))
@example(("produce_request", b"\x08" + b"\x80" * 9 + b"\x01"))
@example(("produce_request", b"\x08" + b"\x80" * 10 + b"\x00"))
@example(("produce_request", b"\x10\xff\xff\xff\xff\xf7\xff\xff\xff\xff\x01"))
@example(("produce_request", b"\x2a\x04\x12\x02\x08\x81\x08\x01"))
@example(("produce_request", b"\x2a\x04\x12\x05\x08\x01\x08\x01\x08"))
@example(("produce_request", b"\x2a\xf5" + b"\xff" * 8 + b"\x01"))
@example(("produce_response", b"\x12\x04\x12\x02\x48\x02"))
@example(("produce_request", b"\x2a\x00\x2a\x02\x12\x00"))
@example(("produce_request", b"\x22\x01\xff"))
@example(("fetch_request", b"\x1a\x02\x08\x01\x1a\x02\x10\x01"))
@example(("fetch_request", b"\x5a\x04\x10\x01\x10\x02"))
@example(("fetch_response", b"\x10\xff\xff\xff\xff\x7f"))
@example(("fetch_range_response", b"\x10\x01\x3a\x01a"))
def test_any_bytes_read_as_protobuf_reads_them(made: tuple[str, bytes]) -> None:
    name, data = made
    kind = KINDS[name]
    assert outcome(kind.decode, data) == outcome(kind.decode_by_protobuf, data)


@given(some, st.data())
def test_two_messages_in_a_row_are_merged_as_protobuf_merges(
    made: tuple[str, Any], data: st.DataObject
) -> None:
    name, message = made
    both = KINDS[name].encode(message) + KINDS[name].encode(data.draw(MESSAGES[name]))
    assert KINDS[name].decode(both) == KINDS[name].decode_by_protobuf(both)


@given(some, st.integers(16, 2**20), st.binary(max_size=8))
def test_a_field_of_a_later_version_is_passed_over(
    made: tuple[str, Any], number: int, value: bytes
) -> None:
    name, message = made
    tag, encoded = number << 3 | 2, bytearray()
    while tag > 127:
        encoded.append(tag & 127 | 128)
        tag >>= 7
    encoded += bytes((tag, len(value))) + value
    assert KINDS[name].decode(KINDS[name].encode(message) + bytes(encoded)) == message


@pytest.mark.parametrize("name", ["produce_request", "fetch_response", "fetch_range_response"])
@pytest.mark.parametrize(("size", "is_view"), [(10_000, True), (30, False)])
def test_records_are_a_view_where_they_are_the_better_half(
    name: str, size: int, is_view: bool
) -> None:
    """A view keeps all that came with it."""
    value = bytes(range(256)) * (size // 256) + b"." * (size % 256)
    other = b"o" * 100
    message: Any
    if name == "produce_request":
        parts = [hot.ProduceData(b"t" * 16, 0, value), hot.ProduceData(b"u" * 16, 0, other)]
        message = hot.ProduceRequest(1, -1, 5, parts)
    elif name == "fetch_response":
        results = [hot.FetchResult(b"t" * 16, 0, records=value)]
        results.append(hot.FetchResult(b"t" * 16, 1, records=other))
        message = hot.FetchResponse(1, partitions=results, node_endpoints=[])
    else:
        message = hot.FetchRangeResponse(0, "o" * 100, records=value)
    came = KINDS[name].decode(KINDS[name].encode(message))
    assert came == message
    taken = came.records if name == "fetch_range_response" else came.partitions[0].records
    assert isinstance(taken, memoryview) == is_view


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63, -(2**63) - 1])
def test_a_number_that_does_not_fit_is_refused_as_protobuf_refuses_it(number: int) -> None:
    kind = KINDS["produce_request"]
    message = hot.ProduceRequest(acks=number)
    with pytest.raises(ValueError, match="int32"):
        kind.encode(message)
    with pytest.raises(ValueError, match="out of range"):
        kind.to_protobuf(message)


def test_a_long_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="int64"):
        KINDS["produce_request"].encode(hot.ProduceRequest(correlation_id=2**63))

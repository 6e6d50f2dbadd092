"""What a Fetch stream carries arrives as it was sent."""

import asyncio
from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from strandline_broker.core.metadata_cache import CurrentLeader
from strandline_broker.hosts.common.fetch_messages import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    Offsets,
    Position,
    Replica,
)
from strandline_broker.rpc.records.fetch_codec import (
    large_request_from_wire,
    request_from_wire,
    request_to_wire,
    response_from_wire,
    response_to_wire,
)
from strandline_proto import hot_decode, hot_encode
from strandline_proto.errors import ERRORS, NONE
from strandline_proto.v1 import fetch_pb2

int32 = st.integers(-1, 2**31 - 1)
int64 = st.integers(-1, 2**63 - 1)
keys = st.tuples(st.sampled_from([b"t" * 16, b"u" * 16, b"v" * 16]), st.integers(0, 5))
errors = st.builds(
    lambda code, message: ERRORS[code](message),
    st.sampled_from([code for code in ERRORS if code != NONE]),
    st.text(min_size=1, max_size=20),
)
requests = st.builds(
    FetchRequest,
    correlation_id=int64,
    session_id=int32,
    session_epoch=int32,
    max_wait_ms=int32,
    min_bytes=int32,
    max_bytes=int32,
    cluster_id=st.text(max_size=20),
    isolation_level=int32,
    replica=st.none() | st.builds(Replica, st.integers(0, 2**31 - 1), int64),
    positions=st.dictionaries(keys, st.builds(Position, int32, int64, int32, int64, int32)),
    forgotten=st.lists(keys, unique=True),
)
of_a_replica = st.builds(
    FetchedPartition,
    offsets=st.builds(Offsets, int64, int64, int64),
    records=st.binary(max_size=64),
    diverging=st.none() | st.tuples(int32, int64),
    error=st.none() | errors,
    leader=st.none() | st.builds(CurrentLeader, int32, int32),
)
of_nobody = st.builds(FetchedPartition, error=errors, holds_replica=st.just(False))
responses = st.builds(
    FetchResponse,
    correlation_id=int64,
    session_id=int32,
    error=st.none() | errors,
    partitions=st.dictionaries(keys, of_a_replica | of_nobody),
)


@given(requests)
def test_a_request_arrives_as_it_was_sent(request: FetchRequest) -> None:
    wire = hot_encode.fetch_request(request_to_wire(request))
    came = request_from_wire(hot_decode.fetch_request(wire))
    # The wire groups by topic, and keeps the order within one.
    assert sorted(came.forgotten) == sorted(request.forgotten)
    came.forgotten = request.forgotten
    assert came == request


@given(requests)
def test_a_large_request_is_read_in_turns_as_a_small_one_is_at_once(request: FetchRequest) -> None:
    wire = hot_encode.fetch_request(request_to_wire(request))
    came = asyncio.run(large_request_from_wire(fetch_pb2.FetchRequest.FromString(wire)))
    came.forgotten, expected = (
        list(came.forgotten),
        request_from_wire(hot_decode.fetch_request(wire)),
    )
    expected.forgotten = list(expected.forgotten)
    assert came == expected


@given(responses)
def test_an_answer_arrives_as_it_was_sent(response: FetchResponse) -> None:
    sent = told(response)
    wire = hot_encode.fetch_response(response_to_wire(response))
    assert not any(fetched.records for fetched in response.partitions.values())
    came = response_from_wire(hot_decode.fetch_response(wire))
    assert told(came) == sent


def told(response: FetchResponse) -> object:
    """As values that compare: two errors are equal by type and words."""
    partitions = {
        key: (*astuple(fetched)[:3], repr(fetched.error), fetched.leader, fetched.holds_replica)
        for key, fetched in response.partitions.items()
    }
    return response.correlation_id, response.session_id, repr(response.error), partitions

"""FetchRange to a leader: in plain frames if it serves them, otherwise over gRPC (ADR 49)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_proto import hot_calls
from strandline_spark.cluster import range_streams
from strandline_spark.cluster.cluster import channel_to
from strandline_spark.cluster.range_streams import RangesNotServed

if TYPE_CHECKING:
    from collections.abc import Generator

    from strandline_proto.hot_messages import FetchRangeRequest, FetchRangeResponse
    from strandline_spark.cluster.cluster import Leader

STREAM_SECONDS: Final = 60.0
"""Deadline of one stream over gRPC. A stream that delivered something is renewed; any other is an
error to retry.
"""


def messages_of(
    leader: Leader, request: FetchRangeRequest
) -> Generator[FetchRangeResponse, None, None]:
    """Yields the messages of a range. The records of one are valid until the next one.

    Raises RangeBroken or grpc.RpcError if the connection ends before the range does.
    """
    if leader.range_address:
        try:
            yield from range_streams.messages(leader.range_address, request)
        except RangesNotServed:
            pass
        else:
            return
    call = hot_calls.fetch_range(channel_to(leader.address))(request, timeout=STREAM_SECONDS)
    try:
        yield from call
    finally:
        call.cancel()

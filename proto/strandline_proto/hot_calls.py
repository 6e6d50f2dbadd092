"""The hot calls of a broker over gRPC, with their own encoding and decoding.

Requests and answers of all other calls use protobuf. The wire format is the same: a peer with
generated code for Produce, Fetch or FetchRange can be client or server. A server sends answers that
it has encoded itself, so that no data is held twice while it is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proto import hot_decode, hot_encode

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE: Final = "strandline_proto.v1.BrokerService"


def produce(channel: Any) -> Any:
    """The Produce stream of a channel: sends hot.ProduceRequest, receives hot.ProduceResponse."""
    return channel.stream_stream(
        f"/{SERVICE}/Produce",
        request_serializer=hot_encode.produce_request,
        response_deserializer=hot_decode.produce_response,
        _registered_method=True,
    )


def fetch(channel: Any) -> Any:
    """The Fetch stream: sends hot.FetchRequest, receives hot.FetchResponse."""
    return channel.stream_stream(
        f"/{SERVICE}/Fetch",
        request_serializer=hot_encode.fetch_request,
        response_deserializer=hot_decode.fetch_response,
        _registered_method=True,
    )


def fetch_range(channel: Any) -> Any:
    """The FetchRange call: sends hot.FetchRangeRequest, receives hot.FetchRangeResponse."""
    return channel.unary_stream(
        f"/{SERVICE}/FetchRange",
        request_serializer=hot_encode.fetch_range_request,
        response_deserializer=hot_decode.fetch_range_response,
        _registered_method=True,
    )


def handlers(
    service: Any, fetch_request: Callable[[bytes], Any] = hot_decode.fetch_request
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """Handlers of a service whose methods take the hot requests and answer with bytes; Fetch takes
    the results of `fetch_request`.
    """
    return {
        "Produce": grpc.stream_stream_rpc_method_handler(
            service.Produce, request_deserializer=hot_decode.produce_request
        ),
        "Fetch": grpc.stream_stream_rpc_method_handler(
            service.Fetch, request_deserializer=fetch_request
        ),
        "FetchRange": grpc.unary_stream_rpc_method_handler(
            service.FetchRange, request_deserializer=hot_decode.fetch_range_request
        ),
    }

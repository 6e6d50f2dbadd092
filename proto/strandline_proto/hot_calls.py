"""The hot calls of a broker over gRPC: how their messages become bytes, and bytes messages.

Requests and answers of everything else are protobuf's. On the wire there is no difference: a peer
whose generated code asks for Produce, Fetch or FetchRange is served, and serves, alike. A server
writes answers that it has encoded itself, so that nothing is held twice while they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc

from strandline_proto import hot_decode, hot_encode

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE: Final = "strandline_proto.v1.BrokerService"


def produce(channel: Any) -> Any:
    """The Produce stream of a channel: hot.ProduceRequest there, hot.ProduceResponse back."""
    return channel.stream_stream(
        f"/{SERVICE}/Produce",
        request_serializer=hot_encode.produce_request,
        response_deserializer=hot_decode.produce_response,
        _registered_method=True,
    )


def fetch(channel: Any) -> Any:
    """The Fetch stream: hot.FetchRequest, hot.FetchResponse."""
    return channel.stream_stream(
        f"/{SERVICE}/Fetch",
        request_serializer=hot_encode.fetch_request,
        response_deserializer=hot_decode.fetch_response,
        _registered_method=True,
    )


def fetch_range(channel: Any) -> Any:
    """FetchRange: hot.FetchRangeRequest, hot.FetchRangeResponse."""
    return channel.unary_stream(
        f"/{SERVICE}/FetchRange",
        request_serializer=hot_encode.fetch_range_request,
        response_deserializer=hot_decode.fetch_range_response,
        _registered_method=True,
    )


def handlers(
    service: Any, fetch_request: Callable[[bytes], Any] = hot_decode.fetch_request
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """Of a service whose methods take the hot requests and answer with bytes; Fetch takes what
    `fetch_request` makes of them.
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

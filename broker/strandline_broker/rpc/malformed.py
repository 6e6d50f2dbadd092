"""Requests whose bytes do not parse: the peer's mistake, not the server's.

gRPC parses a request before its handler runs, and treats a parse failure as the server's: a
traceback at level error and status UNKNOWN. So parsing never fails a unary call here. Its handler
gets a `MalformedRequest` instead. The handler of a stream gets the exception where it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import grpc


class MalformedRequest(Exception):
    """A stand-in for a unary request that does not parse; a stream of requests raises it."""


def tolerant(
    handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]],
) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """The same handlers, for a `Service` that answers malformed requests itself."""
    return {name: _tolerant(handler) for name, handler in handlers.items()}


def _tolerant(handler: Any) -> Any:  # a named tuple, which its types do not say
    parse: Callable[[bytes], Any] = handler.request_deserializer
    is_stream = handler.request_streaming

    def parsed(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError as error:
            malformed = MalformedRequest(f"its {len(data)} bytes are no such request ({error})")
        except MalformedRequest as error:
            malformed = error
        if is_stream:
            raise malformed
        return malformed

    return handler._replace(request_deserializer=parsed)

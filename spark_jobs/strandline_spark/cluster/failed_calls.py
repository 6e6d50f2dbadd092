"""What is said of a call that failed, and whether asking again may cure it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from strandline_proto.errors import OffsetNotAvailable, UnknownTopicId, WireError, from_code

if TYPE_CHECKING:
    from strandline_spark.source.offsets import TopicPartition


def retriable_text(tp: TopicPartition, code: int) -> str:
    """Why to ask again. Raises what asking again cannot cure."""
    error: WireError = from_code(code)
    if not error.retriable and not isinstance(error, OffsetNotAvailable | UnknownTopicId):
        raise error
    return f"{type(error).__name__}: {error} ({tp})"


def transport_text(error: grpc.RpcError) -> str:
    """A transport failure in a few words."""
    code = error.code() if isinstance(error, grpc.Call) else None
    return code.name if code is not None else "no connection"

"""The text for a failed call, and the decision to retry it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from strandline_proto.errors import OffsetNotAvailable, UnknownTopicId, WireError, from_code

if TYPE_CHECKING:
    from strandline_spark.cluster.offsets import TopicPartition


def retriable_text(tp: TopicPartition, code: int) -> str:
    """Returns the reason to retry. Raises errors that a retry cannot cure."""
    error: WireError = from_code(code)
    if not error.retriable and not isinstance(error, OffsetNotAvailable | UnknownTopicId):
        raise error
    return f"{type(error).__name__}: {error} ({tp})"


def transport_text(error: grpc.RpcError) -> str:
    """Describes a transport failure in a few words."""
    code = error.code() if isinstance(error, grpc.Call) else None
    return code.name if code is not None else "no connection"

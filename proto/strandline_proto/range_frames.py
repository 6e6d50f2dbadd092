"""Ranges in plain frames: FetchRange on a TCP connection, without gRPC (ADR 49).

A client sends `MAGIC`, and then one request after the other. Lengths are unsigned, big endian, and
have four bytes.

    request   length, FetchRangeRequest
    message   length of the head, length of the records, FetchRangeResponse without records, records

Each request gets at least one message. The last one reaches the end of the range, or has an error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from strandline_proto import hot_decode, hot_encode

if TYPE_CHECKING:
    from strandline_proto.decompression import Buffer
    from strandline_proto.hot_messages import FetchRangeRequest, FetchRangeResponse

MAGIC: Final = b"RNG1"
"""The first bytes of a connection. As the length of a Kafka request they are too large."""
LENGTH: Final = struct.Struct(">I")
LENGTHS: Final = struct.Struct(">II")
REQUEST_BYTES_MAX: Final = 4 << 10
HEAD_BYTES_MAX: Final = 64 << 20
RECORDS_BYTES_MAX: Final = (1 << 31) - 1


def request_frame(request: FetchRangeRequest) -> bytes:
    data = hot_encode.fetch_range_request(request)
    return LENGTH.pack(len(data)) + data


def parse_request(data: bytes) -> FetchRangeRequest:
    """Raises protobuf's DecodeError for bytes that are no request."""
    return hot_decode.fetch_range_request(data)


def message_head(message: FetchRangeResponse) -> bytes:
    """All of a message's frame before its records."""
    head = hot_encode.fetch_range_response(message._replace(records=b""))
    return LENGTHS.pack(len(head), len(message.records)) + head


def parse_message(head: bytes, records: Buffer) -> FetchRangeResponse:
    """Raises protobuf's DecodeError for a head that is none."""
    return hot_decode.fetch_range_response(head)._replace(records=records)


def is_last(message: FetchRangeResponse, request: FetchRangeRequest) -> bool:
    """True for the last message of a range."""
    return message.error_code != 0 or message.next_offset >= request.stop_offset

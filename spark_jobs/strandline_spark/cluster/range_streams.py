"""Connections that read ranges in plain frames, beside the gRPC channels (ADR 49).

A connection belongs to a process, because Spark forks its workers. One that has delivered its range
waits for the next one. A message's records are in a buffer that the next message overwrites.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from strandline_proto.range_frames import (
    HEAD_BYTES_MAX,
    LENGTHS,
    MAGIC,
    RECORDS_BYTES_MAX,
    is_last,
    parse_message,
    request_frame,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_proto.decompression import Buffer
    from strandline_proto.hot_messages import FetchRangeRequest, FetchRangeResponse

CONNECT_SECONDS: Final = 2.0
"""Time for a connection; past it the range comes by gRPC."""
SILENT_SECONDS: Final = 15.0
"""Longest wait for the next bytes of a message: the time in which gRPC's keepalive finds a broker
that does not answer.
"""
MESSAGE_SECONDS: Final = 60.0
"""Longest time for one whole message, however its bytes trickle in."""
AVOIDED_SECONDS: Final = 60.0
"""Time for which an address that serves no ranges is not tried again."""
KEPT_BYTES_MAX: Final = 4 << 20
"""Size of the largest buffer that a connection keeps for its next message."""

_idle: dict[tuple[int, str], RangeStream] = {}
_avoided: dict[str, float] = {}


class RangesNotServed(Exception):
    """The address does not serve ranges, or not to this machine: the range comes by gRPC."""


class RangeBroken(Exception):
    """The connection ended in the middle of a range."""


def messages(address: str, request: FetchRangeRequest) -> Iterator[FetchRangeResponse]:
    """Yields the messages of a range. The records of one are valid until the next one.

    Raises RangesNotServed before the first message, RangeBroken between two of them.
    """
    stream, message = _begun(address, request)
    is_whole = False
    try:
        while not is_last(message, request):
            yield message
            message = stream.next()
        yield message
        is_whole = True
    except (OSError, EOFError, DecodeError) as error:
        raise RangeBroken(f"{address}: {_text(error)}") from error
    finally:
        if is_whole:
            _keep(stream)
        else:
            stream.close()


def close_streams() -> None:
    """Closes this process's idle connections."""
    for key in [key for key in _idle if key[0] == os.getpid()]:
        _idle.pop(key).close()


def _begun(address: str, request: FetchRangeRequest) -> tuple[RangeStream, FetchRangeResponse]:
    idle = _idle.pop((os.getpid(), address), None)
    if idle is not None:
        try:
            return idle, idle.ask(request)
        except (OSError, EOFError, DecodeError):
            # The broker was started again, or has ended the idle connection.
            idle.close()
    if time.monotonic() < _avoided.get(address, 0.0):
        raise RangesNotServed(f"{address} served no ranges a moment ago")
    try:
        stream = RangeStream(address)
    except OSError as error:
        raise _not_served(address, error) from error
    try:
        return stream, stream.ask(request)
    except TimeoutError as error:
        stream.close()
        raise RangeBroken(f"{address}: {_text(error)}") from error
    except (OSError, EOFError, DecodeError) as error:
        # A broker of an earlier build takes the first bytes for a request that is too large.
        stream.close()
        raise _not_served(address, error) from error


def _not_served(address: str, error: Exception) -> RangesNotServed:
    _avoided[address] = time.monotonic() + AVOIDED_SECONDS
    return RangesNotServed(f"{address}: {_text(error)}")


def _keep(stream: RangeStream) -> None:
    key = os.getpid(), stream.address
    if key in _idle:
        stream.close()
    else:
        _idle[key] = stream


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class RangeStream:
    """One connection, which reads one range at a time."""

    def __init__(self, address: str) -> None:
        """Raises OSError if the address does not accept the connection."""
        self.address = address
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._deadline = 0.0
        """When the message that is being read must be whole."""
        self._opening = MAGIC
        self._buffer = bytearray()

    def ask(self, request: FetchRangeRequest) -> FetchRangeResponse:
        """Begins a range, and returns its first message."""
        self._socket.settimeout(SILENT_SECONDS)
        self._socket.sendall(self._opening + request_frame(request))
        self._opening = b""
        return self.next()

    def next(self) -> FetchRangeResponse:
        """Returns the next message. Raises OSError, EOFError or DecodeError."""
        self._deadline = time.monotonic() + MESSAGE_SECONDS
        head_size, records_size = LENGTHS.unpack(self._exactly(LENGTHS.size))
        if head_size > HEAD_BYTES_MAX or records_size > RECORDS_BYTES_MAX:
            raise DecodeError(
                f"{head_size} and {records_size} bytes are not the lengths of a message"
            )
        head = bytes(self._exactly(head_size))
        return parse_message(head, self._records(records_size))

    def close(self) -> None:
        """Ends the connection, and with it the broker's work for the range."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _records(self, size: int) -> Buffer:
        if size > KEPT_BYTES_MAX:
            return self._exactly(size)
        if size > len(self._buffer):
            # Views of the old buffer may exist, so it is replaced.
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        self._receive(view)
        return view

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        self._receive(memoryview(data))
        return data

    def _receive(self, into: memoryview) -> None:
        at = 0
        while at < len(into):
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"a message is not whole after {MESSAGE_SECONDS:g} s")
            self._socket.settimeout(min(left, SILENT_SECONDS))
            try:
                count = self._socket.recv_into(into[at:])
            except TimeoutError:
                if left > SILENT_SECONDS:
                    raise TimeoutError(f"no bytes for {SILENT_SECONDS:g} s") from None
                continue  # to the deadline's error
            if count == 0:
                raise EOFError("the broker has ended the connection")
            at += count

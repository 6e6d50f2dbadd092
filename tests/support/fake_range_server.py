"""Ranges of a `FakeBroker` in plain frames, over a real port."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from typing import TYPE_CHECKING, Any

from strandline_proto.range_frames import LENGTH, LENGTHS, MAGIC
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.fake_broker_sync import FakeBroker


class _CutOff(Exception):
    pass


class _Context:
    """What `FakeBroker.FetchRange` uses of gRPC's context."""

    def abort(self, _code: object, details: str) -> None:
        raise _CutOff(details)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        broker: FakeBroker = self.server.broker  # type: ignore[attr-defined]
        if self.rfile.read(len(MAGIC)) != MAGIC:
            return
        with contextlib.suppress(_CutOff, ConnectionError):
            while length := self.rfile.read(LENGTH.size):
                data = self.rfile.read(LENGTH.unpack(length)[0])
                request = fetch_pb2.FetchRangeRequest.FromString(data)
                context: Any = _Context()
                with contextlib.closing(broker.FetchRange(request, context)) as messages:  # type: ignore[type-var]
                    for message in messages:
                        self._send(message)

    def _send(self, message: fetch_pb2.FetchRangeResponse) -> None:
        records = message.records
        message.records = b""
        head = message.SerializeToString()
        self.wfile.write(LENGTHS.pack(len(head), len(records)) + head + records)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    broker: FakeBroker


@contextlib.contextmanager
def serving_frames(broker: FakeBroker) -> Iterator[FakeBroker]:
    """The broker, whose Metadata names an address for ranges meanwhile."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.broker = broker
        broker.range_port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield broker
        finally:
            broker.range_port = 0
            server.shutdown()
            thread.join()

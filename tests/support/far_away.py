"""A network that is slow: what passes through a port takes its time in either direction."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def far_away(address: str, delay_s: float) -> Iterator[str]:
    """An address from which everything reaches `address` so much later, and back."""
    host, _, port = address.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the listener has been closed
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection((host, int(port)))
                    for source, sink in ((near, far), (far, near)):
                        _in_background(lambda a=source, b=sink: _pass(a, b, delay_s))

        _in_background(serve)
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _in_background(target: "object") -> None:
    threading.Thread(target=target, daemon=True).start()  # type: ignore[arg-type]


def _pass(source: socket.socket, sink: socket.socket, delay_s: float) -> None:
    with source, sink, contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(delay_s)
            sink.sendall(data)

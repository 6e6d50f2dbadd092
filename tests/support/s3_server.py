"""An S3 store in memory, moto's, as a process. It prints its port, and ends with its standard
input.

Only S3 is served. Connections stay open, no request is logged, and a time is parsed once: moto as
its own server spends most of a request on those.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from threading import Thread
from typing import Any

from moto.core import serialize
from moto.moto_server.werkzeug_app import (
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        pass


def main() -> None:
    times: Any = serialize
    times.parse_to_aware_datetime = lru_cache(4096)(times.parse_to_aware_datetime)
    app = create_backend_app("s3")
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(server.port, flush=True)  # noqa: T201 - to whom started it
    sys.stdin.read()


if __name__ == "__main__":
    main()

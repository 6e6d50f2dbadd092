"""The one event loop of a benchmark that runs several coroutines, one after the other. gRPC
continues to send events to a closed loop, each with a traceback.
"""

import asyncio
import atexit
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    return _runner().run(main)


@cache
def _runner() -> "asyncio.Runner":
    import uvloop

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    atexit.register(runner.close)
    return runner

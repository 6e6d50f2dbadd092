"""Traps for code that would leave the simulation: real files, sockets, processes, threads, time.

A leak would make a run differ from its replay, or wait for a real clock. `guarded()` turns each
into Leak at the place where it happens. Reading modules stays allowed: code imports lazily. Their
bytecode is not kept, as that would be a write.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORBIDDEN: Final = ("socket.", "subprocess.", "os.system", "os.fork", "os.exec", "os.posix_spawn")
CLOCKS: Final = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
SOURCES: Final = (".py", ".pyc", ".so", ".pth", ".zip", ".toml")
OURS: Final = "strandline"


class Leak(AssertionError):
    """Simulated code has used a real file, socket, process, thread or clock."""


_state: dict[str, Any] = {"active": False, "hooked": False}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _state["active"]:
        return
    if event == "open":
        path, mode = arguments[0], arguments[1]
        reads = mode is None or set(str(mode)) <= set("rbt")
        if isinstance(path, str | bytes) and reads and os.fsdecode(path).endswith(SOURCES):
            return
        raise Leak(f"simulated code opened {path!r} of the real file system")
    if event.startswith(FORBIDDEN):
        raise Leak(f"simulated code did {event} {arguments!r}")


def _forbid(real: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Refuses it to the thread that simulates; a thread that a library left behind may go on."""
    simulating = threading.get_ident()

    def refuse(*arguments: Any, **options: Any) -> Any:
        if threading.get_ident() != simulating:
            return real(*arguments, **options)
        raise Leak(f"simulated code called {what}")

    return refuse


def _for_others(real: Callable[..., Any], what: str) -> Callable[..., Any]:
    """Refuses it to Strandline's own code; libraries may read the real clock, as its value stays
    theirs.
    """

    def ask(*arguments: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(OURS) and not caller.endswith(".sim.runner"):
            raise Leak(f"{caller} called {what}")
        return real(*arguments)

    return ask


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Traps leaks until the block ends."""
    if not _state["hooked"]:
        sys.addaudithook(_audit)
        _state["hooked"] = True
    with contextlib.ExitStack() as stack:

        def patch(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        patch(time, "sleep", _forbid(time.sleep, "time.sleep"))
        patch(threading.Thread, "start", _forbid(threading.Thread.start, "Thread.start"))
        patch(os, "urandom", _forbid(os.urandom, "os.urandom"))
        for name in CLOCKS:
            patch(time, name, _for_others(getattr(time, name), f"time.{name}"))
        patch(sys, "dont_write_bytecode", True)
        _state["active"] = True
        stack.callback(_state.__setitem__, "active", False)
        yield

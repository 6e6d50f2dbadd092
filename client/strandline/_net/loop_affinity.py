"""A client object's home: the process and the event loop in which it was started.

Anywhere else a call would wait for ever, because the background tasks and gRPC's threads are not
there. It is refused at once.
"""

from __future__ import annotations

import asyncio
import os

from strandline.errors import ClientMisused


class _Process:
    """The fork state of this process.

    A forked child has a copy of every object, and no thread but the one that forked.
    """

    def __init__(self) -> None:
        self.generation = 0
        """How many forks lie between this process and the one that imported the library."""
        self.used_in = -1
        """The generation in which a client was started first; gRPC's threads are in that one."""

    def after_fork_in_child(self) -> None:
        self.generation += 1


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.after_fork_in_child)


def require_grpc(name: str) -> None:
    """Raises ClientMisused if gRPC cannot work, because another process has its threads."""
    if _PROCESS.used_in < 0:
        _PROCESS.used_in = _PROCESS.generation
    if _PROCESS.used_in != _PROCESS.generation:
        raise ClientMisused(
            f"no {name} can start here: the process was forked after a client had started in it; "
            "fork before the first client starts, or use multiprocessing's 'spawn'"
        )


class Birthplace:
    """The process in which an object was created."""

    __slots__ = ("_generation",)

    def __init__(self) -> None:
        self._generation = _PROCESS.generation

    @property
    def is_elsewhere(self) -> bool:
        """True in a forked child of that process."""
        return self._generation != _PROCESS.generation

    def check(self, name: str) -> None:
        if self.is_elsewhere:
            raise ClientMisused(
                f"this {name} was started before the process forked, and works in the parent only; "
                "start processes with multiprocessing's 'spawn', and clients in them"
            )


class Home(Birthplace):
    """The process and the event loop of one session."""

    __slots__ = ("_loop", "_name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._loop = asyncio.get_running_loop()

    def require(self) -> None:
        """Raises ClientMisused unless the caller is at home."""
        self.check(self._name)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            return
        # Between two runs of its loop, a call that waits for nothing does no harm.
        if running is not None or self._loop.is_running() or self._loop.is_closed():
            raise ClientMisused(
                f"this {self._name} belongs to the event loop in which it was started; start "
                "another one in this loop, or use strandline.sync, which any thread may call"
            )

"""The seam between Strandline and the outside: clock, disk, chance, network, threads, exit.

Production code takes one `Runtime` and uses the outside only through it. A simulator can therefore
run the same classes under virtual time, a faulty disk and a faulty network. Timers, tasks, queues
and locks are plain asyncio: the event loop is part of the seam.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    import grpc.aio
    from prometheus_client import CollectorRegistry
    from structlog.typing import FilteringBoundLogger


Buffer = bytes | bytearray | memoryview


CONNECTIONS_MAX: Final = 2**31 - 2
"""Limit for servers with enough descriptors; gRPC allows no greater one."""


class Clock(Protocol):
    def time(self) -> float:
        """Wall clock, seconds since the epoch: for record timestamps only."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: for every timeout, lag and session."""
        ...


@dataclass(frozen=True, slots=True)
class FileStat:
    size: int
    mtime: float


class FileSystem(Protocol):
    """The functions of `os` that the storage layer uses, with the same names and signatures.

    Descriptors are ints. Each function raises OSError as `os` does. `pwrite` and `pwritev` may
    write less than the given data.
    """

    def open(self, path: str, flags: int, mode: int = 0o644) -> int: ...
    def close(self, fd: int) -> None: ...
    def pread(self, fd: int, length: int, offset: int) -> bytes: ...
    def pwrite(self, fd: int, data: Buffer, offset: int) -> int: ...
    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int: ...
    def fsync(self, fd: int) -> None: ...
    def fdatasync(self, fd: int) -> None: ...
    def ftruncate(self, fd: int, length: int) -> None: ...
    def replace(self, src: str, dst: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def makedirs(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""
        ...

    def listdir(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def isdir(self, path: str) -> bool: ...
    def fstat(self, fd: int) -> FileStat: ...
    def fsync_dir(self, path: str) -> None:
        """Make the directory's entries durable."""
        ...

    def lock(self, path: str) -> int:
        """Create the file and lock it against other processes, until the descriptor is closed.

        Raises BlockingIOError if another process holds it.
        """
        ...

    def free_space(self, path: str) -> int:
        """Bytes that may still be written on the file system of `path`."""
        ...

    def total_space(self, path: str) -> int:
        """Bytes of the whole file system of `path`."""
        ...


class Probe(enum.Enum):
    """The result of a bare connection attempt."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """ECONNREFUSED: no process listens there."""
    SILENT = "silent"
    """No answer in time, no route, no such name: nothing is proven."""


class ByteStream(Protocol):
    """One TCP connection: bytes in order, both ways, cut into segments at any place.

    Every wait needs a deadline of the caller's: a silent peer may stay silent for hours.
    """

    peer: str
    """`host:port` of the other side."""

    async def read(self, at_most: int) -> bytes:
        """Read at least one byte and at most `at_most`; `b""` once the other side has closed.

        Raises ConnectionError if the connection broke. A cancelled read consumes nothing.
        """
        ...

    async def read_exactly(self, length: int) -> bytes:
        """Read exactly `length` bytes.

        Raises asyncio.IncompleteReadError if the other side closes before, ConnectionError if the
        connection broke. A cancelled read consumes nothing.
        """
        ...

    def write(self, data: Buffer) -> None:
        """Queue bytes. `data` must not change afterwards. On a closed stream they are dropped."""
        ...

    async def drain(self) -> None:
        """Wait until little is queued. Raises ConnectionError if the connection broke.

        A writer that never calls it queues without a bound.
        """
        ...

    def close(self) -> None:
        """Send the queued bytes, then close. Nothing more is read."""
        ...

    def abort(self) -> None:
        """Drop the queued bytes, and close at once."""
        ...

    async def closed(self) -> None:
        """Wait until the connection is closed; a peer that reads nothing can delay it for ever."""
        ...


class Listener(Protocol):
    """A port that accepts byte streams."""

    port: int

    def close(self) -> None:
        """Stop accepting. Open connections continue."""
        ...


class Network(Protocol):
    async def listen(self, host: str, port: int, accept: Callable[[ByteStream], None]) -> Listener:
        """Accept TCP connections on `host:port`. Port 0 takes a free one; host `""` is all of them.

        `accept` is called once for each connection. It must not block; its owner starts the task
        that serves the stream. Raises OSError if the address cannot be bound.
        """
        ...

    async def connect(self, host: str, port: int) -> ByteStream:
        """Open a TCP connection.

        Raises ConnectionRefusedError if no process listens there, another OSError if there is no
        such host or no route. It has no deadline of its own.
        """
        ...

    async def probe(self, host: str, port: int, timeout_s: float) -> Probe:
        """Try to connect, and close at once."""
        ...

    async def resolves(self, host: str) -> bool:
        """True if the name has an address."""
        ...

    def channel(self, target: str, client_id: str | None = None) -> grpc.aio.Channel:
        """A channel to `host:port`, with our message limits, back-off and keepalive.

        The server finds `client_id` with `client_ids.client_id_of`.
        """
        ...

    def server(self, connections_max: int = CONNECTIONS_MAX) -> grpc.aio.Server:
        """A server with our message limits and keepalive; nothing is bound yet. A connection beyond
        `connections_max` is closed at once.
        """
        ...


class Exit(Protocol):
    def __call__(self, why: str) -> NoReturn:
        """Stop the process at once, without flushing or closing anything."""
        ...


class NewExecutor(Protocol):
    def __call__(self, name: str) -> Executor:
        """Make an executor of one thread: functions run in the order in which they were
        submitted.
        """
        ...


@dataclass(frozen=True, slots=True)
class Runtime:
    clock: Clock
    fs: FileSystem
    rng: random.Random
    network: Network
    serial_executor: NewExecutor
    exit: Exit
    metrics: CollectorRegistry
    log: FilteringBoundLogger
    pid: int
    descriptors: int = 1 << 20
    """Limit on the files and connections that the process may have open at a time."""
    thread_cpu_s: Callable[[], float] | None = None
    """CPU time in seconds of the calling thread; None: it is not measured, as in a simulation."""

    def random_id(self) -> bytes:
        """16 random bytes: a topic, directory, store, cluster or incarnation id."""
        return self.rng.randbytes(16)

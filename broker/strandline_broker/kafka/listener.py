"""A listener for Kafka clients: it accepts connections, and recognizes what is no Kafka client by
its first bytes.

A fault of one connection ends that connection alone, with one log line.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.common.request_times import Phase
from strandline_broker.kafka.connection_metrics import Occurrences
from strandline_broker.kafka.passthrough import PREFACE, pass_through
from strandline_broker.kafka.request import CloseConnection, host_of
from strandline_broker.kafka.wire import MalformedRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from strandline_broker.config.addresses import HostPort
    from strandline_broker.hosts.common.request_times import Times
    from strandline_broker.kafka.calls import Calls
    from strandline_broker.kafka.connection import Connection
    from strandline_broker.kafka.limits import Limits
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services
    from strandline_runtime.runtime import ByteStream, Listener

    Serve = Callable[[ByteStream], Awaitable[None]]
    """Serves one connection until it ends. Raises what `Connection.serve` raises."""

TLS_HELLO: Final = b"\x16\x03"
HTTP_1: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")
FIRST_BYTES_S: Final = 30.0
"""Time that a client has for its first four bytes."""
CONNECT_S: Final = 5.0
SWEEP_S: Final = 5.0
"""Time between two looks for silent connections."""
SWEEP_S_MIN: Final = 0.05
COMPLAINTS_MAX: Final = 20
"""Log lines about ended connections within `COMPLAINTS_S`: a peer may open any number of them."""
COMPLAINTS_S: Final = 10.0
WAITING: Final = frozenset(("Fetch", "Produce"))
"""The requests whose work and wait are told apart."""


class KafkaListener:
    def __init__(
        self,
        services: Services,
        name: str,
        grpc: HostPort,
        limits: Limits,
        others: Mapping[bytes, Serve] = MappingProxyType({}),
    ) -> None:
        """`grpc`: the address of this broker to which HTTP/2 is passed. `limits`: those of all
        Kafka listeners of the broker. `others`: by their first four bytes, the other protocols that
        are served here.
        """
        self.name = name
        self.memory = limits.memory
        self._limits = limits.connections
        self._request_max = services.config.socket_request_max_bytes
        self._idle_ms = services.config.connections_max_idle_ms
        self._services = services
        self._runtime = services.runtime
        self._grpc = grpc
        self._others = others
        self._listener: Listener | None = None
        self._accepted: asyncio.Queue[ByteStream] = asyncio.Queue()
        self._group: asyncio.TaskGroup | None = None
        self._connections: dict[Connection, ByteStream] = {}
        self._calls: Calls | None = None
        self._loading = asyncio.Lock()
        self._complaints: deque[float] = deque(maxlen=COMPLAINTS_MAX)
        """Times of the last log lines about ended connections."""
        self._not_said = 0
        self._times = services.metrics.times
        self._phases: dict[str, list[Times]] = {}
        self.opened = Occurrences()
        """The accepted connections."""
        self.open = 0
        """Number of open connections."""

    async def bind(self, host: str, port: int) -> int:
        """Returns the port. Raises OSError if the address cannot be bound."""
        self._listener = await self._runtime.network.listen(host, port, self._accept)
        return self._listener.port

    async def run(self) -> None:
        """Serves the connections until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._end_silent())
            while True:
                stream = await self._accepted.get()
                self._group.create_task(self._serve(stream))

    def close(self) -> None:
        """Accepts no further connections, and ends the open ones."""
        if self._listener is not None:
            self._listener.close()
        for stream in list(self._connections.values()):
            stream.close()

    def _accept(self, stream: ByteStream) -> None:
        why = self._limits.admit(host_of(stream))
        if why is not None:
            stream.abort()
            self._complain(stream, why)
            return
        self.opened.note(self._runtime.clock.monotonic())
        self.open += 1
        self._accepted.put_nowait(stream)

    async def _end_silent(self) -> None:
        """Ends connections that are idle, or that have stopped within a request."""
        idle_s = math.inf if self._idle_ms < 0 else self._idle_ms / 1000
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(SWEEP_S, max(idle_s / 2, SWEEP_S_MIN)))
            for connection in list(self._connections):
                connection.end_if_silent(loop.time(), idle_s)

    def observe(self, request: Request, *, came_s: float, began_s: float, done_s: float) -> None:
        """Notes the times and errors of an answered request: by the loop's clock, it came, its work
        began, and its answer was made.
        """
        api, now_s = request.header.api.name, asyncio.get_running_loop().time()
        self._times.count_version(api, request.version)
        kind = "FetchConsumer" if api == "Fetch" else api
        phases = self._phases.get(kind)
        if phases is None:
            phases = self._phases[kind] = [self._times.of(kind, phase) for phase in Phase]
        total, request_queue, local, remote, response_queue = phases
        total.observe(now_s - came_s)
        request_queue.observe(began_s - came_s)
        response_queue.observe(now_s - done_s)
        if api in WAITING:
            waits_s = request.waits_since_s
            waits_s = done_s if waits_s is None else min(waits_s, done_s)
            local.observe(waits_s - began_s)
            remote.observe(done_s - waits_s)
        for code in request.errors:
            self._times.count_error(kind, code)

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._group is not None
        return self._group.create_task(work)

    async def calls(self) -> Calls:
        """Returns the calls. The first connection loads them, off the event loop."""
        if self._calls is None:
            async with self._loading:
                if self._calls is None:
                    thread = self._runtime.serial_executor("kafka-loading")
                    loop = asyncio.get_running_loop()
                    self._calls = await loop.run_in_executor(thread, self._load)
        return self._calls

    def _load(self) -> Calls:
        from strandline_broker.kafka.calls import Calls

        return Calls(self._services, self.name)

    def check_size(self, size: int) -> None:
        """Raises CloseConnection for the length of a frame that is none."""
        if not 0 <= size <= self._request_max:
            raise CloseConnection(
                f"the first four bytes of a request are its length, and here they are {size};"
                f" socket.request.max.bytes allows {self._request_max}"
            )

    async def _serve(self, stream: ByteStream) -> None:
        try:
            await self._serve_kind(stream)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self._runtime.log.debug("connection ended", peer=stream.peer, why=str(error))
        except (CloseConnection, MalformedRequest) as error:
            self._complain(stream, str(error))
        except Exception as error:  # noqa: BLE001 - the boundary: it ends here
            self._unforeseen(stream, error)
        finally:
            stream.abort()
            self.open -= 1
            self._limits.release(host_of(stream))

    async def _serve_kind(self, stream: ByteStream) -> None:
        try:
            async with asyncio.timeout(FIRST_BYTES_S):
                first = await stream.read_exactly(4)
        except TimeoutError:
            raise CloseConnection(f"no request came within {FIRST_BYTES_S:.0f} s") from None
        if first == PREFACE:
            await self._pass_on(stream, first)
            return
        if first in self._others:
            await self._others[first](stream)
            return
        if first.startswith(TLS_HELLO):
            raise CloseConnection(
                "the client began with TLS, which this listener does not speak; set"
                " security.protocol=PLAINTEXT"
            )
        if first in HTTP_1:
            raise CloseConnection(
                "the client speaks HTTP; this listener serves Kafka's protocol and gRPC"
            )
        # Loaded with the first connection, as the calls are: until then it would take memory.
        from strandline_broker.kafka.connection import Connection

        connection = Connection(self, stream)
        self._connections[connection] = stream
        try:
            await connection.serve(first)
        finally:
            del self._connections[connection]

    async def _pass_on(self, stream: ByteStream, first: bytes) -> None:
        why = self._limits.admit_onward()
        if why is not None:
            raise CloseConnection(why)
        try:
            await self._pass_to_grpc(stream, first)
        finally:
            self._limits.release_onward()

    async def _pass_to_grpc(self, stream: ByteStream, first: bytes) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                server = await self._runtime.network.connect(self._grpc.host, self._grpc.port)
        except (OSError, TimeoutError) as error:
            raise CloseConnection(
                f"HTTP/2 is passed to this broker's gRPC listener, and {self._grpc} does not"
                f" answer: {error}"
            ) from error
        await pass_through(stream, first, server)

    def _complain(self, stream: ByteStream, why: str) -> None:
        now_s = self._runtime.clock.monotonic()
        last = self._complaints
        if len(last) == COMPLAINTS_MAX and now_s < last[0] + COMPLAINTS_S:
            self._not_said += 1
            return
        last.append(now_s)
        not_said, self._not_said = self._not_said, 0
        self._runtime.log.info(
            "a Kafka connection was ended",
            listener=self.name,
            peer=stream.peer,
            why=why,
            others_since_the_last_line=not_said,
        )

    def _unforeseen(self, stream: ByteStream, error: Exception) -> None:
        self._services.metrics.failures.labels(method="Kafka").inc()
        self._runtime.log.error("unforeseen failure", peer=stream.peer, exc_info=error)
        if isinstance(error, AssertionError):
            self._runtime.exit(f"a broken invariant in a Kafka request: {error}")


async def stop(listeners: list[KafkaListener]) -> None:
    for listener in listeners:
        with contextlib.suppress(OSError):
            listener.close()

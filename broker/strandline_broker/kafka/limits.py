"""The limits that all Kafka listeners of a broker share: connections, and bytes of requests."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from strandline_broker.config.keys import BrokerConfig

CHUNK_BYTES: Final = 64 << 10
"""Bytes of a request that are read at a time."""


class ConnectionLimits:
    """The open connections of a broker's Kafka listeners."""

    def __init__(self, *, connections: int, per_ip: int, descriptors: int) -> None:
        """`connections`: max.connections; `per_ip`: max.connections.per.ip; `descriptors`: file
        descriptors that these connections may take.
        """
        self._connections_max = connections
        self._per_ip_max = per_ip
        self._descriptors_max = descriptors
        self._by_host: Counter[str] = Counter()
        self._onward = 0

    @property
    def open(self) -> int:
        return self._by_host.total()

    def admit(self, host: str) -> str | None:
        """Counts a connection from the host, unless the reason for its refusal is returned."""
        if self.open >= self._connections_max:
            return (
                f"{self.open} connections are open, as many as max.connections allows; close some,"
                " or raise it"
            )
        if self._by_host[host] >= self._per_ip_max:
            return (
                f"{host} has {self._by_host[host]} connections, as many as max.connections.per.ip"
                " allows; close some, or raise it"
            )
        why = self._lacks_descriptor()
        if why is None:
            self._by_host[host] += 1
        return why

    def release(self, host: str) -> None:
        """Forgets a connection from the host."""
        self._by_host[host] -= 1
        if self._by_host[host] == 0:
            del self._by_host[host]

    def admit_onward(self) -> str | None:
        """Counts the second descriptor of a connection that is passed on, unless the reason for its
        refusal is returned.
        """
        why = self._lacks_descriptor()
        if why is None:
            self._onward += 1
        return why

    def release_onward(self) -> None:
        """Forgets the second descriptor of a connection."""
        self._onward -= 1

    def _lacks_descriptor(self) -> str | None:
        if self.open + self._onward < self._descriptors_max:
            return None
        return (
            f"connections to Kafka listeners take {self._descriptors_max} file descriptors, their"
            " whole share; close some, or raise the limit of open files (ulimit -Hn, LimitNOFILE=)"
        )


class RequestMemory:
    """The bytes of requests that the connections hold: bytes that came, not declared lengths.

    At the limit, no connection begins to read a further chunk. If no complete request is left that
    could give bytes back, the connection that waits longest reads its request to the end. The limit
    is thus exceeded by one request at most, and by one chunk of each connection that was reading.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0
        self._complete = 0
        """Bytes of requests that came whole."""
        self._waiting: deque[tuple[Held, asyncio.Future[None]]] = deque()
        self._exempt: Held | None = None

    def hold(self) -> Held:
        return Held(self)

    def is_full_for(self, held: Held) -> bool:
        return self.used >= self._limit and self._exempt is not held

    async def wait(self, held: Held) -> None:
        """Waits until the request may be read further."""
        while self.is_full_for(held):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            entry = held, future
            self._waiting.append(entry)
            self._wake()
            try:
                await future
            except asyncio.CancelledError:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                raise

    def add(self, count: int) -> None:
        self.used += count

    def complete(self, count: int) -> None:
        self._complete += count

    def release(self, held: Held, count: int, *, complete: bool) -> None:
        self.used -= count
        self._complete -= count if complete else 0
        if self._exempt is held:
            self._exempt = None
        self._wake()

    def _wake(self) -> None:
        """Wakes as many as there is room for a chunk, or the first if none else gives back."""
        room = -(-(self._limit - self.used) // CHUNK_BYTES)
        for _ in range(min(room, len(self._waiting))):
            self._wake_first()
        if self._waiting and room <= 0 and self._complete == 0 and self._exempt is None:
            self._exempt = self._waiting[0][0]
            self._wake_first()

    def _wake_first(self) -> None:
        _, future = self._waiting.popleft()
        if not future.done():
            future.set_result(None)


class Held:
    """The bytes of one request."""

    __slots__ = ("_bytes", "_is_complete", "_memory")

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._bytes = 0
        self._is_complete = False

    async def room(self) -> None:
        """Waits until a further chunk may be read."""
        if self._memory.is_full_for(self):
            await self._memory.wait(self)

    def add(self, count: int) -> None:
        """Counts bytes that came."""
        self._bytes += count
        self._memory.add(count)

    def complete(self) -> None:
        """Notes that the request is whole."""
        self._is_complete = True
        self._memory.complete(self._bytes)

    def release(self) -> None:
        """Gives the bytes back. A further call changes nothing."""
        count, self._bytes = self._bytes, 0
        self._memory.release(self, count, complete=self._is_complete)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a broker's Kafka listeners."""

    connections: ConnectionLimits
    memory: RequestMemory

    @classmethod
    def of(cls, config: BrokerConfig, *, descriptors: int) -> Limits:
        """The limits of the configuration; `descriptors` are left for these connections."""
        return cls(
            ConnectionLimits(
                connections=config.max_connections,
                per_ip=config.max_connections_per_ip,
                descriptors=descriptors,
            ),
            RequestMemory(config.queued_max_request_bytes),
        )

    def report(self, registry: CollectorRegistry) -> None:
        """Registers the metrics of what is used."""
        from prometheus_client import Gauge

        Gauge(
            "strandline_kafka_connections",
            "Open connections to the Kafka listeners; max.connections limits them.",
            registry=registry,
        ).set_function(lambda: self.connections.open)
        Gauge(
            "strandline_kafka_request_bytes",
            "Bytes of requests at the Kafka listeners; queued.max.request.bytes limits them.",
            registry=registry,
        ).set_function(lambda: self.memory.used)

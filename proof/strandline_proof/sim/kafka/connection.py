"""Kafka's protocol from the client's side, over the byte streams of a simulated network.

kafka-python makes the requests and reads the answers, so that the broker's own codec is not tested
against itself.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

# The import reads the schemas, which a guarded run forbids. The broker uses these modules too.
from kafka.protocol import admin, consumer, metadata, producer, sasl

from strandline.errors import StrandlineError, from_code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from strandline_runtime.runtime import ByteStream, Runtime

REQUEST_S: Final = 1.0
CLIENT_ID: Final = "simulated"
_MODULES: Final = (admin, consumer, metadata, producer, sasl)


class KafkaFailed(StrandlineError):
    """A request has no answer, or a refusal; `may_have_been_written` says what it means."""

    def __init__(self, why: str, *, maybe: bool = False, code: int | None = None) -> None:
        super().__init__(why)
        self.may_have_been_written = maybe
        self.code = code


@functools.cache
def request_of(name: str) -> Any:
    """Returns kafka-python's class of requests, such as `MetadataRequest`."""
    return _class_of(f"{name}Request")


@functools.cache
def _class_of(name: str) -> Any:
    for module in _MODULES:
        found = getattr(module, name, None)
        if found is not None:
            return found
    raise AssertionError(f"kafka-python has no {name}")


class Tasks:
    """Tasks that end with their owner."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._spawned: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work)
        self._spawned.append(task)
        return task

    def cancel(self) -> None:
        for task in self._spawned:
            task.cancel()


@asynccontextmanager
async def owned_tasks() -> AsyncIterator[Tasks]:
    """Tasks that are cancelled when the block ends. Its failure is raised as it is: a group would
    wrap it.
    """
    failure: StrandlineError | None = None
    async with asyncio.TaskGroup() as group:
        tasks = Tasks(group)
        try:
            yield tasks
        except StrandlineError as error:
            failure = error
        finally:
            tasks.cancel()
    if failure is not None:
        raise failure


def check(code: int, what: str) -> None:
    """Raises KafkaFailed for an error code."""
    if code != 0:
        raise KafkaFailed(f"{what}: {from_code(code)!r}", code=code)


class KafkaConnection:
    """One connection: any number of requests under way, and answers in their order."""

    def __init__(self, stream: ByteStream, tasks: Tasks) -> None:
        self._stream = stream
        self._number = 0
        self._asked: deque[tuple[int, Any, int, asyncio.Future[Any]]] = deque()
        self.is_broken = False
        self._reading = tasks.spawn(self._read())

    def ask(self, name: str, version: int, **fields: Any) -> asyncio.Future[Any]:
        """Sends the request now; the future has the answer, or KafkaFailed."""
        self._number += 1
        request = request_of(name)(version=version, **fields)
        request.with_header(correlation_id=self._number, client_id=CLIENT_ID)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.is_broken:
            answer.set_exception(KafkaFailed("the connection is broken"))
            return answer
        self._asked.append((self._number, _class_of(f"{name}Response"), version, answer))
        self._stream.write(bytes(request.encode(header=True, framed=True)))
        return answer

    def send(self, name: str, version: int, **fields: Any) -> None:
        """Sends a request that has no answer."""
        self._number += 1
        request = request_of(name)(version=version, **fields)
        request.with_header(correlation_id=self._number, client_id=CLIENT_ID)
        self._stream.write(bytes(request.encode(header=True, framed=True)))

    async def call(self, name: str, version: int, *, within_s: float = 0.0, **fields: Any) -> Any:
        """Returns the answer within `REQUEST_S`, or so much later as the request may wait. Raises
        KafkaFailed; the connection is then closed, as a client of Kafka does.
        """
        answer = self.ask(name, version, **fields)
        within_s += REQUEST_S + fields.get("max_wait_ms", 0) / 1000
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            self.close()
            raise KafkaFailed(f"no answer to {name}", maybe=True) from None

    async def _read(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._stream.read_exactly(4), "big")
                frame = await self._stream.read_exactly(size)
                number, kind, version, answer = self._asked.popleft()
                assert int.from_bytes(frame[:4], "big") == number, "an answer of another request"
                found = kind.decode(frame, version=version, header=True)
                if not answer.done():
                    answer.set_result(found)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self._break(f"the connection ended: {error}")

    def _break(self, why: str) -> None:
        self.is_broken = True
        asked, self._asked = self._asked, deque()
        for _, _, _, answer in asked:
            if not answer.done():
                answer.set_exception(KafkaFailed(why, maybe=True))
                answer.exception()  # its asker may be gone

    def close(self) -> None:
        self._stream.abort()
        self._reading.cancel()
        self._break("the client has closed the connection")


class KafkaCluster:
    """The brokers and leaders as Metadata names them, and a connection to each broker."""

    def __init__(
        self, runtime: Runtime, bootstrap: tuple[tuple[str, int], ...], tasks: Tasks
    ) -> None:
        self.runtime = runtime
        self._bootstrap = bootstrap
        self._tasks = tasks
        self._nodes: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self.topic_ids: dict[str, str] = {}
        self.partitions: dict[str, int] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        """The newest leader epoch of each partition that any broker has named (KIP-320)."""

    async def refresh(self, topic: str, version: int = 12) -> None:
        """Asks any broker for the topic. Raises KafkaFailed."""
        told = None
        addresses = [*self._nodes.values(), *self._bootstrap]
        self.runtime.rng.shuffle(addresses)
        for address in addresses:
            try:
                connection = await self._connected(address)
                told = await connection.call(
                    "Metadata",
                    version,
                    topics=[request_of("Metadata").MetadataRequestTopic(name=topic)],
                    allow_auto_topic_creation=False,
                )
                break
            except KafkaFailed:
                continue
        if told is None:
            raise KafkaFailed("no broker answers Metadata")
        self._nodes = {node.node_id: (node.host, node.port) for node in told.brokers}
        for each in told.topics:
            check(each.error_code, f"Metadata of {topic}")
            self.topic_ids[topic] = str(each.topic_id) if each.topic_id else ""
            self.partitions[topic] = len(each.partitions)
            for partition in each.partitions:
                key = topic, partition.partition_index
                self._leaders[key] = partition.leader_id
                self.epochs[key] = max(self.epochs.get(key, -1), partition.leader_epoch)

    async def leader(self, topic: str, partition: int) -> KafkaConnection:
        """Returns a connection to the partition's leader. Raises KafkaFailed."""
        node = self._leaders.get((topic, partition), -1)
        if node not in self._nodes:
            await self.refresh(topic)
            node = self._leaders.get((topic, partition), -1)
        if node not in self._nodes:
            raise KafkaFailed(f"{topic}:{partition} has no leader")
        try:
            return await self._connected(self._nodes[node])
        except KafkaFailed:
            self.forget_leaders(topic)
            raise

    async def at(self, host: str, port: int) -> KafkaConnection:
        return await self._connected((host, port))

    async def any_broker(self) -> KafkaConnection:
        """Returns a connection to some broker that accepts one. Raises KafkaFailed."""
        addresses = list(self._bootstrap)
        self.runtime.rng.shuffle(addresses)
        for address in addresses:
            try:
                return await self._connected(address)
            except KafkaFailed:
                continue
        raise KafkaFailed("no broker accepts a connection")

    def forget_leaders(self, topic: str) -> None:
        self._leaders = {key: node for key, node in self._leaders.items() if key[0] != topic}

    async def _connected(self, address: tuple[str, int]) -> KafkaConnection:
        found = self._connections.get(address)
        if found is not None and not found.is_broken:
            return found
        try:
            async with asyncio.timeout(REQUEST_S):
                stream = await self.runtime.network.connect(*address)
        except (OSError, TimeoutError) as error:
            raise KafkaFailed(f"cannot connect to {address[0]}: {error}") from error
        again = self._connections.get(address)
        if again is not None and not again.is_broken:
            stream.abort()
            return again
        found = self._connections[address] = KafkaConnection(stream, self._tasks)
        return found

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

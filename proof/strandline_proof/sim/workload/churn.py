"""A topic that is deleted and created again while clients write and read it (I-36, P-19, P-83).

No record of a deleted topic may ever be read from its successor of the same name. Every record that
the last topic has acknowledged must be in it at the end. Its logs at the brokers are under the
oracles like any other.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import StrandlineError, TopicAlreadyExists, UnknownTopicOrPartition
from strandline.types import TopicPartition
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.watch import Oracles
    from strandline_runtime.runtime import Runtime

CHURN: Final = "churn"
"""The node's name, and the topic's."""
REQUEST_MS: Final = 1000
DELIVERY_MS: Final = 3000
RETRY_S: Final = 0.2
SEND_S: Final = 0.15
POLL_MS: Final = 300
FINAL_READ_S: Final = 20.0


class Churn:
    """The topic. `generation` counts the topics that had the name; `ready` is set once the newest
    one is known to exist. Acknowledged values are kept by the generation in which they were sent.
    """

    def __init__(self, world: World, oracles: Oracles) -> None:
        self._world = world
        self._oracles = oracles
        self._sometimes = oracles.sometimes
        self.orders: list[tuple[float, int]] = []
        """(pause, partitions) of each requested deletion."""
        self.generation = 0
        self._ready = False
        self._partitions = 1
        self._acknowledged: dict[int, dict[int, None]] = {}
        self._values = itertools.count()
        self._may_be_deleted = False
        """True if a deletion was given up and requested again. The first request may still be on
        its way: it names no topic id, so it deletes whichever topic has the name when it arrives.
        """
        self._finish = False

    def finish(self) -> None:
        """Ends the commands: reads all of the newest topic, compares, and ends."""
        self._finish = True

    async def main(self, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._administer(runtime))
            group.create_task(self._write(runtime))
            group.create_task(self._read(runtime))
        await self._read_back(runtime)

    # The administrator

    async def _administer(self, runtime: Runtime) -> None:
        await self._create(runtime, 1)
        while self.orders or not self._finish:
            if not self.orders:
                await asyncio.sleep(RETRY_S)
                continue
            pause_s, partitions = self.orders.pop(0)
            self._ready = False
            self.generation += 1
            await self._until_done(runtime, self._delete)
            self._sometimes["topic deleted under load"] += 1
            await asyncio.sleep(pause_s)
            await self._create(runtime, partitions)
            self._sometimes["topic created again"] += 1

    async def _create(self, runtime: Runtime, partitions: int) -> None:
        brokers = self._world.topology.brokers

        async def create(admin: Any) -> None:
            topic = NewTopic(CHURN, num_partitions=partitions, replication_factor=min(3, brokers))
            try:
                await admin.create_topics([topic])
            except TopicAlreadyExists:
                return

        await self._until_done(runtime, create)
        # A request of an earlier command that came late may have created it.
        self._partitions = len(self._oracles.control.keys_of(CHURN)) or partitions
        self._ready = True

    async def _delete(self, admin: Any) -> None:
        try:
            await admin.delete_topics([CHURN])
        except UnknownTopicOrPartition:
            return
        except StrandlineError:
            self._may_be_deleted = True
            raise

    async def _until_done(
        self, runtime: Runtime, act: Callable[[Admin], Awaitable[object]]
    ) -> None:
        while True:
            try:
                async with Admin(
                    self._world.topology.bootstrap,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    await act(admin)
                return
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    # The load

    async def _write(self, runtime: Runtime) -> None:
        while not self._finish:
            try:
                async with Producer(
                    self._world.topology.bootstrap,
                    acks="all",
                    delivery_timeout_ms=DELIVERY_MS,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as producer:
                    while not self._finish:
                        await self._send(producer)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    async def _send(self, producer: Producer) -> None:
        value, generation, ready = next(self._values), self.generation, self._ready
        payload = f"{generation} {value}".encode()
        future = await producer.send(CHURN, payload, partition=value % self._partitions)
        written_to = _topic_known_to(producer)
        await future
        # A broker that has not applied a deletion acknowledges records of the old topic (I-35).
        if ready and generation == self.generation and written_to in self._current():
            self._acknowledged.setdefault(generation, {})[value] = None
        await asyncio.sleep(SEND_S)

    async def _read(self, runtime: Runtime) -> None:
        while not self._finish:
            if not self._ready:
                await asyncio.sleep(RETRY_S)
                continue
            generation = self.generation
            try:
                async with self._consumer(runtime) as consumer:
                    await consumer.assign(self._assignment())
                    while generation == self.generation and not self._finish:
                        found = await consumer.getmany(timeout_ms=POLL_MS)
                        if self._reads_the_newest(consumer):
                            self._check(found, generation)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    def _consumer(self, runtime: Runtime) -> Consumer:
        return Consumer(
            bootstrap_servers=self._world.topology.bootstrap,
            auto_offset_reset="earliest",
            request_timeout_ms=REQUEST_MS,
            connect_timeout_ms=REQUEST_MS,
            fetch_max_wait_ms=200,
            runtime=runtime,
        )

    def _reads_the_newest(self, consumer: Consumer) -> bool:
        """True if the consumer reads the newest topic only. A broker that is cut off may serve an
        earlier topic for as long (I-35); reading that one is no mixture of the two.
        """
        current = self._current()
        return all(topic_id in current for topic_id, _ in consumer._assigned.keys.values())

    def _current(self) -> set[Any]:
        """The id of the topic that has the name now, if there is one."""
        state = self._oracles.control.state
        return {t for t, topic in state.topics.items() if topic.name == CHURN} if state else set()

    def _assignment(self) -> list[TopicPartition]:
        return [TopicPartition(CHURN, p) for p in range(self._partitions)]

    def _check(self, found: Any, generation: int) -> list[int]:
        """I-36: records that an earlier topic acknowledged are not in this one. Returns
        the values.
        """
        values = []
        for records in found.values():
            for record in records:
                of, value = (int(word) for word in record.value.split())
                values.append(value)
                if of < generation and value in self._acknowledged.get(of, {}):
                    self._fail(
                        f"value {value}, acknowledged by topic number {of} of that name, is read"
                        f" at offset {record.offset} of number {generation}"
                    )
        return values

    # The end

    async def _read_back(self, runtime: Runtime) -> None:
        wanted = dict(self._acknowledged.get(self.generation, {}))
        deadline_s = self._world.loop.now + FINAL_READ_S
        while wanted:
            if self._may_be_deleted and not self._current():
                self._sometimes["topic deleted by a late request"] += 1
                return
            try:
                async with self._consumer(runtime) as consumer:
                    await consumer.assign(self._assignment())
                    while wanted and self._world.loop.now < deadline_s:
                        found = await consumer.getmany(timeout_ms=POLL_MS)
                        for value in self._check(found, self.generation):
                            wanted.pop(value, None)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)
            if self._world.loop.now >= deadline_s:
                break
        if wanted and not self._oracles.loss_was_permitted(CHURN):
            self._fail(
                f"{len(wanted)} values that topic number {self.generation} of its name has"
                f" acknowledged are not in it, the first is {next(iter(wanted))}"
            )

    def _fail(self, what: str) -> None:
        self._world.loop.fail(Violation("I-36", what))


def _topic_known_to(producer: Producer) -> bytes | None:
    """The topic id under which the producer will send the record that it has just taken."""
    sender = producer._sender
    view = None if sender is None else sender.cluster.view.topics.get(CHURN)
    return None if view is None else view.topic_id

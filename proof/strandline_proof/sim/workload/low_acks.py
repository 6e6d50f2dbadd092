"""A topic of its own for producers with acks of 0 and of 1.

The promises to them are that the log has no record which they have not sent, or twice, or which was
reported as not written. With acks=1 the record also stands at its acknowledged offset for as long
as that leader's epoch lasts. After an election it may be gone (I-18 is for acks=all).
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import StrandlineError, TopicAlreadyExists, describe
from strandline.types import TopicPartition
from strandline_chaos.payload import CorruptPayload, decode, encode
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import LOOSE

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from strandline.types import ConsumerRecord, RecordMetadata
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
DELIVERY_MS: Final = 3000
POLL_MS: Final = 300
RETRY_S: Final = 0.2
ACKS: Final = (0, 1, 1)
ROUNDS: Final = (2, 10)
"""Bursts of one producer, least and most."""
BURSTS: Final = (1, 1, 4, 15)
REST_S: Final = (0.05, 0.3)
READ_BACK_S: Final = 20.0
PARTITION: Final = TopicPartition(LOOSE, 0)


@dataclass(slots=True)
class Sent:
    acks: int
    outcome: str = "unknown"
    offset: int = -1
    epoch: int = -1


class Loose:
    def __init__(self, world: World, sometimes: Counter[str]) -> None:
        self.sent: dict[int, Sent] = {}
        """Sent records by value."""
        self.final: dict[int, tuple[int, int]] = {}
        """The value and the leader epoch at each offset at the end."""
        self.is_complete = False
        """True if `final` was read to its end."""
        self.read: dict[int, int] = {}
        """The value that was read before, by offset."""
        self.leader_epoch: Callable[[], int] = lambda: -1
        """The partition's last decided leader epoch; -1 without one."""
        self._world = world
        self._some = sometimes
        self._values = itertools.count()
        self._rng: Any = None

    async def run(self, runtime: Runtime, stop: asyncio.Event) -> None:
        self._rng = runtime.rng
        await self._create(runtime, stop)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(runtime, stop))
            group.create_task(self._read(runtime, stop))
        await self._read_back(runtime)

    async def _create(self, runtime: Runtime, stop: asyncio.Event) -> None:
        topology = self._world.topology
        topic = NewTopic(
            LOOSE,
            num_partitions=1,
            replication_factor=topology.replication_factor,
            config={"retention.ms": "-1"},
        )
        while not stop.is_set():
            try:
                async with Admin(
                    topology.bootstrap,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    await admin.create_topics([topic])
            except TopicAlreadyExists:
                return
            except StrandlineError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    # The load

    async def _write(self, runtime: Runtime, stop: asyncio.Event) -> None:
        how = self._world.topology.work
        while not stop.is_set():
            acks = self._rng.choice(ACKS)
            try:
                async with Producer(
                    self._world.topology.bootstrap,
                    acks=acks,
                    linger_ms=how.linger_ms,
                    batch_size=how.batch_bytes,
                    delivery_timeout_ms=DELIVERY_MS,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as producer:
                    for _ in range(self._rng.randint(*ROUNDS)):
                        if stop.is_set():
                            break
                        for _ in range(self._rng.choice(BURSTS)):
                            await self._send(producer, acks)
                        await asyncio.sleep(self._rng.uniform(*REST_S))
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    async def _send(self, producer: Producer, acks: int) -> None:
        value = next(self._values)
        sent = self.sent[value] = Sent(acks)
        try:
            future = await producer.send(LOOSE, encode(acks, value, 60), partition=0)
        except StrandlineError as error:
            self._on_failed(sent, error)
            return
        future.add_done_callback(lambda done: self._on_done(sent, done))

    def _on_done(self, sent: Sent, done: asyncio.Future[RecordMetadata]) -> None:
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self._on_failed(sent, error)
            return
        told = done.result()
        sent.outcome, sent.offset, sent.epoch = "ok", told.offset, told.leader_epoch
        self._some[f"acknowledged with acks={sent.acks}"] += 1
        if (sent.acks == 0) != (told.offset < 0) or (sent.acks == 1 and told.leader_epoch < 0):
            self._fail(f"acks={sent.acks} was answered by {told}")

    def _on_failed(self, sent: Sent, error: BaseException) -> None:
        maybe = getattr(error, "may_have_been_written", True)
        sent.outcome = "unknown" if maybe else "failed"
        self._some[f"acks={sent.acks}: {sent.outcome}"] += 1

    async def _read(self, runtime: Runtime, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                async with self._consumer(runtime) as consumer:
                    await consumer.assign([PARTITION])
                    while not stop.is_set():
                        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                            self._on_read(records)
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

    def _on_read(
        self, records: list[ConsumerRecord], final: dict[int, tuple[int, int]] | None = None
    ) -> None:
        for record in records:
            try:
                acks, value = decode(record.value)
            except CorruptPayload as why:
                self._fail(f"offset {record.offset}: {why}")
                continue
            sent = self.sent.get(value)
            if sent is None or sent.acks != acks:
                self._fail(f"offset {record.offset}: value {value} was never sent")
                continue
            self.read.setdefault(record.offset, value)
            if final is not None:
                final[record.offset] = value, record.leader_epoch

    async def _read_back(self, runtime: Runtime) -> None:
        """Reads to the end, and on to all records that must stand: with acks=1 a record is
        acknowledged before its followers have it, and readers get it only after that.
        """
        deadline_s = self._world.loop.now + READ_BACK_S
        while self._world.loop.now < deadline_s:
            try:
                async with self._consumer(runtime) as consumer:
                    await consumer.assign([PARTITION])
                    end = (await consumer.end_offsets([PARTITION]))[PARTITION]
                    self.final.clear()
                    self.is_complete = False
                    while self._world.loop.now < deadline_s:
                        position = await consumer.position(PARTITION)
                        self.is_complete = position >= end
                        if position >= max(end, self._stands_to()):
                            return
                        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                            self._on_read(records, self.final)
            except StrandlineError as error:
                self._some[f"read back again: {describe(error)[:40]}"] += 1
                await asyncio.sleep(RETRY_S)

    def _stands_to(self) -> int:
        """The end of the records acknowledged in the leader epoch that lasts."""
        epoch = self.leader_epoch()
        return max(
            (sent.offset + 1 for sent in self.sent.values() if sent.epoch == epoch), default=0
        )

    # What must hold

    def check_end(self, *, excused: bool) -> None:
        """Checks the promises at the end. `excused`: records that were read may be gone."""
        if not self.is_complete:
            if excused:
                return
            raise Violation("I-88", f"{LOOSE} is not read to its end within {READ_BACK_S:.0f} s")
        leader_epoch = self.leader_epoch()
        where: dict[int, int] = {}
        for offset, (value, _) in self.final.items():
            if value in where:
                raise _broken(f"value {value} stands at offsets {where[value]} and {offset}")
            where[value] = offset
            if self.sent[value].outcome == "failed":
                raise _broken(f"value {value} is at {offset}, and surely was not written")
        for value, sent in self.sent.items():
            if sent.outcome == "ok" and sent.acks == 1:
                self._check_acknowledged(value, sent, leader_epoch)
        for offset, value in self.read.items():
            if self.final.get(offset, (None, -1))[0] != value and not excused:
                raise _broken(f"value {value} was read at {offset}, and is there no more")

    def _check_acknowledged(self, value: int, sent: Sent, leader_epoch: int) -> None:
        found, epoch = self.final.get(sent.offset, (None, -1))
        if found == value and epoch == sent.epoch:
            return
        if sent.epoch in (leader_epoch, epoch):
            raise _broken(
                f"value {value} was acknowledged with acks=1 at offset {sent.offset} in leader"
                f" epoch {sent.epoch}; there is {found} of epoch {epoch} now, and the leader epoch"
                f" is {leader_epoch}"
            )
        self._some["acknowledged with acks=1 and gone after an election"] += 1

    def _fail(self, what: str) -> None:
        self._world.loop.fail(_broken(what))


def _broken(what: str) -> Violation:
    return Violation("loose", f"acks of 0 and 1: {what}")


async def run_loose(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    node.process = world.clients.loose
    await world.clients.loose.run(runtime, stop)

"""The checking workload of the fault lab: a producer with acks=all, and a reader that compares."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from strandline_chaos.payload import CorruptPayload, decode, encode
from strandline_console.faults.tally import Tally
from strandline_console.recording.entities import WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline import Consumer, Producer
    from strandline_console.recording.live import Live

TOPIC: Final = "console-workload"
PARTITIONS: Final = 3
RATE_MAX: Final = 5_000
IN_FLIGHT_MAX: Final = 2_000
STEP_S: Final = 0.02
SHOW_S: Final = 0.25
POLL_MS: Final = 200
SLOW_S: Final = 10.0
DELIVERY_MS: Final = 60_000
_SIZE: Final = 100


class CheckingWorkload:
    """Runs while `set_running` says so, and shows its counters in the recording."""

    def __init__(
        self,
        live: Live,
        bootstrap: str,
        monotonic: Callable[[], float],
        first_value: int,
    ) -> None:
        """`first_value` begins the numbers of this console: none is ever sent twice."""
        self._live = live
        self._bootstrap = bootstrap
        self._monotonic = monotonic
        self._values = itertools.count(first_value)
        self._first_value = first_value
        self._rate = 0
        self._changed = asyncio.Event()
        self._latencies: deque[tuple[float, float]] = deque()
        self._in_flight = 0
        self._room = asyncio.Event()
        self.tally = Tally({})
        self.state = "stopped"
        self._show(error=None)

    def set_running(self, records_per_s: int | None) -> None:
        """Start with a rate, or stop (None)."""
        self._rate = records_per_s or 0
        self._changed.set()

    async def run(self) -> None:
        """Serve starts and stops until the task is cancelled."""
        from strandline.errors import StrandlineError, describe

        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._rate == 0:
                continue
            error = None
            try:
                await self._session()
                self.state = "stopped"
            except* (StrandlineError, OSError) as why:
                self.state, error = "failed", describe(_first(why))
                self._rate = 0
            self._show(error=error)

    async def _session(self) -> None:
        """One run: from the creation of the topic until the stop."""
        from strandline import Consumer, Producer
        from strandline.types import TopicPartition

        await _create_topic(self._bootstrap)
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        async with (
            Producer(self._bootstrap, acks="all", delivery_timeout_ms=DELIVERY_MS) as producer,
            Consumer(bootstrap_servers=self._bootstrap, auto_offset_reset="latest") as consumer,
        ):
            await consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for partition, end in ends.items():
                consumer.seek(partition, end)
            self.tally = Tally({partition.partition: end for partition, end in ends.items()})
            self._latencies.clear()
            self.state = "running"
            self._show(error=None)
            async with asyncio.TaskGroup() as tasks:
                helpers = [
                    tasks.create_task(self._read(consumer), name="workload's reader"),
                    tasks.create_task(self._show_often(), name="workload's counters"),
                ]
                try:
                    await self._write(producer)
                    await self._settle()
                finally:
                    for helper in helpers:
                        helper.cancel()

    async def _write(self, producer: Producer) -> None:
        """Send at the rate until the stop; a sender that is behind makes up for a second."""
        due = self._monotonic()
        while self._rate > 0:
            now = self._monotonic()
            due = max(due, now - 1.0)
            while due <= now and self._rate > 0:
                due += 1 / self._rate
                await self._send(producer)
            await asyncio.sleep(STEP_S)

    async def _send(self, producer: Producer) -> None:
        while self._in_flight >= IN_FLIGHT_MAX and self._rate > 0:
            self._room.clear()
            try:
                async with asyncio.timeout(SHOW_S):
                    await self._room.wait()
            except TimeoutError:
                continue
        value = next(self._values)
        partition = value % PARTITIONS
        begun, tally = self._monotonic(), self.tally
        tally.sent += 1
        self._in_flight += 1
        future = await producer.send(TOPIC, encode(partition, value, _SIZE), partition=partition)

        def on_done(done: asyncio.Future[Any]) -> None:
            self._in_flight -= 1
            self._room.set()
            if done.cancelled() or done.exception() is not None:
                tally.on_failed()
                return
            now = self._monotonic()
            self._latencies.append((now, now - begun))
            tally.on_acknowledged(partition, done.result().offset, value)

        future.add_done_callback(on_done)

    async def _read(self, consumer: Consumer) -> None:
        while True:
            found = await consumer.getmany(timeout_ms=POLL_MS)
            for place, records in found.items():
                for record in records:
                    value = self._value_of(record.value)
                    if value is not None:
                        self.tally.on_read(place.partition, record.offset, value)
                if records:
                    self.tally.on_passed(place.partition, records[-1].offset + 1)

    def _value_of(self, payload: bytes | None) -> int | None:
        """The number of a record; None of other writers' records."""
        try:
            _, value = decode(payload)
        except CorruptPayload:
            return None
        return value if value >= self._first_value else None

    async def _settle(self) -> None:
        """Wait until the reader has what was acknowledged, for a while."""
        try:
            async with asyncio.timeout(SLOW_S):
                tally = self.tally
                while self._in_flight > 0 or tally.read < tally.acknowledged:  # noqa: ASYNC110
                    await asyncio.sleep(STEP_S)
        except TimeoutError:
            return

    async def _show_often(self) -> None:
        while True:
            await asyncio.sleep(SHOW_S)
            self._show(error=None)

    def _show(self, *, error: str | None) -> None:
        tally = self.tally
        self._live.set(
            "workload",
            WORKLOAD,
            {
                "state": self.state,
                "topic": TOPIC,
                "sent": tally.sent,
                "acknowledged": tally.acknowledged,
                "read": tally.read,
                "lost": tally.lost,
                "doubled": tally.doubled,
                "failed": tally.failed,
                "slowest_acknowledgement_ms": self.slowest_ms(SLOW_S),
                "error": error,
            },
        )

    def slowest_ms(self, seconds: float) -> int | None:
        """The slowest acknowledgement of the last seconds; None if there was none."""
        now = self._monotonic()
        while self._latencies and self._latencies[0][0] < now - 60:
            self._latencies.popleft()
        found = [took for at, took in self._latencies if at >= now - seconds]
        return round(max(found) * 1000) if found else None


async def _create_topic(bootstrap: str) -> None:
    """Create the topic, with as many replicas as there are brokers, three at the most."""
    from strandline import Admin, NewTopic
    from strandline.errors import TopicAlreadyExists

    async with Admin(bootstrap) as admin:
        replicas = min(3, len(await admin.brokers()))
        config = {"min.insync.replicas": str(min(2, replicas))}
        topic = NewTopic(
            TOPIC, num_partitions=PARTITIONS, replication_factor=replicas, config=config
        )
        try:
            await admin.create_topics([topic])
        except TopicAlreadyExists:
            return


def _first(group: BaseExceptionGroup[Any]) -> Exception:
    found: Any = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found

"""The same transactions through Strandline's own client, beside librdkafka."""

import asyncio
import secrets
import time
from typing import TYPE_CHECKING

from strandline_bench import loop
from strandline_bench.kafka.workload import WAIT_S
from strandline_bench.transactions.librdkafka import COMMIT_EVERY_S, RECORD_BYTES, WARM

if TYPE_CHECKING:
    from strandline import Producer
    from strandline.types import IsolationLevel


def begin_to_commit_ms(
    bootstrap: str, topic: str, partitions: int, *, producers: int, count: int
) -> list[float]:
    """The time of each transaction, of `producers` that each write one after the other."""

    async def work() -> list[float]:
        async with _transactional(bootstrap) as producer:
            for _ in range(WARM):
                await _transaction_ms(producer, topic, partitions)
            return [await _transaction_ms(producer, topic, partitions) for _ in range(count)]

    async def every() -> list[float]:
        taken = await asyncio.gather(*(work() for _ in range(producers)))
        return [each for of_one in taken for each in of_one]

    return loop.run(every())


def plain_s(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Seconds to write records and have them acknowledged, without transactions."""
    from strandline import Producer

    async def work() -> float:
        value = secrets.token_bytes(RECORD_BYTES)
        async with Producer(bootstrap) as producer:
            for each in range(partitions):
                await producer.send_and_wait(topic, value, partition=each)
            began = time.perf_counter()
            for number in range(count):
                await producer.send(topic, value, partition=number % partitions)
            await producer.flush()
            return time.perf_counter() - began

    return loop.run(work())


def committed_s(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Seconds to write the same with a commit every 100 ms."""

    async def work() -> float:
        value = secrets.token_bytes(RECORD_BYTES)
        async with _transactional(bootstrap) as producer:
            await _transaction_ms(producer, topic, partitions)
            began = time.perf_counter()
            await producer.begin_transaction()
            due = began + COMMIT_EVERY_S
            for number in range(count):
                await producer.send(topic, value, partition=number % partitions)
                if number % 100 == 0 and time.perf_counter() >= due:
                    await producer.commit_transaction()
                    await producer.begin_transaction()
                    due = time.perf_counter() + COMMIT_EVERY_S
            await producer.commit_transaction()
            return time.perf_counter() - began

    return loop.run(work())


def read_s(
    bootstrap: str, topic: str, partitions: int, count: int, isolation: "IsolationLevel"
) -> float:
    """Seconds to read `count` records from the first on."""
    from strandline import Consumer

    async def work() -> float:
        async with Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation
        ) as consumer:
            began = time.perf_counter()
            await consumer.assign([(topic, each) for each in range(partitions)])
            seen = 0
            while seen < count:
                polled = await consumer.getmany(max_records=10_000, timeout_ms=100)
                if time.perf_counter() - began > WAIT_S:
                    raise TimeoutError(f"{seen} of {count} records read in {WAIT_S} s")
                seen += sum(map(len, polled.values()))
            return time.perf_counter() - began

    return loop.run(work())


def _transactional(bootstrap: str) -> "Producer":
    from strandline import Producer

    return Producer(bootstrap, transactional_id=f"bench-{secrets.token_hex(4)}")


async def _transaction_ms(producer: "Producer", topic: str, partitions: int) -> float:
    began = time.perf_counter()
    await producer.begin_transaction()
    for each in range(partitions):
        await producer.send(topic, b"one", partition=each)
    await producer.commit_transaction()
    return (time.perf_counter() - began) * 1e3

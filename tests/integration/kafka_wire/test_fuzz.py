"""Requests by chance against a broker's Kafka listener.

No frame may end a broker, fail in a way that it did not foresee, or change a record of another
topic. Each frame affects its own connection alone: a client beside them writes and reads.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import TYPE_CHECKING, Final

import pytest

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.types import TopicPartition
from strandline_bench.resources import resident_mb
from support.kafka_cluster import KafkaCluster, kafka_cluster
from support.kafka_fuzz import random_frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

SEED: Final = int(os.environ.get("TEST_FUZZ_SEED", "0")) or time.time_ns()
CONNECTIONS: Final = 2
"""Each waits most of its time for an answer. More of them would only take the processor from tests
beside this one.
"""
FRAMES_MAX: Final = 6
"""Frames of one connection."""
ANSWER_S: Final = 0.05
GROWTH_MB_MAX: Final = 400.0
PRECIOUS: Final = "precious"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with kafka_cluster(tmp_path, brokers=1, auto_create_topics_enable="false") as made:
        yield made


@pytest.mark.parametrize("frames", [1_000, pytest.param(5_000, marks=pytest.mark.proof)])
async def test_random_frames_harm_no_other_client(cluster: KafkaCluster, frames: int) -> None:
    broker, port = cluster.processes["broker-1"], cluster.kafka_ports[1]
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(PRECIOUS, 1, 1), NewTopic("fuzz", 2, 1)])
    before_mb, told = resident_mb(broker.pid), f"TEST_FUZZ_SEED={SEED}"
    sent, done = 0, asyncio.Event()

    async def fuzz(number: int) -> None:
        nonlocal sent
        rng = random.Random(f"{SEED} {number}")
        while sent < frames:
            assert broker.poll() is None, told
            sent += await _one_connection(rng, port)

    async with asyncio.TaskGroup() as group:
        written = group.create_task(_write(cluster, done))
        async with asyncio.TaskGroup() as connections:
            for number in range(CONNECTIONS):
                connections.create_task(fuzz(number))
        done.set()
    assert broker.poll() is None, told
    assert _unforeseen(cluster.log("broker-1")) == [], told
    assert await _read(cluster, written.result()) == list(range(written.result())), told
    assert resident_mb(broker.pid) - before_mb < GROWTH_MB_MAX, told


async def _one_connection(rng: random.Random, port: int) -> int:
    """Sends some frames, reads what comes soon, and leaves. Returns the number of frames."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = rng.randint(1, FRAMES_MAX)
    try:
        for _ in range(count):
            writer.write(random_frame(rng))
        await writer.drain()
        async with asyncio.timeout(ANSWER_S):
            while await reader.read(1 << 16):
                pass
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.transport.abort()
    return count


async def _write(cluster: KafkaCluster, done: asyncio.Event) -> int:
    """Writes numbers, each awaited, while frames come in; returns how many."""
    count = 0
    async with Producer(cluster.bootstrap, acks="all") as producer:
        while not done.is_set():
            await producer.send_and_wait(PRECIOUS, b"%d" % count)
            count += 1
            await asyncio.sleep(0.05)
    return count


async def _read(cluster: KafkaCluster, count: int) -> list[int]:
    found: list[int] = []
    async with Consumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([TopicPartition(PRECIOUS, 0)])
        async with asyncio.timeout(60):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [int(record.value or b"-1") for record in records]
    return found


def _unforeseen(log: str) -> list[str]:
    """The lines of failures that the broker did not foresee."""
    return [line for line in log.splitlines() if "unforeseen" in line or "Traceback" in line]

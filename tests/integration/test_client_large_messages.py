"""Messages that the transport refuses for their size: what they hold is sent in smaller ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Producer
from strandline.errors import RecordTooLarge
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = 40_000


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    """A broker that takes messages of 40 kB, as a proxy before it may."""
    async with scripted_cluster(1) as scripted:
        [broker] = scripted.brokers.values()
        await broker.stop()
        broker.message_bytes_max = LIMIT
        await broker.start()
        yield scripted


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_in_flight": 1},
        {"enable_idempotence": False, "max_in_flight": 1},
        {"acks": 1, "max_in_flight": 1},
    ],
)
async def test_a_batch_above_the_limit_is_cut(
    cluster: ScriptedCluster, options: dict[str, Any]
) -> None:
    [p] = cluster.create("orders")
    sent = [b"%06d" % i + bytes(494) for i in range(400)]
    async with Producer(cluster.bootstrap, delivery_timeout_ms=20_000, **options) as producer:
        futures = [await producer.send("orders", value) for value in sent]
        assert [(await future).offset for future in futures] == list(range(400))
    assert p.values() == sent


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_record_above_the_limit_fails_alone(
    cluster: ScriptedCluster, idempotent: bool
) -> None:
    [p] = cluster.create("orders")
    sent = [b"before", bytes(50_000), b"after"]
    async with Producer(
        cluster.bootstrap, enable_idempotence=idempotent, max_in_flight=1, linger_ms=10
    ) as producer:
        futures = [await producer.send("orders", value) for value in sent]
        before, error, after = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(error, RecordTooLarge)
    assert not error.may_have_been_written
    assert "orders:0: a record of 50000 bytes" in str(error)
    assert f"vs. {LIMIT}" in str(error)
    assert not isinstance(before, BaseException)
    assert not isinstance(after, BaseException)
    assert p.values() == [b"before", b"after"]


async def test_batches_that_share_a_message_are_sent_alone(cluster: ScriptedCluster) -> None:
    """None of them is above the limit."""
    partitions = cluster.create("orders", 3)
    async with Producer(cluster.bootstrap, delivery_timeout_ms=20_000) as producer:
        for _ in range(3):
            futures = [await producer.send("orders", bytes(20_000), partition=p) for p in range(3)]
            await asyncio.gather(*futures)
    assert [len(p.values()) for p in partitions] == [3, 3, 3]

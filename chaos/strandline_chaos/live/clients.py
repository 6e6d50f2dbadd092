"""The library's producer and consumer, with the interface that the workload needs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from strandline import Consumer, Producer
from strandline.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DELIVERY_S: Final = 30.0
"""Longer than any election, shorter than a run: an outcome is known before the run ends."""


class TopicReader:
    """All partitions of one topic from their beginning, by number."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic

    async def poll(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        found = await self._consumer.getmany(timeout_ms=timeout_s * 1000)
        return {
            tp.partition: [(record.offset, record.value) for record in records]
            for tp, records in found.items()
        }

    async def beginning_offsets(self) -> dict[int, int]:
        begins = await self._consumer.beginning_offsets(sorted(self._consumer.assignment()))
        return {tp.partition: begin for tp, begin in begins.items()}

    async def end_offsets(self) -> dict[int, int]:
        ends = await self._consumer.end_offsets(sorted(self._consumer.assignment()))
        return {tp.partition: end for tp, end in ends.items()}


@asynccontextmanager
async def open_sender(bootstrap: str) -> AsyncIterator[Producer]:
    """An idempotent producer that waits for all of the ISR."""
    async with Producer(bootstrap, acks="all", delivery_timeout_ms=DELIVERY_S * 1000) as producer:
        yield producer


@asynccontextmanager
async def open_reader(bootstrap: str, topic: str, partitions: int) -> AsyncIterator[TopicReader]:
    """A consumer of the first `partitions` partitions."""
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
        yield TopicReader(consumer, topic)

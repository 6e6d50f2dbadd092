"""A cache that processes share: each has it in memory, and a compacted topic keeps it.

    python compacted_cache.py

A compacted topic keeps the last value of each key, and a null value deletes its key. A process
reads the topic from the beginning when it starts, and follows it from then on. `put` returns once
this process has read its own write.
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from strandline import Admin, Consumer, NewTopic, Producer, TopicPartition
from strandline.errors import StrandlineError, TopicAlreadyExists

BOOTSTRAP = os.environ.get("STRANDLINE_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "prices"


class Cache:
    """The values of a compacted topic. Use it with `async with`."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._values = dict[str, bytes]()
        self._read = dict[int, int]()
        """The end of what was read, by partition."""
        self._changed = asyncio.Condition()
        self._producer = Producer(BOOTSTRAP)
        self._consumer = Consumer(bootstrap_servers=BOOTSTRAP)
        self._failure: StrandlineError | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await create(self._topic)
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._producer)
            await opening.enter_async_context(self._consumer)
            await self._load()
            opening.push_async_callback(ended, asyncio.create_task(self._follow()))
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    def get(self, key: str) -> bytes | None:
        return self.items().get(key)

    def items(self) -> dict[str, bytes]:
        """All values. Raises the error that has ended the reading, if one has."""
        if self._failure is not None:
            raise self._failure
        return dict(self._values)

    async def put(self, key: str, value: bytes | None) -> None:
        """Sets a value; None deletes the key."""
        done = await self._producer.send_and_wait(self._topic, value, key=key.encode())
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._failure or self._read.get(done.partition, 0) > done.offset
            )
        if self._failure is not None:
            raise self._failure

    async def _load(self) -> None:
        """Reads what the topic holds now."""
        numbers = await self._consumer.partitions_for_topic(self._topic)
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        await self._consumer.assign(partitions)
        await self._consumer.seek_to_beginning()
        ends = await self._consumer.end_offsets(partitions)
        while [p for p in partitions if await self._consumer.position(p) < ends[p]]:
            await self._read_some()

    async def _follow(self) -> None:
        try:
            while True:
                await self._read_some()
        except StrandlineError as error:
            self._failure = error
            async with self._changed:
                self._changed.notify_all()

    async def _read_some(self) -> None:
        found = await self._consumer.getmany(timeout_ms=500)
        async with self._changed:
            for partition, records in found.items():
                for record in records:
                    key = (record.key or b"").decode()
                    if record.value is None:
                        self._values.pop(key, None)
                    else:
                        self._values[key] = record.value
                    self._read[partition.partition] = record.offset + 1
            self._changed.notify_all()


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def create(topic: str) -> None:
    settings = {"cleanup.policy": "compact"}
    async with Admin(BOOTSTRAP) as admin:
        with suppress(TopicAlreadyExists):  # by an earlier run, or by another process
            await admin.create_topics([NewTopic(topic, num_partitions=3, config=settings)])


async def main() -> None:
    try:
        async with Cache(TOPIC) as cache:
            await cache.put("tea", b"3.20")
            await cache.put("coffee", b"4.10")
            await cache.put("tea", b"3.40")
            await cache.put("coffee", None)
            print("written:", cache.items())
        async with Cache(TOPIC) as another:
            print("read by another:", another.items())
    except StrandlineError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    asyncio.run(main())

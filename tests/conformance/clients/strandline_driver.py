"""Driver of Strandline's own client, which speaks gRPC to the same address."""

from __future__ import annotations

import asyncio
import sys
import time
from importlib import metadata
from typing import Any

from conformance.clients.loop import POLL_S, headers_of, record, serve, unpacked
from strandline import Consumer, Producer, TopicPartition


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._transactional: dict[str, Producer] = {}

    def version(self) -> dict[str, Any]:
        return {"version": metadata.version("strandline")}

    async def produce(
        self,
        topic: str,
        records: list[dict[str, Any]],
        codec: str = "none",
    ) -> dict[str, Any]:
        compression = None if codec == "none" else codec
        async with Producer(self._bootstrap, compression_type=compression) as producer:
            sent = [
                await producer.send(
                    topic,
                    unpacked(each["value"]),
                    unpacked(each["key"]),
                    partition=each["partition"],
                    timestamp_ms=each["timestamp"],
                    headers=tuple(headers_of(each)),
                )
                for each in records
            ]
            placed = await asyncio.gather(*sent)
        return {"placed": [[each.partition, each.offset] for each in placed]}

    async def tx_open(self, name: str, transactional_id: str) -> None:
        """Begins the life of a transactional producer."""
        producer = Producer(self._bootstrap, transactional_id=transactional_id)
        await producer.start()
        self._transactional[name] = producer

    async def tx_send(self, name: str, topic: str, records: list[dict[str, Any]]) -> None:
        """Begins a transaction and sends records in it."""
        producer = self._transactional[name]
        await producer.begin_transaction()
        sent = [
            await producer.send(
                topic,
                unpacked(each["value"]),
                unpacked(each["key"]),
                partition=each["partition"],
                timestamp_ms=each["timestamp"],
            )
            for each in records
        ]
        await asyncio.gather(*sent)

    async def tx_end(self, name: str, commit: bool) -> None:
        producer = self._transactional[name]
        await (producer.commit_transaction() if commit else producer.abort_transaction())

    async def read(self, topic: str, partitions: list[int], timeout_s: float) -> dict[str, Any]:
        """Every record from the start of each partition to its end as it is now."""
        asked = [TopicPartition(topic, each) for each in partitions]
        async with Consumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            await consumer.assign(asked)
            await consumer.seek_to_beginning(*asked)
            ends = await consumer.end_offsets(asked)
            records = []
            deadline = time.monotonic() + timeout_s
            while any([await consumer.position(each) < ends[each] for each in asked]):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"positions do not reach {ends}")
                polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                records += [
                    record(
                        (each.partition, each.offset),
                        each.timestamp,
                        each.key,
                        each.value,
                        each.headers,
                    )
                    for batch in polled.values()
                    for each in batch
                ]
            return {"records": records}


async def main() -> None:
    await serve(Driver(sys.argv[1]))


if __name__ == "__main__":
    asyncio.run(main())

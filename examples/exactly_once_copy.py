"""A copy of a topic that has each record once, whatever fails.

    strandline topic create orders && strandline topic create bills
    python exactly_once_copy.py 1 &
    python exactly_once_copy.py 2 &
    printf 'tea\\ncoffee\\n' | strandline produce orders
    strandline consume bills --from-beginning --isolation-level read_committed

Each batch of records is a transaction: the results and the offsets of the records are committed
together, or not at all. Instances share the partitions. The argument is the number of an instance,
and part of its transactional id: an instance that starts again ends what it has left open, and
fences what is left of its former self. SIGTERM ends an instance after the batch in work.
"""

import asyncio
import os
import signal
import sys

from strandline import Consumer, ConsumerRecord, ConsumeTransformProduce, Producer
from strandline.errors import StrandlineError

BOOTSTRAP = os.environ.get("STRANDLINE_BOOTSTRAP", "127.0.0.1:9092")
SOURCE, TARGET, GROUP = "orders", "bills", "billing"


def transform(record: ConsumerRecord) -> bytes:
    """The result of one record. It must depend on nothing else: a batch may be done again."""
    return b"bill for " + (record.value or b"nothing")


async def copy(instance: str, stop: asyncio.Event) -> None:
    async with (
        Consumer(
            SOURCE,
            bootstrap_servers=BOOTSTRAP,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
        Producer(BOOTSTRAP, transactional_id=f"{GROUP}-{instance}") as producer,
    ):
        batches = ConsumeTransformProduce(consumer, producer, max_records=500)
        stopping = asyncio.create_task(stop.wait())
        while not stop.is_set():
            polling = asyncio.create_task(anext(batches))
            await asyncio.wait([polling, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not polling.done():
                polling.cancel()
                await asyncio.wait([polling])
                return
            batch = await polling
            async with batch as records:
                for record in records:
                    await producer.send(TARGET, transform(record), key=record.key)
            if batch.is_committed:
                print(f"copied {len(records)}", flush=True)


async def main(instance: str) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    try:
        await copy(instance, stop)
    except StrandlineError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "1"))

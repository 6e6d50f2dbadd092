"""A group of workers that retry jobs, and set aside the ones that fail for good.

    strandline topic create jobs --partitions 3
    strandline topic create jobs.dead
    python worker_group.py &
    python worker_group.py &
    printf '8\\n0\\n4\\n' | strandline produce jobs
    strandline consume jobs.dead --from-beginning -f '%v %h\\n'

Each worker is a member of one group, so the workers share the partitions. A job is committed after
it was done or set aside. A worker that dies leaves its jobs to the others: they may be done
twice, and are never skipped. SIGTERM ends a worker after the job in work.
"""

import asyncio
import os
import signal
import sys

from strandline import Consumer, ConsumerRecord, Producer
from strandline.errors import CommitFailed, StrandlineError

BOOTSTRAP = os.environ.get("STRANDLINE_BOOTSTRAP", "127.0.0.1:9092")
JOBS, DEAD, GROUP = "jobs", "jobs.dead", "workers"
ATTEMPTS = 3
FIRST_PAUSE_S = 0.1
"""It doubles with each attempt. The partition waits meanwhile, so it stays short."""


class TemporaryError(Exception):
    """A failure that another attempt may not meet: a service that does not answer, for instance."""


async def do(job: ConsumerRecord) -> None:
    """The work. This one divides, and its first attempt at `flaky` fails."""
    text = (job.value or b"").decode()
    if text == "flaky" and attempts.setdefault(job.offset, 0) == 0:
        attempts[job.offset] += 1
        raise TemporaryError("the service did not answer")
    number = 1 if text == "flaky" else int(text)
    print(f"{text}: {100 / number:g}", flush=True)


attempts = dict[int, int]()


async def do_or_set_aside(job: ConsumerRecord, producer: Producer) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await do(job)
        except TemporaryError as error:
            failure: Exception = error
            if attempt < ATTEMPTS:
                await asyncio.sleep(FIRST_PAUSE_S * 2 ** (attempt - 1))
        except Exception as error:  # noqa: BLE001 - one bad job must not stop the others
            failure = error
            break
    await producer.send_and_wait(
        DEAD,
        job.value,
        key=job.key,
        headers=(
            *job.headers,
            ("error", f"{type(failure).__name__}: {failure}".encode()),
            ("attempts", str(attempt).encode()),
            ("source", f"{job.topic}:{job.partition}:{job.offset}".encode()),
        ),
    )
    return None


async def work(stop: asyncio.Event) -> None:
    async with (
        Producer(BOOTSTRAP) as producer,
        Consumer(
            JOBS,
            bootstrap_servers=BOOTSTRAP,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        while not stop.is_set():
            found = await consumer.getmany(timeout_ms=500, max_records=10)
            for partition, jobs in found.items():
                for job in jobs:
                    await do_or_set_aside(job, producer)
                    try:
                        await consumer.commit({partition: job.offset + 1})
                    except CommitFailed:
                        break  # The group took the partition away: another worker does the rest.
                    if stop.is_set():
                        return


async def main() -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    try:
        await work(stop)
    except StrandlineError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    asyncio.run(main())

"""The cost of thousands of partitions: at creation, at rest, when a broker dies, and at its
return.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from strandline_bench.options import Options
from strandline_bench.peers.kafka import KafkaPeer
from strandline_bench.report import Figures, Report, median, percentile
from strandline_bench.resources import cpu_s, resident_mb
from strandline_bench.target import own_cluster
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from strandline import Admin, Producer
    from strandline.types import PartitionInfo

FEW: Final = 50
"""Number of partitions that a coordinator's topic has."""
WAIT_S: Final = 600.0
IDLE_S: Final = 20.0
CALM_S: Final = 3.0
POLL_S: Final = 0.1
TOPIC: Final = "bench-partitions"
WRITTEN: Final = "bench-written"
FIRST: Final = b"first"

Condition = Callable[["PartitionInfo"], bool]


def run(options: Options, report: Report) -> None:
    import uvloop

    with own_cluster(options) as cluster:
        cluster.up()
        uvloop.run(_measure(cluster, options, report))
    if options.peer_kafka is not None:
        _measure_kafka(options.peer_kafka, options, report)


async def _measure(cluster: LocalCluster, options: Options, report: Report) -> None:
    from strandline import Admin, Producer

    victim, *survivors = cluster.broker_ids
    async with (
        Admin(cluster.grpc_bootstrap, request_timeout_ms=int(WAIT_S * 1000)) as admin,
        Producer(
            cluster.grpc_bootstrap, acks=options.acks, delivery_timeout_ms=WAIT_S * 1000
        ) as producer,
        _fencings(admin) as fenced,
    ):
        few = await first_acks(admin, producer, "bench-few", FEW, options)
        report.measured("few-partitions", _created(few))
        many = await first_acks(admin, producer, TOPIC, options.partitions, options)
        report.measured("create", {**_created(many), "fenced": len(fenced)})
        await _until(lambda: _all(admin, lambda p: set(p.isr) == set(p.replicas)))
        report.measured("idle", await _idle(cluster))
        await _create_written(admin, survivors, options)
        acks = _Acks(producer)
        async with acks.written():
            await asyncio.sleep(CALM_S)
            calm = acks.taken()
            fenced_before = len(fenced)
            killed = time.monotonic()
            cluster.crash(victim)
            await _until(lambda: _is_fenced(admin, victim))
            noticed = time.monotonic()
            await _until(lambda: _all(admin, lambda p: p.leader in survivors))
            led = time.monotonic()
            meanwhile = acks.taken()
            started = time.monotonic()
            await asyncio.to_thread(cluster.start, victim, wait_s=WAIT_S)
            ready = time.monotonic()
            await _until(lambda: _all(admin, lambda p: set(p.isr) == set(p.replicas)))
            rejoined = time.monotonic()
    report.measured(
        "partitions",
        {
            **_created(many),
            "noticed_s": noticed - killed,
            "led_again_s": led - noticed,
            "ack_ms_p50_before": median(calm),
            "ack_ms_p50_meanwhile": median(meanwhile),
            "ack_ms_p99_meanwhile": percentile(meanwhile, 0.99),
            "ready_s": ready - started,
            "rejoined_s": rejoined - started,
            "fenced": len(fenced),
            "fenced_by_itself": fenced_before,
        },
    )


def _measure_kafka(bootstrap: str, options: Options, report: Report) -> None:
    kafka = KafkaPeer(bootstrap, replication_factor=options.replication_factor)
    try:
        few = kafka.first_acks(FEW, options.min_insync_replicas, options.acks)
        report.measured("kafka_few-partitions", _created(few))
        many = kafka.first_acks(options.partitions, options.min_insync_replicas, options.acks)
        figures = _created(many)
        if options.peer_kill is not None and options.peer_restart is not None:
            figures.update(kafka.led_again(options.peer_kill, options.peer_restart))
        report.measured("kafka_partitions", figures)
    finally:
        kafka.close()


def _created(acks_s: list[float]) -> Figures:
    """The time at which each partition of a topic had acknowledged its first record."""
    return {
        "partitions": len(acks_s),
        "create_s": max(acks_s),
        "first_ack_s_p50": median(acks_s),
    }


async def first_acks(
    admin: "Admin", producer: "Producer", name: str, partitions: int, options: Options
) -> list[float]:
    """Seconds from the request to create a topic to the first acknowledged record, for each
    partition. The producer is connected before. `KafkaPeer.first_acks` measures the same.
    """
    from strandline import NewTopic

    least = {"min.insync.replicas": str(options.min_insync_replicas)}
    topic = NewTopic(name, partitions, options.replication_factor, config=least)
    began = time.monotonic()
    await admin.create_topics([topic])

    async def first_ack_s(partition: int) -> float:
        await producer.send_and_wait(name, FIRST, partition=partition)
        return time.monotonic() - began

    async with asyncio.timeout(WAIT_S):
        return await asyncio.gather(*map(first_ack_s, range(partitions)))


async def _create_written(admin: "Admin", survivors: list[int], options: Options) -> None:
    """A topic that the broker to be killed has nothing to do with."""
    from strandline import NewTopic

    replicas = survivors[: options.min_insync_replicas]
    least = {"min.insync.replicas": str(len(replicas))}
    topic = NewTopic(WRITTEN, replica_assignment=[replicas], config=least)
    await admin.create_topics([topic])


async def _until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await true():  # noqa: ASYNC110 - a cluster is asked
            await asyncio.sleep(POLL_S)


async def _all(admin: "Admin", condition: Condition) -> bool:
    topics = (await admin.describe_topics(include_internal=True)).values()
    return all(condition(p) for topic in topics for p in topic.partitions)


async def _is_fenced(admin: "Admin", broker_id: int) -> bool:
    brokers = (await admin.describe_cluster()).brokers
    return any(broker.id == broker_id and broker.state != "UNFENCED" for broker in brokers)


@contextlib.asynccontextmanager
async def _fencings(admin: "Admin") -> AsyncIterator[list[int]]:
    """The brokers that were seen fenced, one entry for each time."""
    seen: list[int] = []
    out: set[int] = set()

    async def look() -> None:
        while True:
            brokers = (await admin.describe_cluster()).brokers
            now = {broker.id for broker in brokers if broker.state != "UNFENCED"}
            seen.extend(now - out)
            out.clear()
            out.update(now)
            await asyncio.sleep(POLL_S)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _idle(cluster: LocalCluster) -> dict[str, float | int | str]:
    """Each broker's share of a core without any requests, the largest of all brokers."""
    await asyncio.sleep(CALM_S)
    pids = [pid for i in cluster.broker_ids if (pid := cluster.process(i).pid) is not None]
    before = [cpu_s(pid) for pid in pids]
    began = time.monotonic()
    await asyncio.sleep(IDLE_S)
    took = time.monotonic() - began
    shares = [(cpu_s(pid) - was) / took for pid, was in zip(pids, before, strict=True)]
    return {
        "idle_cpu_share": max(shares),
        "rss_mb": max(resident_mb(pid) for pid in pids),
    }


class _Acks:
    """The latency of each record when one is awaited before the next."""

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer
        self._taken_ms: list[float] = []

    def taken(self) -> list[float]:
        """Milliseconds since the last call."""
        taken, self._taken_ms = self._taken_ms, []
        return taken

    @contextlib.asynccontextmanager
    async def written(self) -> AsyncIterator[None]:
        writing = asyncio.create_task(self._write())
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            began = time.monotonic()
            await self._producer.send_and_wait(WRITTEN, b"." * 100, partition=0)
            self._taken_ms.append((time.monotonic() - began) * 1e3)
            await asyncio.sleep(0.005)

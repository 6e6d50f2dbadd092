"""The console: how soon a page shows an event, and what the watch of a cluster costs."""

import asyncio
import contextlib
import os
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from functools import partial
from signal import SIGKILL
from threading import Event, Thread
from typing import Final

from strandline_bench import loop
from strandline_bench.console.browser import chromium
from strandline_bench.console.kill import follow_kill
from strandline_bench.console.options import ConsoleOptions
from strandline_bench.console.pixel import Stream, follow, times_ms, what_is_missing
from strandline_bench.payloads import payloads
from strandline_bench.report import Figures, Report, median, percentile
from strandline_bench.resources import cpu_s
from strandline_bench.target import fresh_topic, own_cluster
from strandline_cli.cluster.console_start import start_console
from strandline_local.cluster_files import CONTROLLER
from strandline_local.console_process import console_process, stop_console
from strandline_local.local_cluster import LocalCluster

PIXEL_MS_MAX: Final = 150
KILL_MS_MAX: Final = 1_000
CORES_MAX: Final = 0.3
RECORD_SIZE: Final = 100
SETTLE_S: Final = 2.0
"""Time in which the load, and the keyframes of a new watcher, pass."""
STEP_S: Final = 0.05
WAIT_S: Final = 30.0


def run(options: ConsoleOptions, report: Report) -> None:
    if {"pixel", "kill"} & set(options.only) and (missing := what_is_missing()):
        raise SystemExit(f"error: {missing}")
    with own_cluster(options) as cluster:
        cluster.up()
        try:
            loop.run(_parts(cluster, options, report))
        finally:
            stop_console(cluster.directory)


async def _parts(cluster: LocalCluster, options: ConsoleOptions, report: Report) -> None:
    async with fresh_topic(cluster.grpc_bootstrap, "bench-console", options) as topic:
        if "pixel" in options.only:
            await pixel(cluster, topic, options, report)
        if "cost" in options.only:
            await _cost(cluster, topic, options, report)
        if "kill" in options.only:
            await asyncio.to_thread(_kill, cluster, options, report)


async def pixel(
    cluster: LocalCluster, topic: str, options: ConsoleOptions, report: Report
) -> list[float]:
    """Follow records of partition 0 to the page, and report the times."""
    from strandline import Producer

    leader = await _leader(cluster.grpc_bootstrap, topic)
    address = start_console(cluster.directory, 0).address
    async with Producer(cluster.grpc_bootstrap, acks="1") as producer:

        async def send() -> int:
            told = await producer.send_and_wait(topic, b"x" * RECORD_SIZE, partition=0)
            return told.offset + 1

        page = f"{address}#/partition/{topic}:0"
        cell = f'[data-testid="lane-{leader}"] [data-offset="end"]'
        with chromium() as browser, Stream(address, f"{topic}:0", leader) as stream:
            sent, drawn = await follow(browser, page, cell, send, options.records)
    stop_console(cluster.directory)
    taken, streamed = times_ms(sent, drawn), times_ms(sent, stream.seen)
    report.measured(
        "pixel",
        {
            "p50_ms": percentile(taken, 0.5),
            "p95_ms": percentile(taken, 0.95),
            "max_ms": max(taken),
            "bound_p95_ms": PIXEL_MS_MAX,
            "stream_p50_ms": percentile(streamed, 0.5),
            "stream_p95_ms": percentile(streamed, 0.95),
            "load": os.getloadavg()[0],
            "records": len(taken),
        },
    )
    return taken


def _kill(cluster: LocalCluster, options: ConsoleOptions, report: Report) -> None:
    """Kill the last broker again and again, and report how soon the board shows it."""
    broker = cluster.broker_ids[-1]
    address = start_console(cluster.directory, 0).address
    taken = []
    with chromium() as browser:
        for _ in range(options.rounds):
            process = cluster.process(broker)
            taken.append(follow_kill(browser, address, broker, partial(process.send, SIGKILL)))
            process.wait_until_gone(WAIT_S)
            process.forget()
            cluster.start(broker)
    stop_console(cluster.directory)
    report.measured(
        "kill",
        {
            "p50_ms": percentile(taken, 0.5),
            "max_ms": max(taken),
            "bound_max_ms": KILL_MS_MAX,
            "load": os.getloadavg()[0],
            "rounds": len(taken),
        },
    )


async def _leader(bootstrap: str, topic: str) -> int:
    """The leader of partition 0, once every broker that may be asked knows the new topic."""
    from strandline import Admin
    from strandline.errors import UnknownTopicOrPartition

    async with Admin(bootstrap) as admin, asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(UnknownTopicOrPartition):
                described = await admin.describe_topics([topic])
                leader = described[topic].partitions[0].leader
                if leader is not None and leader >= 0:
                    return leader
            await asyncio.sleep(STEP_S)


async def _cost(cluster: LocalCluster, topic: str, options: ConsoleOptions, report: Report) -> None:
    bare: list[dict[str, float]] = []
    watched: list[dict[str, float]] = []
    async with _load(cluster.grpc_bootstrap, topic, options):
        for _ in range(options.rounds):
            bare.append(await _round(cluster, options.seconds))
            address = start_console(cluster.directory, 0).address
            with _page(address) as frames:
                watched.append(await _round(cluster, options.seconds, frames))
            stop_console(cluster.directory)
    cores = {name: median([one[name] for one in watched]) for name in watched[0]}
    without = {name: median([one[name] for one in bare]) for name in bare[0]}
    brokers = max(0.0, cores["brokers"] - without["brokers"])
    controller = max(0.0, cores["controller"] - without["controller"])
    figures: Figures = {
        "cores": cores["console"] + brokers + controller,
        "bound_cores": CORES_MAX,
        "console_cores": cores["console"],
        "brokers_cores": brokers,
        "controller_cores": controller,
        "brokers_cores_without": without["brokers"],
        "frames_s": cores["frames"],
        "rounds": options.rounds,
    }
    report.measured("cost", figures)


async def _round(
    cluster: LocalCluster, seconds: int, frames: list[int] | None = None
) -> dict[str, float]:
    """Cores that each side uses in these seconds, and the frames that a page gets."""
    await asyncio.sleep(SETTLE_S)
    began_s, before = time.monotonic(), _used(cluster)
    first = 0 if frames is None else frames[0]
    await asyncio.sleep(seconds)
    passed_s = time.monotonic() - began_s
    found = {name: (used - before[name]) / passed_s for name, used in _used(cluster).items()}
    if frames is not None:
        found["frames"] = (frames[0] - first) / passed_s
    return found


def _used(cluster: LocalCluster) -> dict[str, float]:
    """Seconds of a core that the processes have used."""
    brokers = [cluster.process(broker_id).pid for broker_id in cluster.broker_ids]
    console = console_process(cluster.directory).pid
    return {
        "brokers": sum(cpu_s(pid) for pid in brokers if pid is not None),
        "controller": sum(cpu_s(pid) for pid in [cluster.process(CONTROLLER).pid] if pid),
        "console": 0.0 if console is None else cpu_s(console),
    }


@contextlib.asynccontextmanager
async def _load(bootstrap: str, topic: str, options: ConsoleOptions) -> AsyncIterator[None]:
    """Records for the partitions in turn, so that every frame has changes."""
    from strandline import Producer

    async def send(producer: Producer) -> None:
        began_s, sent = time.monotonic(), 0
        values = list(payloads(100, RECORD_SIZE))
        while True:
            due = int((time.monotonic() - began_s) * options.records_per_s)
            for number in range(sent, due):
                value = values[number % len(values)]
                await producer.send(topic, value, partition=number % options.partitions)
            sent = due
            await asyncio.sleep(STEP_S)

    async with Producer(bootstrap, acks="all") as producer:
        task = asyncio.create_task(send(producer))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def _page(address: str) -> Iterator[list[int]]:
    """A page's stream of the first partitions, read and counted in a thread."""
    frames, is_over = [0], Event()

    def read() -> None:
        request = f"{address}api/stream?count=200"
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30) as stream:
            for line in stream:
                frames[0] += line.startswith(b"event: delta")
                if is_over.is_set():
                    return

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        yield frames
    finally:
        is_over.set()
        reader.join(5)

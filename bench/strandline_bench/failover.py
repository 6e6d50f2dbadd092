"""The time from SIGKILL of a leader to the next acknowledged write on its partition, without
losses. Or the leader and the controller are killed, and only the controller restarts (P-81).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_bench.options import Options
from strandline_bench.report import Report, median, percentile
from strandline_bench.target import fresh_topic, own_cluster
from strandline_local.cluster_files import CONTROLLER
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from strandline import Admin, Producer

WRITERS: Final = 4
"""Writers that each wait for one record at a time, so some are in flight at any kill."""
CALM_S: Final = 0.5
FAILOVER_S_MAX: Final = 60.0
IN_SYNC_S_MAX: Final = 60.0
READ_BACK_S_MAX: Final = 120.0


@dataclass(slots=True)
class Writing:
    """The acknowledged records, and an event at the first one in a newer leader epoch."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    failed: int = 0
    newest_epoch: int = -1
    newer: asyncio.Event = field(default_factory=asyncio.Event)
    newer_at: float = 0.0

    def on_acknowledged(self, offset: int, epoch: int, payload: bytes) -> None:
        self.acknowledged[offset] = payload
        if epoch > self.newest_epoch:
            self.newest_epoch = epoch
            self.newer_at = time.monotonic()
            self.newer.set()


def run(options: Options, report: Report) -> None:
    import uvloop

    with own_cluster(options) as cluster:
        cluster.up()
        uvloop.run(_measure(cluster, options, report))


async def _measure(cluster: LocalCluster, options: Options, report: Report) -> None:
    from strandline import Admin, Producer

    taken: list[float] = []
    writing = Writing()
    async with (
        fresh_topic(cluster.grpc_bootstrap, "bench-failover", options) as topic,
        Admin(cluster.grpc_bootstrap) as admin,
        Producer(cluster.grpc_bootstrap, acks=options.acks) as producer,
    ):
        async with _writers(producer, topic, writing, options):
            for number in range(1, options.rounds + 1):
                await asyncio.sleep(CALM_S)
                victim, took_ms = await _kill_leader(
                    cluster, admin, topic, writing, with_controller=options.with_controller
                )
                taken.append(took_ms)
                report.measured(
                    "failover-round",
                    {"round": number, "broker": victim, "failover_ms": took_ms},
                )
                cluster.start(victim)
                await _until_in_sync(admin, topic)
        lost, doubled = await _compare(cluster.grpc_bootstrap, topic, writing)
    report.measured(
        "failover",
        {
            "failover_ms_p50": median(taken),
            "failover_ms_p90": percentile(taken, 0.9),
            "failover_ms_max": max(taken),
            "kills": len(taken),
            "acknowledged": len(writing.acknowledged),
            "not_acknowledged": writing.failed,
            "lost": lost,
            "duplicated": doubled,
        },
    )
    if lost or doubled:
        raise SystemExit(f"error: {lost} acknowledged records lost, {doubled} duplicated")


@contextlib.asynccontextmanager
async def _writers(
    producer: "Producer", topic: str, writing: Writing, options: Options
) -> AsyncIterator[None]:
    """Callers that write to partition 0 while the block runs."""
    from strandline.errors import DeliveryError

    stopping = False

    async def write(writer: int) -> None:
        number = 0
        while not stopping:
            number += 1
            payload = b"%d:%d " % (writer, number)
            payload += b"." * (options.record_size - len(payload))
            try:
                done = await producer.send_and_wait(topic, payload, partition=0)
            except DeliveryError:
                writing.failed += 1
                continue
            writing.on_acknowledged(done.offset, done.leader_epoch, payload)

    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(write(writer))
        try:
            yield
        finally:
            stopping = True


async def _kill_leader(
    cluster: LocalCluster, admin: "Admin", topic: str, writing: Writing, *, with_controller: bool
) -> tuple[int, float]:
    """The broker that was killed, and milliseconds until a newer epoch acknowledged a write.

    The controller dies first, so that it never sees the leader's end, and is started at once.
    """
    description = (await admin.describe_topics([topic]))[topic]
    victim = description.partitions[0].leader
    writing.newer.clear()
    killed_at = time.monotonic()
    if with_controller:
        await asyncio.to_thread(cluster.kill, CONTROLLER)
    cluster.crash(victim)
    if with_controller:
        cluster.launch(CONTROLLER)
    try:
        async with asyncio.timeout(FAILOVER_S_MAX):
            await writing.newer.wait()
    except TimeoutError:
        raise SystemExit(
            f"error: no write was acknowledged within {FAILOVER_S_MAX:.0f} s after broker"
            f" {victim} was killed; its logs are gone with the temporary directory"
        ) from None
    return victim, (writing.newer_at - killed_at) * 1e3


async def _until_in_sync(admin: "Admin", topic: str) -> None:
    async with asyncio.timeout(IN_SYNC_S_MAX):
        while True:
            description = (await admin.describe_topics([topic]))[topic]
            if all(set(p.isr) == set(p.replicas) and p.leader >= 0 for p in description.partitions):
                return
            await asyncio.sleep(0.1)


async def _compare(bootstrap: str, topic: str, writing: Writing) -> tuple[int, int]:
    """(acknowledged records that are not at their offset, values that stand at two offsets)."""
    from strandline import Consumer

    found: dict[int, bytes | None] = {}
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign([(topic, 0)])
        (end,) = (await consumer.end_offsets([(topic, 0)])).values()
        async with asyncio.timeout(READ_BACK_S_MAX):
            while not found or max(found) + 1 < end:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found.update((record.offset, record.value) for record in records)
    lost = sum(found.get(offset) != value for offset, value in writing.acknowledged.items())
    return lost, len(found) - len(set(found.values()))

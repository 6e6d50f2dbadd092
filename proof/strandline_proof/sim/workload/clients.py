"""The workload of a simulated run: the writers, readers and history of runs on real processes, with
each kind on a node of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import StrandlineError, TopicAlreadyExists
from strandline.types import TopicPartition
from strandline_chaos.live.clients import TopicReader
from strandline_chaos.workload import Plan, Workload
from strandline_proof.sim.kafka.producer import kafka_sender
from strandline_proof.sim.kafka.reader import kafka_reader
from strandline_proof.sim.topology.topology import TOPIC
from strandline_proof.sim.topology.work import Work
from strandline_proof.sim.workload.work_clients import CheckedReader, LastingReader, StampedSender

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from strandline_chaos.history import History
    from strandline_chaos.workload import Reader, Sender
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
RETRY_S: Final = 0.2
WRITERS: Final = 2
PAUSES: Final = 0.1
"""Probability that a writer pauses after a record or a burst, where producers are forgotten."""
PAUSE: Final = (1.0, 2.0)
"""Least and greatest pause, in multiples of the time for which producers are remembered."""


def workload(
    world: World,
    runtime: Runtime,
    *,
    writers: int,
    readers: int,
    keys: Sequence[int] | None = None,
    topic: str = TOPIC,
    partitions: int | None = None,
    history: History | None = None,
    sends_per_s: float | None = None,
) -> Workload:
    """The workload. `keys` are the partitions that readers read; if None, the whole topic, with
    partitions that are added. An argument that is None is as for the main topic.
    """
    bootstrap = world.topology.bootstrap
    how = world.topology.work if topic == TOPIC else other_work(world.topology.work)
    burst = how.burst if how.burst > 1 else 0
    speaks_kafka = how.kafka and topic == TOPIC

    @asynccontextmanager
    async def open_reader() -> AsyncIterator[Reader]:
        async with Consumer(
            *((topic,) if keys is None else ()),
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            request_timeout_ms=REQUEST_MS,
            connect_timeout_ms=REQUEST_MS,
            metadata_max_age_ms=world.metadata_max_age_ms,
            max_partition_fetch_bytes=world.topology.fetch_bytes,
            runtime=runtime,
        ) as consumer:
            if keys is not None:
                await consumer.assign([TopicPartition(topic, p) for p in keys])
            if topic != TOPIC:
                yield TopicReader(consumer, topic)
            elif not (how.lasting and readers):
                yield CheckedReader(world, consumer)
            else:
                world.clients.reader = LastingReader(world, consumer)
                yield world.clients.reader

    plan = Plan(
        topic,
        partitions or (lambda: world.partitions),
        writers=writers,
        readers=readers,
        sends_per_s=sends_per_s or max(world.topology.sends_per_s, burst),
        in_flight_max=32 + burst,
        payload_size=60,
        burst=(lambda: runtime.rng.randint(1, burst)) if burst else None,
        pause_s=_pauses(world, runtime) if how.expiry_ms > 0 else None,
        keeps_senders=how.lasting,
    )
    return Workload(
        plan,
        history or world.history,
        open_sender=partial(_open_sender, world, runtime, how, topic),
        open_reader=_kafka_reader(world, runtime, keys) if speaks_kafka else open_reader,
        values=world.values if topic == TOPIC else None,
    )


def _kafka_reader(
    world: World, runtime: Runtime, keys: Sequence[int] | None
) -> Callable[[], AbstractAsyncContextManager[Reader]]:
    return partial(
        kafka_reader,
        runtime,
        world.topology.kafka_bootstrap,
        TOPIC,
        keys=keys,
        partition_bytes=world.topology.fetch_bytes,
        compression=world.topology.work.compression,
        on_record=world.stamps.check,
        on_event=partial(_noted, world),
    )


def _noted(world: World, event: str) -> None:
    world.clients.sometimes[event] += 1


def other_work(main: Work) -> Work:
    """The work of another topic's clients: plain sends, in pauses shorter than the producers'
    expiry.
    """
    return Work(delivery_ms=main.delivery_ms) if main.expiry_ms > 0 else Work()


@asynccontextmanager
async def _open_sender(
    world: World, runtime: Runtime, how: Work, topic: str
) -> AsyncIterator[Sender]:
    if topic == TOPIC and how.kafka:
        async with kafka_sender(
            runtime,
            world.topology.kafka_bootstrap,
            delivery_s=how.delivery_ms / 1000,
            compression=how.compression,
            first_sequence=how.first_sequence,
            on_event=partial(_noted, world),
        ) as kafka:
            yield StampedSender(world, kafka, runtime)
        return
    async with Producer(
        world.topology.bootstrap,
        acks="all",
        linger_ms=how.linger_ms,
        batch_size=how.batch_bytes,
        compression_type=how.compression,
        delivery_timeout_ms=how.delivery_ms,
        request_timeout_ms=REQUEST_MS,
        connect_timeout_ms=REQUEST_MS,
        metadata_max_age_ms=world.metadata_max_age_ms,
        runtime=runtime,
    ) as producer:
        yield StampedSender(world, producer, runtime) if topic == TOPIC else producer


def _pauses(world: World, runtime: Runtime) -> Callable[[], float]:
    """Draws pauses: mostly none, and now and then so long that brokers forget the producer."""

    def pause_s() -> float:
        if runtime.rng.random() >= PAUSES:
            return 0.0
        world.clients.sometimes["writer paused until it was forgotten"] += 1
        return runtime.rng.uniform(*PAUSE) * world.topology.work.expiry_ms / 1000

    return pause_s


async def run_writer(world: World, runtime: Runtime, stop: asyncio.Event) -> None:
    """Creates the topic, however long that takes, and writes until stopped."""
    work = workload(world, runtime, writers=WRITERS, readers=0)
    world.nodes["writer"].process = work
    await until_created(world, runtime, stop, TOPIC, world.topology.partitions)
    await work.run(stop.wait())


async def run_reader(world: World, runtime: Runtime, stop: asyncio.Event) -> None:
    """Reads until stopped."""
    work = workload(world, runtime, writers=0, readers=1)
    world.nodes["reader"].process = work
    await work.run(stop.wait())


async def until_created(
    world: World, runtime: Runtime, stop: asyncio.Event, name: str, partitions: int
) -> None:
    """Repeats the creation until it is done, however long that takes, or until stopped."""
    topology = world.topology
    topic = NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=topology.replication_factor,
        config={
            "min.insync.replicas": str(topology.min_insync_replicas),
            "retention.ms": "-1",  # clocks jump
            "file.delete.delay.ms": "500",
        },
    )
    while not stop.is_set():
        admin: Any = Admin(
            topology.bootstrap,
            request_timeout_ms=REQUEST_MS,
            connect_timeout_ms=REQUEST_MS,
            runtime=runtime,
        )
        try:
            async with admin:
                await admin.create_topics([topic])
        except TopicAlreadyExists:
            return
        except StrandlineError:
            await asyncio.sleep(RETRY_S)
        else:
            return

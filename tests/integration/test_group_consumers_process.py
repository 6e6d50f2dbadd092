"""Consumers of groups on real brokers: shared work, committed positions, brokers that die."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from strandline import (
    Admin,
    Consumer,
    ConsumerRebalanceListener,
    NewTopic,
    Producer,
    TopicPartition,
    sync,
)
from strandline.errors import (
    InvalidRegularExpression,
    OffsetMetadataTooLarge,
    StrandlineError,
    UnsupportedAssignor,
)
from strandline_proto.java_hash import partition_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_local.local_cluster import LocalCluster

PATIENCE_S = 60.0
PARTITIONS = 6
OFFSETS = "__consumer_offsets"

Place = tuple[int, int]
"""Partition and offset."""


def member(cluster: LocalCluster, *topics: str, group: str, **options: object) -> Consumer:
    chosen: dict[str, object] = {"auto_offset_reset": "earliest", "group_id": group, **options}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, **chosen)  # type: ignore[arg-type]


async def prepare(cluster: LocalCluster, topic: str, records: int = 0) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
    async with Producer(cluster.bootstrap) as producer:
        done = await producer.send_many(topic, ((b"%d" % i, b"v%d" % i) for i in range(records)))
        assert done.acknowledged == records


async def coordinator_of(cluster: LocalCluster, group: str) -> int:
    async with Admin(cluster.bootstrap) as admin:
        described = (await admin.describe_topics([OFFSETS]))[OFFSETS]
    return described.partitions[partition_for(group, len(described.partitions))].leader


async def until(true: Callable[[], bool]) -> None:
    while True:
        if true():
            return
        await asyncio.sleep(0.01)


async def until_more(places: set[Place]) -> None:
    enough = len(places) + 100
    await until(lambda: len(places) >= enough)


class Load:
    """Records that are produced until it is told to end."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._bootstrap = cluster.bootstrap
        self._topic = topic
        self.acknowledged: set[Place] = set()
        self.end = asyncio.Event()

    async def run(self) -> None:
        async with Producer(self._bootstrap) as producer:
            while not self.end.is_set():
                sent = [await producer.send(self._topic, b"v", b"%d" % i) for i in range(20)]
                for answer in await asyncio.gather(*sent):
                    self.acknowledged.add((answer.partition, answer.offset))
                await asyncio.sleep(0.02)


class Worker(ConsumerRebalanceListener):
    """Reads and commits until it is told to end; notes what it was given."""

    def __init__(
        self, cluster: LocalCluster, topic: str, group: str, committed: set[Place]
    ) -> None:
        # Else a revocation commits what a commit below was refused for, and nobody knows.
        self.consumer = member(cluster, group=group, enable_auto_commit=False)
        self.consumer.subscribe(topics=[topic], listener=self)
        self.read: Counter[Place] = Counter()
        self.after_commit: Counter[Place] = Counter()
        self.end = asyncio.Event()
        self._committed = committed
        """What some worker knows to be committed."""
        self._open: set[Place] = set()
        """Read, not known to be committed, and this worker's to commit."""

    def has_work(self) -> bool:
        return bool(self.consumer.assignment())

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        gone = {tp.partition for tp in revoked}
        self._open = {place for place in self._open if place[0] not in gone}

    async def run(self) -> None:
        async with self.consumer as consumer:
            while not self.end.is_set():
                found = await consumer.getmany(timeout_ms=50, max_records=20)
                places = {(r.partition, r.offset) for rs in found.values() for r in rs}
                self.after_commit.update(places & self._committed)
                self.read.update(places)
                self._open |= places
                asked = set(self._open)
                try:
                    await consumer.commit()
                except StrandlineError:
                    continue  # the next one commits it, or somebody reads it again
                self._committed |= asked
                self._open -= asked


async def test_members_share_the_work_and_whoever_comes_later_goes_on(
    cluster: LocalCluster,
) -> None:
    await prepare(cluster, "shared", 3000)
    committed: set[Place] = set()
    workers = [Worker(cluster, "shared", "workers", committed) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run())
            await until(worker.has_work)
        assert sum(len(w.consumer.assignment()) for w in workers) <= PARTITIONS
        try:
            await until(lambda: len(committed) >= 3000)
        except asyncio.CancelledError:
            read = {place for worker in workers for place in worker.read}
            owned = [sorted(p.partition for p in w.consumer.assignment()) for w in workers]
            what = f"read {len(read)}, committed {len(committed)}, owned {owned}"
            raise AssertionError(what) from None
        for worker in workers:
            worker.end.set()
    assert sum((w.read for w in workers), Counter()).total() == 3000, (
        "each once, through rebalances"
    )
    async with member(cluster, "shared", group="workers") as late:
        assert len(await late.wait_assigned(30_000)) == PARTITIONS
        ends = await late.end_offsets(late.assignment())
        assert {tp: await late.position(tp) for tp in late.assignment()} == ends
        assert await late.getmany(timeout_ms=200) == {}


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.proof)])
async def test_a_coordinator_that_dies_loses_no_commit_and_repeats_nothing_committed(
    cluster: LocalCluster, kills: int
) -> None:
    topic, name = f"killed-{kills}", f"survivors-{kills}"
    await prepare(cluster, topic)
    committed: set[Place] = set()
    load = Load(cluster, topic)
    workers = [Worker(cluster, topic, name, committed) for _ in range(5)]
    async with asyncio.timeout(kills * PATIENCE_S), asyncio.TaskGroup() as group:
        producing = group.create_task(load.run())
        for worker in workers:
            group.create_task(worker.run())
        for worker in workers:
            await until(worker.has_work)
        for _ in range(kills):
            victim = await coordinator_of(cluster, name)
            await asyncio.to_thread(cluster.kill, victim)
            await until_more(committed)
            await asyncio.to_thread(cluster.start, victim)
        load.end.set()
        await producing
        await until(lambda: load.acknowledged <= committed)
        for worker in workers:
            worker.end.set()
    assert sum((w.after_commit for w in workers), Counter()).total() == 0
    async with asyncio.timeout(PATIENCE_S), member(cluster, topic, group=name) as late:
        assigned = await late.wait_assigned(30_000)
        ends = await late.end_offsets(assigned)
        assert {tp: await late.committed(tp) for tp in assigned} == ends
        assert sum(ends.values()) >= len(load.acknowledged) > kills * 100


async def test_what_brokers_refuse_is_a_typed_error(cluster: LocalCluster) -> None:
    """An instance id that is not released is in test_client_static_members.py."""
    await prepare(cluster, "refused")
    async with asyncio.timeout(PATIENCE_S):
        async with member(
            cluster, "refused", group="refusals", group_remote_assignor="nosuch"
        ) as consumer:
            with pytest.raises(UnsupportedAssignor, match="uniform"):
                await consumer.getone()
        async with member(cluster, group="refusals") as consumer:
            consumer.subscribe(pattern="(unclosed")
            with pytest.raises(InvalidRegularExpression):
                await consumer.getone()
        async with member(cluster, "refused", group="refusals") as first:
            await first.wait_assigned(30_000)
            with pytest.raises(OffsetMetadataTooLarge, match="refused:0"):
                await first.commit({("refused", 0): (0, "x" * 5000)})


async def test_patterns_static_members_and_assignors(cluster: LocalCluster) -> None:
    await prepare(cluster, "pattern-a")
    heard: set[str] = set()
    async with asyncio.timeout(PATIENCE_S):
        consumer = member(
            cluster, group="patterns", group_instance_id="one", group_remote_assignor="range"
        )
        consumer.subscribe(pattern="pattern-.*")
        async with consumer:
            await consumer.wait_assigned(30_000)
            assert consumer.subscription() == {"pattern-a"}
            await prepare(cluster, "pattern-b", 10)
            while heard != {"pattern-a", "pattern-b"}:
                await consumer.getmany(timeout_ms=50)
                heard |= consumer.subscription()
            before = consumer.group_metadata()
        named = member(cluster, group="patterns", group_instance_id="one", client_id="billing")
        async with named as again, Admin(cluster.bootstrap) as admin:
            again.subscribe(pattern="pattern-.*")
            assert len(await again.wait_assigned(30_000)) == 2 * PARTITIONS
            assert again.group_metadata().member_id != before.member_id
            [shown] = (await admin.describe_groups(["patterns"]))["patterns"].members
            assert (shown.client_id, shown.instance_id) == ("billing", "one")


def test_blocking_consumers_share_too(cluster: LocalCluster) -> None:
    asyncio.run(prepare(cluster, "blocking", 100))
    with sync.Consumer(
        "blocking",
        bootstrap_servers=cluster.bootstrap,
        group_id="blockers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        seen = Counter(next(consumer).partition for _ in range(100))
        consumer.commit()
        for number, count in seen.items():
            assert consumer.committed(TopicPartition("blocking", number)) == count

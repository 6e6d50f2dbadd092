"""Consumer groups: the delay of first records, the time of rebalances, the cost of members."""

import asyncio
import contextlib
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from strandline_bench import loop
from strandline_bench.group.members import Member, Sessions, sessions, settled, times
from strandline_bench.group.options import GroupOptions
from strandline_bench.peers.kafka import KafkaPeer
from strandline_bench.report import Report, median, percentile
from strandline_bench.resources import cpu_s, resident_mb
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from strandline import Admin

SESSION_MS: Final = 6000
BEAT_MS: Final = 1000
TOPIC: Final = "bench-group"
TOPIC_PARTITIONS: Final = 3
OTHERS: Final = 4
COMMITS: Final = 500
COMMITTERS: Final = 50
COMMITTING_S: Final = 5.0
GROUPS: Final = 200
INTERVAL_S: Final = 5.0
FAILOVERS: Final = 10
CRASHES: Final = 5
FIRST_GROUPS: Final = 3
WRITE_S: Final = 0.02
WAIT_S: Final = 60.0


def run(options: GroupOptions, report: Report) -> None:
    if "assignors" in options.only:
        _assignors(report)
    if "first_group" in options.only:
        taken = []
        for _ in range(FIRST_GROUPS):
            with _cluster(options) as cluster:
                cluster.up()
                taken += loop.run(_first_records(cluster.grpc_bootstrap))
        _report(report, "first_group", taken)
    parts: dict[str, Callable[[LocalCluster, GroupOptions, Report], Coroutine[Any, Any, None]]] = {
        "first_record": _first_record,
        "commit": _commit,
        "join": _join_and_leave,
        "coordinator_failover": _coordinator_failover,
        "crash": _crash,
        "members": _members,
    }
    for name, part in parts.items():
        if name in options.only:
            with _cluster(options) as cluster:
                cluster.up()
                loop.run(part(cluster, options, report))


@contextlib.contextmanager
def _cluster(options: GroupOptions) -> Iterator[LocalCluster]:
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        cluster = LocalCluster.create(
            folder,
            brokers=options.brokers,
            port=0,
            broker_config={
                "flush.policy": options.flush_policy,
                "group.consumer.min.session.timeout.ms": str(SESSION_MS),
                "group.consumer.min.heartbeat.interval.ms": str(BEAT_MS),
            },
        )
        try:
            yield cluster
        finally:
            cluster.kill_all()


def _report(report: Report, measure: str, taken: list[float]) -> None:
    report.measured(
        measure,
        {
            "p50_ms": median(taken),
            "p99_ms": percentile(taken, 0.99),
            "max_ms": max(taken),
            "n": len(taken),
        },
    )


def _new(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(4)}"


async def _written(bootstrap: str, topic: str, partitions: int) -> None:
    """The topic, with a record in each partition."""
    from strandline import Admin, NewTopic, Producer

    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics([NewTopic(topic, partitions)])
        for partition in range(partitions):
            await producer.send_and_wait(topic, b"first", partition=partition)


# What a new group waits for


async def _first_records(bootstrap: str) -> list[float]:
    """The delay of the first records of a cluster's first group."""
    await _written(bootstrap, TOPIC, TOPIC_PARTITIONS)
    return [await _first_record_ms(bootstrap)]


async def _first_record_ms(bootstrap: str) -> float:
    from strandline import Consumer

    began = time.monotonic()
    async with Consumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=_new("bench"),
        auto_offset_reset="earliest",
    ) as consumer:
        async with asyncio.timeout(WAIT_S):
            await consumer.getone()
        return (time.monotonic() - began) * 1e3


async def _first_record(cluster: LocalCluster, options: GroupOptions, report: Report) -> None:
    await _written(cluster.grpc_bootstrap, TOPIC, TOPIC_PARTITIONS)
    if options.peer_kafka is None:
        taken = [await _first_record_ms(cluster.grpc_bootstrap) for _ in range(options.rounds)]
        _report(report, "first_record", taken)
        return
    kafka = KafkaPeer(options.peer_kafka, replication_factor=min(3, options.brokers))
    ours, theirs = [], []
    try:
        topic, _ = await asyncio.to_thread(kafka.create, TOPIC_PARTITIONS)
        await asyncio.to_thread(kafka.write_each, topic, TOPIC_PARTITIONS)
        for _ in range(options.rounds):
            ours.append(await _first_record_ms(cluster.grpc_bootstrap))
            theirs.append(await asyncio.to_thread(kafka.first_record_ms, topic))
    finally:
        await asyncio.to_thread(kafka.close)
    _report(report, "first_record", ours)
    _report(report, "kafka_first_record", theirs)


# Commits


async def _commit(cluster: LocalCluster, options: GroupOptions, report: Report) -> None:
    from strandline import Consumer

    await _written(cluster.grpc_bootstrap, TOPIC, 1)
    async with contextlib.AsyncExitStack() as stack:
        consumers = []
        for number in range(COMMITTERS):
            consumer = Consumer(
                TOPIC, bootstrap_servers=cluster.grpc_bootstrap, group_id=f"bench-{number}"
            )
            consumers.append(await stack.enter_async_context(consumer))
        for consumer in consumers:
            await consumer.wait_assigned()

        async def one(number: int) -> None:
            await consumers[0].commit({(TOPIC, 0): number + 1})

        _report(report, "commit", await times(COMMITS, one))
        ended = time.monotonic() + COMMITTING_S

        async def keep_committing(consumer: Consumer) -> int:
            count = 0
            while time.monotonic() < ended:
                count += 1
                await consumer.commit({(TOPIC, 0): count})
            return count

        began = time.monotonic()
        counts = await asyncio.gather(*map(keep_committing, consumers))
        rate = sum(counts) / (time.monotonic() - began)
        report.measured("commits", {"commits_s": round(rate), "consumers": COMMITTERS})


# Rebalances


async def _join_and_leave(cluster: LocalCluster, options: GroupOptions, report: Report) -> None:
    await _written(cluster.grpc_bootstrap, TOPIC, options.partitions)
    joins, leaves, changed = [], [], asyncio.Event()
    async with _members_of(cluster.grpc_bootstrap, OTHERS, changed) as members:
        group = "bench-members"
        await settled(members, options.partitions, changed)
        for _ in range(options.rounds):
            newcomer = Member(cluster.grpc_bootstrap, group, TOPIC, changed)
            began = time.monotonic()
            await newcomer.start()
            everybody = [*members, newcomer]
            joins.append((await settled(everybody, options.partitions, changed) - began) * 1e3)
            began = time.monotonic()
            leaving = asyncio.create_task(newcomer.stop())
            leaves.append((await settled(members, options.partitions, changed) - began) * 1e3)
            await leaving
    _report(report, "join", joins)
    _report(report, "leave", leaves)


@contextlib.asynccontextmanager
async def _members_of(
    bootstrap: str, count: int, changed: asyncio.Event
) -> AsyncIterator[list[Member]]:
    members = [Member(bootstrap, "bench-members", TOPIC, changed) for _ in range(count)]
    try:
        for member in members:
            await member.start()
        yield members
    finally:
        await asyncio.gather(*(member.stop() for member in members))


async def _crash(cluster: LocalCluster, options: GroupOptions, report: Report) -> None:
    from strandline import Admin, ConfigChange, Producer

    await _written(cluster.grpc_bootstrap, TOPIC, options.partitions)
    async with Admin(cluster.grpc_bootstrap) as admin:
        await admin.incremental_alter_configs(
            {
                ("group", "bench-members"): [
                    ConfigChange("consumer.session.timeout.ms", str(SESSION_MS)),
                    ConfigChange("consumer.heartbeat.interval.ms", str(BEAT_MS)),
                ]
            }
        )
        taken, changed = [], asyncio.Event()
        async with (
            _members_of(cluster.grpc_bootstrap, OTHERS, changed) as members,
            Producer(cluster.grpc_bootstrap) as producer,
        ):
            writing = asyncio.create_task(_keep_writing(producer, options.partitions))
            for _ in range(min(CRASHES, options.rounds)):
                await settled(members, options.partitions, changed)
                taken.append(await _one_crash(admin, cluster.grpc_bootstrap, members))
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
    _report(report, "crash", taken)


async def _keep_writing(producer: Any, partitions: int) -> None:
    while True:
        for partition in range(partitions):
            await producer.send(TOPIC, b"more", partition=partition)
        await asyncio.sleep(WRITE_S)


async def _one_crash(admin: "Admin", bootstrap: str, members: list[Member]) -> float:
    """Milliseconds from the end of a killed member's session to its last partition read again."""
    known = {member.consumer.group_metadata().member_id for member in members}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "strandline_bench.group.member", bootstrap, "bench-members", TOPIC,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                described = (await admin.describe_groups(["bench-members"]))["bench-members"]
                others = [m for m in described.members if m.member_id not in known]
                if described.state == "Stable" and others and others[0].assignment:
                    break
                await asyncio.sleep(0.1)
        wanted = others[0].assignment
        for member in members:
            member.forget()
        process.kill()
        killed = time.monotonic()
        async with asyncio.timeout(WAIT_S):
            while True:
                read = {p: at for member in members for p, at in member.read_at.items()}
                if wanted <= read.keys():
                    return (max(read[p] for p in wanted) - killed) * 1e3 - SESSION_MS
                await asyncio.sleep(0.005)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _coordinator_failover(
    cluster: LocalCluster, options: GroupOptions, report: Report
) -> None:
    from strandline import Admin, Consumer

    await _written(cluster.grpc_bootstrap, TOPIC, 1)
    taken: list[float] = []
    async with (
        Admin(cluster.grpc_bootstrap) as admin,
        Consumer(TOPIC, bootstrap_servers=cluster.grpc_bootstrap, group_id="bench") as consumer,
    ):
        await consumer.wait_assigned()
        for number in range(min(FAILOVERS, options.rounds)):
            await consumer.commit({(TOPIC, 0): 2 * number})
            [listed] = [g for g in await admin.list_groups() if g.group_id == "bench"]
            cluster.crash(listed.coordinator)
            killed = time.monotonic()
            async with asyncio.timeout(WAIT_S):
                await consumer.commit({(TOPIC, 0): 2 * number + 1})
            taken.append((time.monotonic() - killed) * 1e3)
            await asyncio.to_thread(cluster.start, listed.coordinator, wait_s=WAIT_S)
            await _until_in_sync(admin)
    _report(report, "coordinator_failover", taken)


async def _until_in_sync(admin: "Admin") -> None:
    names = [TOPIC, "__consumer_offsets"]
    async with asyncio.timeout(WAIT_S):
        while True:
            topics = await admin.describe_topics(names)
            partitions = [p for topic in topics.values() for p in topic.partitions]
            if all(set(p.isr) == set(p.replicas) and p.leader >= 0 for p in partitions):
                return
            await asyncio.sleep(0.1)


# Many members


async def _members(cluster: LocalCluster, options: GroupOptions, report: Report) -> None:
    await _written(cluster.grpc_bootstrap, TOPIC, options.partitions)
    pids = [pid for i in cluster.broker_ids if (pid := cluster.process(i).pid) is not None]
    # The coordinator's load for the very first group is not a member's cost.
    addresses = cluster.grpc_bootstrap.split(",")
    async with sessions(addresses, OTHERS, OTHERS, TOPIC, interval_s=INTERVAL_S) as found:
        await _until_joined(found, OTHERS)
    rss_before = sum(map(resident_mb, pids))
    groups = max(1, min(GROUPS, options.members))
    async with sessions(addresses, groups, options.members, TOPIC, interval_s=INTERVAL_S) as found:
        await _until_joined(found, options.members)
        cpu_before, began = sum(map(cpu_s, pids)), time.monotonic()
        await asyncio.sleep(options.members_s)
        cpu = (sum(map(cpu_s, pids)) - cpu_before) / (time.monotonic() - began)
        rss = sum(map(resident_mb, pids)) - rss_before
        report.measured(
            "members",
            {
                "members": options.members,
                "groups": groups,
                "joined": found.joined,
                "fenced": sum(found.errors.values()),
                "broker_cpu_share": cpu,
                "rss_growth_mb": rss,
                "rss_growth_kb_per_member": round(rss * 1000 / options.members, 1),
            },
        )


async def _until_joined(found: Sessions, members: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while found.joined < members and not found.errors:  # noqa: ASYNC110 - of another task
            await asyncio.sleep(0.1)


# Assignors


def _assignors(report: Report) -> None:
    """2,000 members over 10,000 partitions: at first, again, and when one has left."""
    from strandline_broker.core.groups.assignors import GroupSpec, MemberSpec
    from strandline_broker.core.groups.assignors.range import RangeAssignor
    from strandline_broker.core.groups.assignors.uniform import UniformAssignor
    from strandline_proto.ids import TopicId

    for topics in (1, 100, 10_000):
        ids = [TopicId(number.to_bytes(16, "big")) for number in range(topics)]
        subscription = frozenset(ids)
        partitions = dict.fromkeys(ids, 10_000 // topics)
        for assignor in (UniformAssignor(), RangeAssignor()):
            before: Any = {f"member-{number:04}": {} for number in range(2000)}
            taken = []
            for leaves in (False, False, True):
                if leaves:
                    del before["member-0007"]
                members = {
                    name: MemberSpec(None, None, subscription, owned)
                    for name, owned in before.items()
                }
                began = time.monotonic()
                before = assignor.assign(GroupSpec(members, partitions))
                taken.append((time.monotonic() - began) * 1e3)
            report.measured(
                "assignor",
                {
                    "assignor": assignor.name,
                    "topics": topics,
                    "first_ms": taken[0],
                    "again_ms": taken[1],
                    "leave_ms": taken[2],
                },
            )

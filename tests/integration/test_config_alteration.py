"""Configuration altered while real processes run: it counts at once, and for good."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from strandline import (
    Admin,
    AlterConfigOpType,
    ConfigChange,
    ConfigSource,
    NewTopic,
    Producer,
    sync,
)
from strandline.errors import (
    DeliveryError,
    NotController,
    NotEnoughReplicas,
    RecordTooLarge,
    RequestTimedOut,
)
from support.cluster import MakeCluster, eventually
from support.command import CompletedCommand, strandline
from support.raw import topic_config

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster

DELETE = AlterConfigOpType.DELETE


def _on(cluster: LocalCluster, *arguments: object, stdin: str | bytes = b"") -> CompletedCommand:
    return strandline(*arguments, "--bootstrap", cluster.bootstrap, stdin=stdin)


def _alter(cluster: LocalCluster, *arguments: object) -> CompletedCommand:
    altered = _on(cluster, "config", "alter", *arguments)
    assert (altered.status, altered.err) == (0, ""), altered
    return altered


def _described(cluster: LocalCluster, *arguments: object) -> dict[str, tuple[str, str]]:
    found = _on(cluster, "config", "describe", *arguments, "--all", "--format", "json").json
    return {entry["key"]: (entry["value"], entry["source"]) for entry in found}


def _until_rolled(cluster: LocalCluster, broker: int, topic: str) -> None:
    """Wait until the broker has three segments of the topic's only partition."""
    log = cluster.data_directory(broker) / f"{topic}-0"
    eventually(lambda: len(list(log.glob("*.log"))) >= 3, f"segments of broker {broker}")


@pytest.fixture(scope="module")
def plain(cluster: LocalCluster) -> str:
    """A topic that sets nothing."""
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("plain", 1, 1)])
    return "plain"


async def test_a_running_producer_meets_the_new_configuration_with_its_next_batch(
    cluster: LocalCluster,
) -> None:
    topic = ("topic", "live")
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as running,
        Producer(cluster.bootstrap) as producer,
    ):
        await admin.create_topics([NewTopic("live", 1, 3)])
        acknowledged = 0
        done = asyncio.Event()

        async def write() -> None:
            nonlocal acknowledged
            while not done.is_set():
                await running.send_and_wait("live", b"x" * 100)
                acknowledged += 1
                await asyncio.sleep(0.01)

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(write())
            large = b"y" * 5000
            await producer.send_and_wait("live", large)
            assert (
                await admin.incremental_alter_configs(
                    {topic: [ConfigChange("max.message.bytes", "1000")]}
                )
                == []
            )
            with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes \(1000\)"):
                await producer.send_and_wait("live", large)
            await admin.incremental_alter_configs(
                {
                    topic: [
                        ConfigChange("max.message.bytes", operation=DELETE),
                        ConfigChange("segment.bytes", "20000"),
                    ]
                }
            )
            await producer.send_and_wait("live", large)
            before = acknowledged
            for broker in cluster.broker_ids:
                await asyncio.to_thread(_until_rolled, cluster, broker, "live")
            done.set()
        assert acknowledged > before


async def test_a_minimum_above_the_isr_refuses_writes_and_a_lower_one_lets_them_in(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3)
    cluster.stop(3)
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap, delivery_timeout_ms=1500) as producer,
    ):
        await admin.create_topics(
            [NewTopic("t", config={"min.insync.replicas": "2"}, replica_assignment=[[1, 2, 3]])]
        )
        await producer.send_and_wait("t", b"two of three are enough")
        await admin.incremental_alter_configs(
            {("topic", "t"): [ConfigChange("min.insync.replicas", "3")]}
        )
        with pytest.raises(DeliveryError) as caught:
            await producer.send_and_wait("t", b"refused")
        assert isinstance(caught.value.cause, NotEnoughReplicas)
        await admin.incremental_alter_configs(
            {("topic", "t"): [ConfigChange("min.insync.replicas", operation=DELETE)]}
        )
        await producer.send_and_wait("t", b"the default of two counts")
        await admin.incremental_alter_configs(
            {("broker", ""): [ConfigChange("min.insync.replicas", "3")]}
        )
        with pytest.raises(DeliveryError):
            await producer.send_and_wait("t", b"refused by the default of all")
        await admin.incremental_alter_configs(
            {("broker", ""): [ConfigChange("min.insync.replicas", "1")]}
        )
        last = await producer.send_and_wait("t", b"in")
        assert last.offset == 2, "what was refused was not written"
        (end,) = await admin.list_offsets("t")
        assert end.end == 3, "the high watermark is that of the new minimum (I-29)"


def test_what_was_altered_survives_every_restart_and_reaches_a_broker_that_was_down(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3)
    created = _on(cluster, "topic", "create", "t", "-p", 1, "-r", 3)
    assert created.status == 0, created
    cluster.stop(3)
    _alter(cluster, "topic", "t", "--set", "segment.bytes=2000", "--set", "retention.ms=-1")
    _alter(cluster, "broker", "--default", "--set", "log.index.interval.bytes=100")
    _alter(cluster, "broker", 3, "--set", "log.index.interval.bytes=200")
    cluster.start(3)

    def check() -> None:
        with sync.Admin(cluster.bootstrap) as admin:
            brokers: list[tuple[str, str | int]] = [("broker", b) for b in cluster.broker_ids]
            topic, *each = admin.describe_configs([("topic", "t"), *brokers]).values()
        assert (topic["segment.bytes"].value, topic["segment.bytes"].source) == ("2000", 1)
        interval = [own["log.index.interval.bytes"] for own in each]
        assert [(i.value, i.source) for i in interval] == [("100", 3), ("100", 3), ("200", 2)]

    check()
    lines = "".join(f"{i:0200d}\n" for i in range(100))
    assert _on(cluster, "produce", "t", stdin=lines).status == 0
    cluster.restart("controller")
    check()
    cluster.down()
    cluster.up()
    check()
    for i in range(3):
        assert _on(cluster, "produce", "t", stdin=f"{i:02000d}\n").status == 0
    for broker in cluster.broker_ids:
        _until_rolled(cluster, broker, "t")
    _alter(cluster, "topic", "t", "--delete", "segment.bytes")
    assert _described(cluster, "topic", "t")["segment.bytes"] == ("1073741824", "DEFAULT_CONFIG")


async def _none_pending(admin: Admin, topic: str) -> bool:
    """Change nothing; true if all live brokers work by what was decided."""
    async with asyncio.timeout(60):
        while True:
            try:
                return not await admin.incremental_alter_configs({("topic", topic): []})
            except NotController:
                await asyncio.sleep(0.05)  # the brokers have not found it again yet


async def test_no_acknowledged_alteration_is_lost_when_the_controller_is_killed(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3)
    async with Admin(cluster.bootstrap, request_timeout_ms=10_000) as admin:
        await admin.create_topics([NewTopic("t", 1, 3)])
        attempted = acknowledged = 0

        async def alter() -> None:
            nonlocal attempted, acknowledged
            while True:
                attempted += 1
                try:
                    await admin.incremental_alter_configs(
                        {("topic", "t"): [ConfigChange("retention.ms", str(attempted))]}
                    )
                except (NotController, RequestTimedOut):
                    continue  # whether it was decided is unknown
                acknowledged = attempted

        for _ in range(3):
            before = acknowledged
            altering = asyncio.ensure_future(alter())
            while acknowledged < before + 3:  # noqa: ASYNC110 - some alterations under way
                await asyncio.sleep(0.01)
            cluster.kill("controller")
            await asyncio.sleep(0.1)
            altering.cancel()
            await asyncio.wait([altering])
            await asyncio.to_thread(cluster.start, "controller")
            assert await _none_pending(admin, "t"), "every live broker has heard of what stands"
            for broker in cluster.broker_ids:
                told = await asyncio.to_thread(
                    topic_config, cluster.address(broker), "t", "retention.ms"
                )
                assert acknowledged <= int(told) <= attempted


def test_the_command_line_shows_values_with_their_origin(cluster: LocalCluster) -> None:
    created = _on(cluster, "topic", "create", "shown", "--config", "cleanup.policy=delete,compact")
    assert created.status == 0, created
    listed = _on(cluster, "config", "describe", "topic", "shown")
    assert [line.split() for line in listed.out.splitlines()] == [
        ["key", "value", "origin"],
        ["cleanup.policy", "delete,compact", "topic"],
    ]
    altered = _alter(
        cluster, "topic", "shown", "--set", "retention.ms=5", "--delete", "cleanup.policy"
    )
    assert (
        altered.out == "altered topic shown: retention.ms=5, cleanup.policy back to its default\n"
    )
    everything = _described(cluster, "topic", "shown")
    assert everything["retention.ms"] == ("5", "DYNAMIC_TOPIC_CONFIG")
    assert everything["cleanup.policy"] == ("delete", "DEFAULT_CONFIG")
    assert everything["min.insync.replicas"] == ("2", "DEFAULT_CONFIG")
    dry = _on(cluster, "config", "alter", "broker", 1, "--set", "log.roll.ms=7", "--dry-run")
    assert dry.out == "would alter broker 1: log.roll.ms=7\n"
    assert _described(cluster, "broker", 1)["log.roll.ms"] == ("604800000", "DEFAULT_CONFIG")
    _alter(cluster, "broker", 1, "--set", "log.roll.ms=7")
    assert _described(cluster, "broker", 1)["log.roll.ms"] == ("7", "DYNAMIC_BROKER_CONFIG")
    assert _described(cluster, "broker", 2)["log.roll.ms"] == ("604800000", "DEFAULT_CONFIG")
    _alter(cluster, "broker", "1", "--delete", "log.roll.ms")
    nothing = _on(cluster, "config", "describe", "broker", "--default")
    assert (nothing.status, nothing.out) == (0, "")
    assert nothing.err == "nothing is set for all brokers\n"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("alter", "topic", "absent", "--set", "retention.ms=5"), 1, "topic list"),
        (("describe", "topic", "absent"), 1, "topic list"),
        (("alter", "broker", 9, "--set", "log.roll.ms=5"), 1, "registered are 1, 2, 3"),
        (("describe", "broker", 9), 1, "not among the live brokers (1, 2, 3)"),
        (("alter", "topic", "plain", "--set", "segment.byte=5"), 1, "did you mean segment.bytes?"),
        (("alter", "topic", "plain", "--set", "segment.bytes=13"), 1, "from 14 to 2147483647"),
        (("alter", "topic", "plain", "--set", "segment.bytes=5MB"), 1, "write 5242880"),
        (("alter", "topic", "plain", "--set", "retention.ms=-2"), 1, "from -1"),
        (("alter", "topic", "plain", "--set", "retention.ms=7d"), 1, "write 604800000"),
        (("alter", "topic", "plain", "--set", "cleanup.policy=compct"), 1, "delete, compact or"),
        (("alter", "topic", "plain", "--set", "compression.type=gzip"), 1, "is producer"),
        (("alter", "topic", "plain", "--delete", "segment.byte"), 1, "did you mean segment.bytes?"),
        (("alter", "topic", "plain", "--set", "max.message.bytes"), 2, "KEY=VALUE"),
        (("alter", "topic", "plain", "--set", "a=1", "--delete", "a"), 2, "choose one"),
        (("alter", "topic", "plain", "--delete", "a=1"), 2, "takes a key alone"),
        (("alter", "topic", "plain"), 2, "nothing to alter"),
        (("alter", "topic"), 2, "which topic is meant?"),
        (("alter", "topic", "plain", "--default"), 2, "broker --default"),
        (("describe", "broker", "one"), 2, "not a broker's id"),
        (("describe", "group"), 2, "which group is meant?"),
        (("describe", "member", "m"), 2, "member"),
        (
            ("alter", "broker", 1, "--set", "node.id=2"),
            1,
            "needs a restart: set it in the broker's",
        ),
        (("alter", "broker", 1, "--set", "log.retention.hours=2"), 1, "use log.retention.ms"),
        (("alter", "broker", 1, "--set", "min.insync.replicas=1"), 1, "for all brokers, or for a"),
        (
            (
                *("alter", "topic", "plain", "--set", "min.compaction.lag.ms=5"),
                *("--set", "max.compaction.lag.ms=4"),
            ),
            1,
            "min.compaction.lag.ms=5 is above max.compaction.lag.ms=4",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_changes_nothing(
    cluster: LocalCluster, plain: str, arguments: tuple[Any, ...], status: int, says: str
) -> None:
    refused = _on(cluster, "config", *arguments)
    assert refused.status == status, refused
    assert says in refused.error
    with sync.Admin(cluster.bootstrap) as admin:
        (after,) = admin.describe_configs([("topic", plain)]).values()
    assert all(value.source is ConfigSource.DEFAULT_CONFIG for value in after.values())


def test_a_groups_configuration_is_described_altered_and_bounded(cluster: LocalCluster) -> None:
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    default = _described(cluster, "group", "billing")
    assert default == {
        session: ("45000", "DEFAULT_CONFIG"),
        heartbeat: ("5000", "DEFAULT_CONFIG"),
    }
    _alter(cluster, "group", "billing", "--set", f"{session}=50000")
    assert _described(cluster, "group", "billing")[session] == ("50000", "GROUP_CONFIG")
    assert _described(cluster, "group", "other") == default
    refused = _on(cluster, "config", "alter", "group", "billing", "--set", f"{session}=60001")
    assert refused.status != 0
    assert "from 45000 to 60000" in refused.err
    unknown = _on(cluster, "config", "alter", "group", "billing", "--set", "retention.ms=1")
    assert "no configuration key of a group" in unknown.err
    _alter(cluster, "group", "billing", "--delete", session)
    assert _described(cluster, "group", "billing") == default

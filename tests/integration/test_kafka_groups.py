"""Groups of Kafka's clients on real processes: members of both protocols, a coordinator that dies,
and offsets that both protocols show.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka.admin import AdminClient, NewTopic

import strandline
from support.cluster import eventually
from support.command import CompletedCommand
from support.command import strandline as command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_local.local_cluster import LocalCluster

pytestmark = pytest.mark.integration
PARTITIONS = 4
DEADLINE_S = 60.0
POLL_S = 0.2


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with ten records in each partition."""
    name: str = request.node.name.replace("[", ".").replace("]", "").replace("_", "-")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (made,) = admin.create_topics([NewTopic(name, PARTITIONS, 3)]).values()
    made.result()
    write(cluster, name)
    return name


def write(cluster: LocalCluster, topic: str) -> None:
    """Ten records into each partition."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
    )
    for number in range(10 * PARTITIONS):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


@contextlib.contextmanager
def member(
    cluster: LocalCluster, topic: str, protocol: str, **options: Any
) -> Iterator[confluent_kafka.Consumer]:
    """A member of the topic's group, by librdkafka."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **named,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(count: int, *members: confluent_kafka.Consumer) -> list[int]:
    """The numbers in so many records that these members get."""
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, (len(found), count)
        for each in members:
            message = each.poll(POLL_S)
            if message is not None and message.error() is None:
                found.append(int(message.value() or b""))
    return sorted(found)


def shared(*members: confluent_kafka.Consumer) -> list[int]:
    """The sizes of the members' assignments once these hold every partition once."""

    def sizes() -> list[int] | None:
        for each in members:
            message = each.poll(POLL_S)
            assert message is None or message.error() is None, message
        held = [{tp.partition for tp in each.assignment()} for each in members]
        if sum(map(len, held)) != PARTITIONS or set().union(*held) != set(range(PARTITIONS)):
            return None
        return sorted(map(len, held)) if all(held) else None

    return eventually(sizes, "each member has partitions", DEADLINE_S, poll_s=0)


def in_cluster(cluster: LocalCluster, *arguments: object) -> Any:
    ended: CompletedCommand = command(
        *arguments, "--format", "json", environ={"STRANDLINE_DIR": str(cluster.directory)}
    )
    return ended.json


def listed(cluster: LocalCluster) -> dict[str, Any]:
    found = in_cluster(cluster, "group", "list")
    return {each["group_id"]: each for each in found}


def committed(cluster: LocalCluster, group: str) -> dict[int, int | None]:
    lag = in_cluster(cluster, "group", "lag", group)
    return {each["partition"]: each["committed"] for each in lag["partitions"]}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_after_its_coordinator_has_died(
    cluster: LocalCluster, topic: str, protocol: str
) -> None:
    """Two members share the partitions, commit, lose their coordinator, and read on."""
    with member(cluster, topic, protocol) as one:
        assert read(10 * PARTITIONS, one) == list(range(10 * PARTITIONS))
        one.commit(asynchronous=False)
        with member(cluster, topic, protocol) as two:
            assert shared(one, two) == [2, 2]
            coordinator = listed(cluster)[topic]["coordinator"]
            cluster.kill(coordinator)
            try:
                write(cluster, topic)
                again = read(10 * PARTITIONS, one, two)
                assert again == list(range(10 * PARTITIONS)), "nothing twice, nothing lost"
                for each in (one, two):
                    each.commit(asynchronous=False)
            finally:
                cluster.start(coordinator)
    assert committed(cluster, topic) == dict.fromkeys(range(PARTITIONS), 20)


async def test_both_protocols_show_the_same_offsets(cluster: LocalCluster, topic: str) -> None:
    """Offsets of a Kafka client are read by our own, and the other way round."""
    for protocol in ("classic", "consumer"):
        group = f"{topic}.{protocol}"
        with member(cluster, topic, protocol, group_id=group) as one:
            await asyncio.to_thread(read, 10 * PARTITIONS, one)
            one.commit(asynchronous=False)
        async with strandline.Consumer(
            topic, bootstrap_servers=cluster.bootstrap, group_id=group
        ) as ours:
            await ours.wait_assigned(DEADLINE_S * 1_000)
            for partition in range(PARTITIONS):
                tp = strandline.TopicPartition(topic, partition)
                assert await ours.position(tp) == 10
            await ours.commit({strandline.TopicPartition(topic, 2): 4})
        with member(cluster, topic, protocol, group_id=group) as one:
            wanted = [confluent_kafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
            found = await asyncio.to_thread(one.committed, wanted, DEADLINE_S)
            assert [each.offset for each in found] == [10, 10, 4, 10]


async def test_one_group_has_members_over_both_protocols(cluster: LocalCluster, topic: str) -> None:
    """Our client's member has a stream, librdkafka's sends heartbeats; they share the records."""
    async with strandline.Consumer(
        topic, bootstrap_servers=cluster.bootstrap, group_id=topic, auto_offset_reset="earliest"
    ) as ours:
        found: list[tuple[int, int]] = []

        async def poll_both(theirs: confluent_kafka.Consumer) -> None:
            for records in (await ours.getmany(timeout_ms=100)).values():
                found.extend((record.partition, record.offset) for record in records)
            message = await asyncio.to_thread(theirs.poll, POLL_S)
            if message is not None and message.error() is None:
                found.append((message.partition() or 0, message.offset() or 0))

        def is_shared(theirs: confluent_kafka.Consumer) -> bool:
            held = {tp.partition for tp in ours.assignment()}
            other = {tp.partition for tp in theirs.assignment()}
            return len(held) == len(other) == 2 and held.isdisjoint(other)

        def second() -> list[tuple[int, int]]:
            return sorted(each for each in found if each[1] >= 10)

        with member(cluster, topic, "consumer") as theirs:
            async with asyncio.timeout(DEADLINE_S):
                while len(set(found)) < 10 * PARTITIONS or not is_shared(theirs):
                    await poll_both(theirs)
                write(cluster, topic)
                while len(second()) < 10 * PARTITIONS:
                    await poll_both(theirs)
            assert second() == [(p, offset) for p in range(PARTITIONS) for offset in range(10, 20)]
        async with asyncio.timeout(DEADLINE_S):
            while len(ours.assignment()) < PARTITIONS:
                await ours.getmany(timeout_ms=100)


def test_kafka_python_and_aiokafka_share_a_topic_and_resume(
    cluster: LocalCluster, topic: str
) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }

    def by_kafka_python(count: int) -> list[int]:
        consumer = kafka.KafkaConsumer(topic, **options)
        found: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                found += [int(record.value) for record in records]
        consumer.commit()
        consumer.close()
        return sorted(found)

    async def by_aiokafka(count: int) -> list[int]:
        async with AIOKafkaConsumer(topic, **options) as consumer, asyncio.timeout(DEADLINE_S):
            found = [int((await consumer.getone()).value) for _ in range(count)]
            await consumer.commit()
        return sorted(found)

    everything = list(range(10 * PARTITIONS))
    assert by_kafka_python(len(everything)) == everything
    assert committed(cluster, topic) == dict.fromkeys(range(PARTITIONS), 10)
    write(cluster, topic)
    assert asyncio.run(by_aiokafka(len(everything))) == everything
    assert committed(cluster, topic) == dict.fromkeys(range(PARTITIONS), 20)
    write(cluster, topic)
    assert by_kafka_python(len(everything)) == everything
    assert listed(cluster)[topic]["state"] == "Empty"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_static_member_returns_to_its_partitions(
    cluster: LocalCluster, topic: str, protocol: str
) -> None:
    with (
        member(cluster, topic, protocol, group_instance_id="a") as one,
        member(cluster, topic, protocol, group_instance_id="b") as two,
    ):
        assert shared(one, two) == [2, 2]
        kept = one.assignment()
        before = in_cluster(cluster, "group", "describe", topic)
        two.close()
        with member(cluster, topic, protocol, group_instance_id="b") as again:
            assert shared(one, again) == [2, 2]
        after = in_cluster(cluster, "group", "describe", topic)
        assert one.assignment() == kept
    assert before["group_epoch"] == after["group_epoch"], "nobody has moved"


def test_a_group_with_members_refuses_the_other_protocol_and_an_empty_one_takes_it(
    cluster: LocalCluster, topic: str
) -> None:
    def refused(protocol: str) -> confluent_kafka.KafkaError:
        with member(cluster, topic, protocol) as other:

            def error() -> str | None:
                message = other.poll(POLL_S)
                found = None if message is None else message.error()
                return None if found is None else found.str()

            return eventually(error, f"{protocol} is refused", DEADLINE_S, poll_s=0)

    for protocol, other, why in (
        ("classic", "consumer", "The group id does not exist"),
        ("consumer", "classic", "Inconsistent group protocol"),
    ):
        with member(cluster, topic, protocol) as one:
            assert shared(one) == [PARTITIONS]
            assert why in refused(other)
            assert shared(one) == [PARTITIONS]


def test_administrators_list_describe_and_delete_groups(cluster: LocalCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    python = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    groups = {protocol: f"{topic}.{protocol}" for protocol in ("classic", "consumer")}
    for protocol, group in groups.items():
        with member(cluster, topic, protocol, group_id=group, client_id="me") as one:
            read(10 * PARTITIONS, one)
            one.commit(asynchronous=False)
            (future,) = admin.describe_consumer_groups([group]).values()
            described = future.result()
            (only,) = described.members
            assert described.state == confluent_kafka.ConsumerGroupState.STABLE
            assert (only.client_id, only.host) == ("me", "/127.0.0.1")
            assert len(only.assignment.topic_partitions) == PARTITIONS
            kind = confluent_kafka.ConsumerGroupType[protocol.upper()]
            found = admin.list_consumer_groups(types={kind}).result().valid
            assert group in {each.group_id for each in found}
            (deletion,) = admin.delete_consumer_groups([group]).values()
            with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
                deletion.result()
    offsets = python.list_group_offsets(groups["classic"])
    found = offsets[groups["classic"]]
    assert [found[each].offset for each in sorted(found)] == [10] * PARTITIONS
    for group in groups.values():
        (deletion,) = admin.delete_consumer_groups([group]).values()
        deletion.result()
    assert not set(groups.values()) & set(listed(cluster))
    python.close()


def test_the_command_line_shows_a_classic_group_and_resets_it(
    cluster: LocalCluster, topic: str
) -> None:
    environ = {"STRANDLINE_DIR": str(cluster.directory)}
    with (
        member(cluster, topic, "classic", client_id="first") as first,
        member(cluster, topic, "classic", client_id="second") as second,
    ):
        shared(first, second)
        for each in (first, second):
            ends = [
                confluent_kafka.TopicPartition(topic, tp.partition, 10) for tp in each.assignment()
            ]
            each.commit(offsets=ends, asynchronous=False)
        shown = in_cluster(cluster, "group", "describe", topic)
        assert (shown["type"], shown["state"], shown["assignor"]) == ("Classic", "Stable", "range")
        assert {m["client_id"] for m in shown["members"]} == {"first", "second"}
        owned = [p for m in shown["members"] for p in m["assignment"][topic]]
        assert sorted(owned) == list(range(PARTITIONS))
        assert all(m["subscribed_topics"] == [topic] for m in shown["members"])
        assert all(m["host"] == "/127.0.0.1" for m in shown["members"])
        assert {m["member_epoch"] for m in shown["members"]} == {shown["group_epoch"]}
        assert [(p["lag"], bool(p["member_id"])) for p in shown["partitions"]] == [
            (0, True)
        ] * PARTITIONS
        refused = command("group", "reset", topic, "--to-earliest", environ=environ)
        assert refused.status != 0
        assert "first" in refused.err
        (removed,) = [m["member_id"] for m in shown["members"] if m["client_id"] == "second"]
        ended = command(*("group", "remove-members", topic, "--member", removed), environ=environ)
        assert ended.status == 0, ended

        def is_without() -> bool:
            first.poll(POLL_S)
            members = in_cluster(cluster, "group", "describe", topic)["members"]
            return [m["client_id"] for m in members] == ["first"] and len(
                first.assignment()
            ) == PARTITIONS

        eventually(is_without, "the other member has all partitions", DEADLINE_S, poll_s=0)
    in_cluster(cluster, "group", "reset", topic, "--to-earliest", "--execute")
    lag = in_cluster(cluster, "group", "lag", topic)
    assert [p["committed"] for p in lag["partitions"]] == [0] * PARTITIONS
    with member(cluster, topic, "classic") as again:
        assert len(read(10 * PARTITIONS, again)) == 10 * PARTITIONS


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_command_line_shows_members_and_resets_their_offsets(
    cluster: LocalCluster, topic: str, protocol: str
) -> None:
    everything = list(range(10 * PARTITIONS))
    with member(cluster, topic, protocol, client_id="me") as one:
        assert read(len(everything), one) == everything
        one.commit(asynchronous=False)
        described = in_cluster(cluster, "group", "describe", topic)
        refused = command(
            "group",
            "reset",
            topic,
            "--to-earliest",
            environ={"STRANDLINE_DIR": str(cluster.directory)},
        )
    assert (described["state"], described["type"]) == ("Stable", protocol.capitalize())
    (only,) = described["members"]
    assert (only["client_id"], only["host"]) == ("me", "/127.0.0.1")
    assert only["subscribed_topics"] == [topic]
    assert only["assignment"] == {topic: list(range(PARTITIONS))}
    assert {each["lag"] for each in described["partitions"]} == {0}
    assert "stop them first" in refused.error
    in_cluster(cluster, "group", "reset", topic, "--to-earliest", "--execute")
    assert committed(cluster, topic) == dict.fromkeys(range(PARTITIONS), 0)
    with member(cluster, topic, protocol) as again:
        assert read(len(everything), again) == everything

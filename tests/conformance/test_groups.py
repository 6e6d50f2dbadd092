"""Classic groups whose members are different clients, restart with an identity, or cooperate."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness.clients import client
from conformance.harness.members import Members
from conformance.harness.results import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.harness.driver import Driver
    from conformance.harness.targets import Target


@pytest.fixture
def start(target: Target) -> Iterator[Callable[[str], Driver]]:
    """Starts the driver of a client by its name; ends with the test."""
    with contextlib.ExitStack() as running:

        def begin(name: str) -> Driver:
            driver = client(name).start(target.bootstrap)
            running.callback(driver.close)
            return driver

        yield begin


def records_of(name: str, partitions: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "partition": number % partitions,
            "timestamp": None,
            "key": b64encode(f"{name}-{number}".encode()).decode(),
            "value": b64encode(b"value").decode(),
            "headers": [],
        }
        for number in range(count)
    ]


def keys(records: list[dict[str, Any]]) -> list[str]:
    return sorted(each["key"] for each in records)


def test_one_group_has_members_of_three_clients(start: Callable[[str], Driver]) -> None:
    """Six partitions are shared by three clients, and by the two that stay."""
    with recorded("groups", "java-4.4.0, librdkafka, aiokafka", "one classic group"):
        java, librdkafka, aiokafka = map(start, ("java-4.4.0", "confluent-kafka", "aiokafka"))
        java.call("create_topic", topic="mixed", partitions=6, replication=3)
        members = Members("mixed", "mixed")
        members.join("java", java, strategy="range")
        members.join("librdkafka", librdkafka, strategy="range")
        members.join("aiokafka", aiokafka, strategy="range")
        members.until_shared(6)
        first = records_of("first", 6, 60)
        java.call("produce", topic="mixed", records=first)
        assert keys(members.until_read(60)) == keys(first)
        for driver in members.drivers.values():
            driver.call("commit", name="member")
        members.leave("librdkafka")
        members.until_shared(6)
        second = records_of("second", 6, 60)
        java.call("produce", topic="mixed", records=second)
        assert keys(members.until_read(60)) == keys(second)


def test_a_rolling_restart_of_static_members_moves_no_partition(
    start: Callable[[str], Driver],
) -> None:
    with recorded("groups", "java-4.4.0", "rolling restart of static members"):
        admin = start("confluent-kafka")
        admin.call("create_topic", topic="static", partitions=10, replication=3)
        members = Members("static", "static")
        names = [f"instance-{number}" for number in range(5)]
        for name in names:
            members.join(name, start("java-4.4.0"), instance=name, strategy="range")
        before = members.until_shared(10)
        members.events.clear()
        for name in names:
            members.drivers.pop(name).close()
            members.join(name, start("java-4.4.0"), instance=name, strategy="range")
            assert members.until_shared(10) == before
        assert [event for event in members.events if event[1] != "assigned"] == []
        assigned = [(member, partitions) for member, _, partitions in members.events]
        assert sorted(assigned) == sorted(before.items())


@pytest.mark.parametrize("name", ["java-4.4.0", "java-3.9.2", "confluent-kafka"])
def test_a_cooperative_join_revokes_only_the_partitions_that_move(
    start: Callable[[str], Driver], name: str
) -> None:
    with recorded("groups", name, "cooperative join"):
        first, second, third = (start(name) for _ in range(3))
        topic = f"cooperative-{name}"
        first.call("create_topic", topic=topic, partitions=6, replication=3)
        members = Members(topic, topic)
        members.join("first", first, strategy="cooperative-sticky")
        members.join("second", second, strategy="cooperative-sticky")
        before = members.until_shared(6)
        members.events.clear()
        members.join("third", third, strategy="cooperative-sticky")
        after = members.until_shared(6)
        for member, had in before.items():
            moved = sorted(set(had) - set(after[member]))
            revoked = [
                number
                for who, kind, partitions in members.events
                if who == member and kind != "assigned"
                for number in partitions
            ]
            assert sorted(revoked) == moved
            assert len(moved) == 1

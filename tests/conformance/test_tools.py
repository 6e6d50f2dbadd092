"""Apache Kafka's own tools, each run once as the scripts run them."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from conformance.harness.clients import client
from conformance.harness.records import numbered
from conformance.harness.results import recorded
from conformance.harness.tools import TOOLS, Tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conformance.harness.driver import Driver
    from conformance.harness.targets import Target


@pytest.fixture(scope="module")
def tools(target: Target) -> Tools:
    return Tools(target.bootstrap)


@pytest.fixture(scope="module")
def driver(target: Target) -> Iterator[Driver]:
    started = client("confluent-kafka").start(target.bootstrap)
    yield started
    started.close()


def filled(driver: Driver, topic: str, count: int = 30) -> str:
    """A topic of three partitions, with `count` records."""
    driver.call("create_topic", topic=topic, partitions=3, replication=3)
    driver.call("produce", topic=topic, records=numbered(topic, count))
    return topic


def test_kafka_topics(tools: Tools) -> None:
    name = f"{TOOLS}.TopicCommand"
    with recorded("tools", "kafka-topics", "run"):
        wanted = ("--partitions", "3", "--replication-factor", "3")
        made = tools.run(name, "--create", "--topic", "tool-topics", *wanted)
        assert "Created topic tool-topics." in made
        assert "tool-topics" in tools.run(name, "--list").split()
        tools.run(name, "--alter", "--topic", "tool-topics", "--partitions", "5")
        shown = tools.run(name, "--describe", "--topic", "tool-topics")
        assert "PartitionCount: 5" in shown
        assert "ReplicationFactor: 3" in shown
        assert re.search(r"Partition: 4\s+Leader: \d+\s+Replicas: \d,\d,\d\s+Isr: ", shown)
        assert tools.run(name, "--describe", "--under-replicated-partitions").strip() == ""
        tools.run(name, "--delete", "--topic", "tool-topics")
        assert "tool-topics" not in tools.run(name, "--list").split()


def test_kafka_configs(tools: Tools, driver: Driver) -> None:
    topic = filled(driver, "tool-configs", 0)
    name = "kafka.admin.ConfigCommand"
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    with recorded("tools", "kafka-configs", "run"):
        done = tools.run(name, "--alter", *of_topic, "--add-config", "retention.ms=3600000")
        assert "Completed updating config" in done
        shown = tools.run(name, "--describe", *of_topic)
        assert "retention.ms=3600000" in shown
        tools.run(name, "--alter", *of_topic, "--delete-config", "retention.ms")
        assert "retention.ms=3600000" not in tools.run(name, "--describe", *of_topic)
        everything = tools.run(name, "--describe", *of_topic, "--all")
        assert "cleanup.policy=delete" in everything
        brokers = tools.run(name, "--describe", "--entity-type", "brokers", "--all")
        assert "log.retention" in brokers


def test_kafka_console_tools(tools: Tools, driver: Driver) -> None:
    topic = filled(driver, "tool-consoles", 0)
    lines = [f"key-{number}:line {number}" for number in range(20)]
    with recorded("tools", "kafka-console-producer", "run"):
        tools.run(
            f"{TOOLS}.ConsoleProducer",
            *("--topic", topic, "--command-property", "acks=all"),
            *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
            stdin="".join(f"{line}\n" for line in lines),
        )
    with recorded("tools", "kafka-console-consumer", "run"):
        printed = tools.run(
            f"{TOOLS}.consumer.ConsoleConsumer",
            *("--topic", topic, "--from-beginning", "--max-messages", "20"),
            *("--timeout-ms", "30000", "--group", "tool-console"),
            *("--formatter-property", "print.key=true"),
            *("--formatter-property", "key.separator=:"),
        )
        assert sorted(each for each in printed.splitlines() if each[:4] == "key-") == sorted(lines)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups(tools: Tools, driver: Driver, protocol: str) -> None:
    topic = filled(driver, f"tool-groups-{protocol}")
    group = f"tool-group-{protocol}"
    driver.call("open", name="member", group=group, topic=topic, protocol=protocol)
    driver.call("poll", name="member", count=30, wait_s=40.0)
    driver.call("commit", name="member")
    driver.call("produce", topic=topic, records=numbered("lag", 20))
    name = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    with recorded("tools", "kafka-consumer-groups", f"run on a {protocol} group"):
        assert group in tools.run(name, "--list").split()
        assert _lags(tools.run(name, "--describe", "--group", group)) == 20
        members = tools.run(name, "--describe", "--group", group, "--members", "--verbose")
        assert "rdkafka" in members
        assert "Stable" in tools.run(name, "--describe", "--group", group, "--state")
        driver.call("close", name="member")
        tools.run(
            name,
            *("--reset-offsets", "--group", group, "--topic", topic),
            *("--to-earliest", "--execute"),
        )
        assert _lags(tools.run(name, "--describe", "--group", group)) == 50
        tools.run(name, "--delete-offsets", "--group", group, "--topic", topic)
        tools.run(name, "--delete", "--group", group)
        assert group not in tools.run(name, "--list").split()


def _lags(described: str) -> int:
    """The sum of the column LAG."""
    lines = [line.split() for line in described.splitlines() if line.startswith("tool-group")]
    assert lines, described
    return sum(int(line[5]) for line in lines)


def test_kafka_producer_perf_test(tools: Tools, driver: Driver) -> None:
    topic = filled(driver, "tool-perf", 0)
    with recorded("tools", "kafka-producer-perf-test", "run"):
        printed = tools.run(
            f"{TOOLS}.ProducerPerformance",
            *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
            *("--throughput", "-1", "--command-property", "acks=all"),
        )
        assert "20000 records sent" in printed


def test_kafka_reassign_partitions(tools: Tools, driver: Driver, tmp_path: Path) -> None:
    driver.call("create_topic", topic="tool-moves", partitions=1, replication=2)
    driver.call(
        "produce",
        topic="tool-moves",
        records=[each for each in numbered("moves", 90) if each["partition"] == 0],
    )
    old = driver.call("leaders", topic="tool-moves")["isrs"]["0"]
    brokers = driver.call("brokers")["brokers"]
    new = [*(each for each in brokers if each not in old), old[0]]
    plan = tmp_path / "plan.json"
    moves = [{"topic": "tool-moves", "partition": 0, "replicas": new}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}), "utf-8")
    name = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    with recorded("tools", "kafka-reassign-partitions", "run"):
        started = tools.run(name, "--reassignment-json-file", str(plan), "--execute")
        assert "Successfully started partition reassignment for tool-moves-0" in started
        for _ in range(20):
            verified = tools.run(name, "--reassignment-json-file", str(plan), "--verify")
            if "is completed" in verified:
                break
        assert "Reassignment of partition tool-moves-0 is completed." in verified
        assert sorted(driver.call("leaders", topic="tool-moves")["isrs"]["0"]) == sorted(new)
        tools.run(name, "--list")


def test_kafka_leader_election(tools: Tools, driver: Driver) -> None:
    topic = filled(driver, "tool-elections", 0)
    with recorded("tools", "kafka-leader-election", "run"):
        printed = tools.run(
            f"{TOOLS}.LeaderElectionCommand",
            *("--election-type", "preferred", "--topic", topic, "--partition", "0"),
        )
        assert "Valid replica already elected" in printed or "Successfully completed" in printed


def test_kafka_get_offsets(tools: Tools, driver: Driver) -> None:
    topic = filled(driver, "tool-offsets")
    name = f"{TOOLS}.GetOffsetShell"
    with recorded("tools", "kafka-get-offsets", "run"):
        latest = tools.run(name, "--topic", topic)
        assert sorted(latest.split()) == [f"{topic}:{each}:10" for each in range(3)]
        earliest = tools.run(name, "--topic", topic, "--time", "earliest")
        assert sorted(earliest.split()) == [f"{topic}:{each}:0" for each in range(3)]
        assert topic in tools.run(name, "--topic", topic, "--time", "max-timestamp")


def test_kafka_delete_records(tools: Tools, driver: Driver, tmp_path: Path) -> None:
    topic = filled(driver, "tool-deletions")
    plan = tmp_path / "plan.json"
    partitions = [{"topic": topic, "partition": each, "offset": 4} for each in range(3)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}), "utf-8")
    with recorded("tools", "kafka-delete-records", "run"):
        printed = tools.run(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(plan))
        for each in range(3):
            assert f"partition: {topic}-{each}\tlow_watermark: 4" in printed
        kept = driver.call("read", topic=topic, partitions=[0, 1, 2], wait_s=40.0)["records"]
        assert {b64decode(each["key"])[:14] for each in kept} == {b"tool-deletions"}
        assert min(each["offset"] for each in kept) == 4


def test_kafka_log_dirs(tools: Tools, driver: Driver) -> None:
    topic = filled(driver, "tool-dirs")
    with recorded("tools", "kafka-log-dirs", "run"):
        printed = tools.run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)
        document = json.loads(next(each for each in printed.splitlines() if each[:1] == "{"))
        sizes = [
            partition["size"]
            for broker in document["brokers"]
            for directory in broker["logDirs"]
            for partition in directory["partitions"]
        ]
        assert len(sizes) == 9
        assert min(sizes) > 0

"""A byte that the disk changes under real processes: found by the scrub, healed, or told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from strandline import NewTopic, TopicPartition, sync
from strandline.errors import KafkaStorageError
from support.cluster import MakeCluster, eventually
from support.command import strandline

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_local.local_cluster import LocalCluster

COUNT = 300
CONFIG = {
    "log.scrub.interval": "200",
    "log.segment.bytes": "20000",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture
def three(make_cluster: MakeCluster) -> LocalCluster:
    return make_cluster(brokers=3, broker_config=CONFIG)


def fill(cluster: LocalCluster, topic: str, replicas: int) -> None:
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, replicas, config={"min.insync.replicas": "1"})])
    with sync.Producer(cluster.bootstrap) as producer:
        for i in range(COUNT):
            producer.send(topic, b"%d" % i + b"x" * 300, partition=0)
            if i % 15 == 14:
                producer.flush()  # a follower appends what it has fetched at once as one run


def segments(cluster: LocalCluster, broker: int, topic: str) -> list[Path]:
    return sorted((cluster.data_directory(broker) / f"{topic}-0").glob("*.log"))


def content(cluster: LocalCluster, broker: int, topic: str) -> bytes:
    """Empty while one of the files is just being removed."""
    try:
        return b"".join(path.read_bytes() for path in segments(cluster, broker, topic))
    except FileNotFoundError:
        return b""


def flip(path: Path) -> None:
    """Change a byte in the middle."""
    before = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(len(before) // 2)
        file.write(bytes([before[len(before) // 2] ^ 0x41]))


def in_sync(cluster: LocalCluster, topic: str) -> tuple[int, list[int]]:
    with sync.Admin(cluster.bootstrap) as admin:
        partition = admin.describe_topics([topic])[topic].partitions[0]
    return partition.leader or -1, sorted(partition.isr)


@pytest.mark.parametrize("of_leader", [False, True])
def test_a_changed_byte_is_copied_anew_from_another_replica(
    three: LocalCluster, of_leader: bool
) -> None:
    fill(three, "orders", 3)
    leader, _ = in_sync(three, "orders")
    victim = leader if of_leader else next(b for b in (1, 2, 3) if b != leader)
    eventually(lambda: len(segments(three, victim, "orders")) > 3, "sealed segments")
    sound = content(three, leader, "orders")
    flip(segments(three, victim, "orders")[1])
    log = three.directory / "logs" / f"broker-{victim}.log"
    eventually(lambda: "healing" in log.read_text(), "found, told, and out of the ISR")
    eventually(lambda: content(three, victim, "orders") == sound, "copied")
    eventually(lambda: in_sync(three, "orders")[1] == [1, 2, 3], "in sync again")
    healthy = strandline("health", "--bootstrap", three.bootstrap, "--wait", "20")
    assert healthy.status == 0, healthy
    with sync.Consumer(bootstrap_servers=three.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        seen = [consumer.getone().value for _ in range(COUNT)]
    assert seen == [b"%d" % i + b"x" * 300 for i in range(COUNT)]


def test_the_only_copy_says_what_is_lost_and_serves_the_rest(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=1, broker_config=CONFIG)
    fill(cluster, "alone", 1)
    flip(segments(cluster, 1, "alone")[1])
    unhealthy = eventually(
        lambda: (
            found
            if (found := strandline("health", "--bootstrap", cluster.bootstrap)).status != 0
            else None
        ),
        "found and reported",
    )
    assert "alone:0: the replica on broker" in unhealthy.out, unhealthy
    assert "lacks a damaged range of offsets" in unhealthy.out, unhealthy
    shown = strandline("offsets", "alone", "--bootstrap", cluster.bootstrap)
    assert "are damaged on this broker's disk and not served" in shown.err, shown
    with sync.Consumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("alone", 0)])
        seen: list[int] = []
        with pytest.raises(KafkaStorageError, match=r"offsets? .* are damaged"):
            read_on(consumer, seen)
        lost = len(seen)
        assert seen == list(range(lost))
        assert lost > 0
        damaged = damage(cluster)
        assert lost in damaged
        end = next(i for i in range(lost, COUNT) if i not in damaged)
        consumer.seek(TopicPartition("alone", 0), end)
        rest = [consumer.getone().offset for _ in range(COUNT - end)]
    assert rest == list(range(end, COUNT))


def read_on(consumer: sync.Consumer, seen: list[int]) -> None:
    while True:
        seen.append(consumer.getone().offset)


def damage(cluster: LocalCluster) -> set[int]:
    """The offsets that the only replica says it does not serve."""
    (replica,) = strandline(
        "offsets", "alone", "--bootstrap", cluster.bootstrap, "--format", "json"
    ).json
    ranges = re.findall(r"offsets? (\d+)(?: to (\d+))? \(", replica["problem"])
    assert ranges, replica
    return {i for first, last in ranges for i in range(int(first), int(last or first) + 1)}

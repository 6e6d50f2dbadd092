"""A broker process with two data directories, one of which its disk takes away."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from strandline import NewTopic, TopicPartition, sync
from support.cluster import MakeCluster, eventually
from support.command import strandline

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 4
OFFSETS = 50
"""Partitions of the internal topic, which the controller creates by itself."""


def is_at_rest(directory: Path, partitions: list[int]) -> bool:
    """Whether the checkpoint says that each of them has one record."""
    path = directory / "replication-offset-checkpoint"
    said = path.read_text("utf-8").splitlines() if path.exists() else []
    return {f"spread {p} 1" for p in partitions} <= set(said)


def are_made(*directories: Path) -> bool:
    """Whether the internal topic has its partitions. The directory of a new one is made with those
    above it: no loss would be seen.
    """
    return sum(len(list(d.glob("__consumer_offsets-*"))) for d in directories) == OFFSETS


def test_a_directory_that_is_taken_away_takes_its_partitions_and_no_others(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    cluster = make_cluster(
        brokers=1,
        broker_config={
            "log.dirs": f"{first},{second}",
            "replica.high.watermark.checkpoint.interval.ms": "100",
        },
    )
    with sync.Admin(cluster.bootstrap) as admin:
        alone = {"min.insync.replicas": "1"}
        admin.create_topics([NewTopic("spread", PARTITIONS, 1, config=alone)])
    with sync.Producer(cluster.bootstrap) as producer:
        for i in range(PARTITIONS):
            producer.send_and_wait("spread", b"%d" % i, partition=i)
    held = {d: sorted(int(p.name[-1]) for p in d.glob("spread-*")) for d in (first, second)}
    assert [len(partitions) for partitions in held.values()] == [2, 2]

    eventually(lambda: are_made(first, second), "every partition has its directory")
    eventually(lambda: is_at_rest(second, held[second]), "nothing left to be written")
    second.rename(tmp_path / "away")  # in one step: the broker looks for its checkpoints in it
    unhealthy = eventually(
        lambda: (
            found
            if (found := strandline("health", "-v", "--bootstrap", cluster.bootstrap)).status != 0
            and f"broker 1 has lost the data directory {second}" in found.out
            and "has no leader" in found.out
            else None
        ),
        "found and reported",
    )
    for partition in held[second]:
        assert f"spread:{partition} has no leader" in unhealthy.out
    with (
        sync.Producer(cluster.bootstrap) as producer,
        sync.Consumer(
            bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer,
    ):
        for partition in held[first]:
            assert producer.send_and_wait("spread", b"more", partition=partition).offset == 1
        consumer.assign([TopicPartition("spread", p) for p in held[first]])
        values = sorted(consumer.getone().value or b"" for _ in range(4))
    assert values == sorted([b"%d" % p for p in held[first]] + [b"more"] * 2)

    cluster.restart(1)
    again = strandline("health", "-v", "--bootstrap", cluster.bootstrap, "--wait", "5")
    assert again.status == 1, "what was in it exists nowhere else, and is not made anew"
    for partition in held[second]:
        assert f"spread:{partition} has no leader" in again.out
    assert not list(second.glob("spread-*"))


def test_a_disk_that_was_replaced_is_filled_from_the_leader(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """Its replicas were eligible, as only the other broker was in sync when it came back."""
    cluster = make_cluster(brokers=2, up=False)
    config = {"min.insync.replicas": "2"}
    first, second = cluster.data_directory(2), tmp_path / "second"
    path = cluster.directory / "broker-2.toml"
    path.write_text(
        re.sub(r'"log.dirs" = .*', f'"log.dirs" = "{first},{second}"', path.read_text())
    )
    cluster.up()
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("spread", PARTITIONS, 2, config=config)])
    with sync.Producer(cluster.bootstrap, acks="all") as producer:
        for i in range(PARTITIONS):
            producer.send_and_wait("spread", b"%d" % i, partition=i)
        cluster.stop(2)
        shutil.rmtree(second)
        second.mkdir()
        cluster.start(2)
        for i in range(PARTITIONS):
            assert producer.send_and_wait("spread", b"more", partition=i).offset == 1
    healthy = strandline("health", "--bootstrap", cluster.bootstrap, "--wait", "30")
    assert healthy.status == 0, healthy.out
    assert {p.name[-1] for p in (*first.glob("spread-*"), *second.glob("spread-*"))} == set("0123")

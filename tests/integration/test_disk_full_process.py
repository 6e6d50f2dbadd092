"""One disk of three is full: writes go on elsewhere, and it comes back when there is room."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from strandline import NewTopic, sync
from support.cluster import MakeCluster, eventually
from support.command import strandline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTITIONS = 3
DISK_MB = 64


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[Path]]:
    """A small file system for each broker of a cluster in `tmp_path / "c"`."""
    mounted: list[Path] = []
    try:
        for number in (1, 2, 3):
            path = tmp_path / "c" / f"broker-{number}"
            path.mkdir(parents=True)
            size, where = f"size={DISK_MB}m", str(path)
            command = ["mount", "-t", "tmpfs", "-o", size, "strandline-test", where]
            made = None if os.geteuid() != 0 else subprocess.run(command, check=False)
            if made is None or made.returncode != 0:
                pytest.skip("NOT TESTED: a full disk needs root and the right to mount a tmpfs")
            mounted.append(path)
        yield mounted
    finally:
        for path in mounted:
            subprocess.run(["umount", "--lazy", path], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(64))
        except OSError:
            pass
    return ballast


def _longest_write_s(
    producer: sync.Producer, topic: str, value: bytes, *, during_s: float
) -> float:
    longest_s, until_s = 0.0, time.monotonic() + during_s
    while time.monotonic() < until_s:
        for partition in range(PARTITIONS):
            began_s = time.monotonic()
            producer.send_and_wait(topic, value, partition=partition)
            longest_s = max(longest_s, time.monotonic() - began_s)
    return longest_s


def test_writes_go_on_beside_a_full_disk_and_it_comes_back_with_room(
    make_cluster: MakeCluster, disks: list[Path]
) -> None:
    cluster = make_cluster(brokers=3, name="c")
    topic = "flights"
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
        leaders = {p.partition: p.leader for p in admin.describe_topics([topic])[topic].partitions}
    assert sorted(leaders.values()) == [1, 2, 3]
    with sync.Producer(cluster.bootstrap, linger_ms=0) as producer:
        for partition in range(PARTITIONS):
            producer.send_and_wait(topic, b"before", partition=partition)
        of_the_machine_s = _longest_write_s(producer, topic, bytes(20), during_s=2)
        ballast = fill(disks[0])
        longest_s = _longest_write_s(producer, topic, bytes(2000), during_s=4)
        assert longest_s < 2 + of_the_machine_s, "writes go on within 2 s of the first refusal"

        sick = strandline("health", "--verbose", "--bootstrap", cluster.bootstrap)
        assert sick.status == 1, sick
        assert f"broker 1 has no room in {disks[0]}" in sick.out
        for partition in range(PARTITIONS):
            lacks = f"{topic}:{partition} lacks broker 1 in its ISR; the replica on broker 1"
            assert lacks in sick.out
        described = strandline("topic", "describe", topic, "--bootstrap", cluster.bootstrap)
        assert "the replica on broker 1 takes no more records: its disk is full" in described.err
        assert f"broker 1 has no room in {disks[0]}" in described.err
        (warning,) = [
            line
            for line in cluster.process(1).log_file.read_text().splitlines()
            if "data directory full" in line
        ]
        assert str(disks[0]) in warning
        assert f"{topic}:0" in warning

        ballast.unlink()
        eventually(
            lambda: strandline("health", "--bootstrap", cluster.bootstrap).status == 0,
            "every replica is in sync again",
        )
        with sync.Admin(cluster.bootstrap) as admin:
            kept = admin.describe_topics([topic])[topic]
        assert all(sorted(p.isr) == [1, 2, 3] for p in kept.partitions)
        for partition in range(PARTITIONS):
            producer.send_and_wait(topic, b"after", partition=partition)

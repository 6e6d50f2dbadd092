"""The power of all brokers goes, twice: what is reported of the records that are gone (I-53)."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from strandline import NewTopic, TopicPartition, sync
from strandline_cli.nemesis.disks import PowerDisk, cannot_cut
from strandline_local.local_cluster import LocalCluster
from support.cluster import eventually
from support.command import strandline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strandline.types import LossInfo

PARTITIONS = 3
RECORDS = 60
"""Of each partition, between two flushes."""
BROKERS = (1, 2, 3)
GONE_S = 120.0

Acknowledged = dict[tuple[int, int], bytes]
"""By partition and offset."""


@pytest.fixture
def powered(tmp_path: Path) -> Iterator[tuple[LocalCluster, dict[int, PowerDisk]]]:
    """Three brokers, each with a disk of its own. The controller has another source of power."""
    if why := cannot_cut():
        pytest.skip(why)
    cluster = LocalCluster.create(tmp_path / "cluster", port=0, brokers=3)
    disks: dict[int, PowerDisk] = {}
    try:
        for broker in BROKERS:
            disks[broker] = PowerDisk(tmp_path / f"{broker}.img", cluster.data_directory(broker))
        cluster.up()
        yield cluster, disks
    finally:
        cluster.kill_all()
        for disk in disks.values():
            disk.off()


def test_a_disk_comes_back_though_a_mount_namespace_keeps_what_was_cut(tmp_path: Path) -> None:
    if why := cannot_cut():
        pytest.skip(why)
    disk = PowerDisk(tmp_path / "1.img", tmp_path / "disk")
    with subprocess.Popen(["unshare", "--mount", "cat"], stdin=subprocess.PIPE) as keeper:
        try:
            eventually(lambda: mounts(keeper.pid) != mounts(os.getpid()), "it has a namespace")
            (disk.path / "kept").write_bytes(b"flushed")
            disk.flush()
            (disk.path / "gone").write_bytes(b"not flushed")
            disk.cut()
            disk.off()
            disk.on()
            assert [path.name for path in disk.path.iterdir()] == ["kept"]
            assert (disk.path / "kept").read_bytes() == b"flushed"
        finally:
            keeper.communicate(timeout=GONE_S)
            disk.off()


def mounts(pid: int) -> str:
    """The mount namespace of a process."""
    return os.readlink(f"/proc/{pid}/ns/mnt")


def produce(cluster: LocalCluster, acknowledged: Acknowledged, what: str) -> None:
    with sync.Producer(cluster.bootstrap) as producer:
        sent = [
            (partition, value, producer.send("orders", value, partition=partition))
            for partition in range(PARTITIONS)
            for value in (f"{what} {n}".encode() for n in range(RECORDS))
        ]
        producer.flush()
        for partition, value, future in sent:
            acknowledged[partition, future.result(timeout=60).offset] = value


def cut_power(cluster: LocalCluster, disks: dict[int, PowerDisk]) -> None:
    """Of all brokers at once, and back."""
    for disk in disks.values():
        disk.cut()
    for broker in BROKERS:
        process = cluster.process(broker)
        process.send(signal.SIGKILL)  # unless it has ended by itself, with its disk
        process.wait_until_gone(GONE_S)
        process.forget()
    for disk in disks.values():
        disk.off()
        disk.on()
    for broker in BROKERS:
        cluster.launch(broker)
    eventually(lambda: in_sync(cluster), "all replicas are in sync again")


def in_sync(cluster: LocalCluster) -> bool:
    assert cluster.died() == [], [cluster.exit_report(i) for i in cluster.died()]
    with sync.Admin(cluster.bootstrap) as admin:
        found = admin.describe_topics(["orders"])["orders"].partitions
    return all(len(partition.isr) == len(BROKERS) for partition in found)


def read(cluster: LocalCluster) -> Acknowledged:
    found: Acknowledged = {}
    with sync.Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as reader:
        partitions = [TopicPartition("orders", p) for p in range(PARTITIONS)]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        while sum(ends.values()) > len(found):
            record = reader.getone()
            found[record.partition, record.offset] = record.value or b""
    return found


def reported(cluster: LocalCluster) -> tuple[LossInfo, ...]:
    """Of what was written: the cluster's own topics lose their power too."""
    with sync.Admin(cluster.bootstrap) as admin:
        losses = admin.describe_cluster().losses
    return tuple(loss for loss in losses if loss.topic == "orders")


def is_covered(partition: int, offset: int, reports: tuple[LossInfo, ...]) -> bool:
    return any(
        report.start <= offset < report.end
        or (report.possibly_from is not None and report.possibly_from <= offset)
        for report in reports
        if report.partition == partition
    )


def test_what_the_power_took_is_reported_as_lost_or_possibly_lost(
    powered: tuple[LocalCluster, dict[int, PowerDisk]],
) -> None:
    cluster, disks = powered
    with sync.Admin(cluster.bootstrap) as admin:
        config = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic("orders", PARTITIONS, 3, config=config)])
    acknowledged: Acknowledged = {}
    for cut in (1, 2):
        produce(cluster, acknowledged, f"on all disks {cut}")
        for disk in disks.values():
            disk.flush()
        produce(cluster, acknowledged, f"on one disk {cut}")
        disks[cut].flush()
        produce(cluster, acknowledged, f"on none {cut}")
        cut_power(cluster, disks)
        there = read(cluster)
        gone = {at: value for at, value in acknowledged.items() if there.get(at) != value}
        assert gone, "the power has taken nothing"
        reports = reported(cluster)
        unsaid = sorted(at for at in gone if not is_covered(*at, reports))
        assert unsaid == [], reports
        assert len(reports) == cut * PARTITIONS, "one for each election"
        kept = [-1 if report.possibly_from is None else report.possibly_from for report in reports]
        assert min(kept) >= 2 * RECORDS, "what is on one disk is not lost"
        acknowledged = {at: value for at, value in acknowledged.items() if at not in gone}
    shown = strandline("leader", "losses", "--bootstrap", cluster.bootstrap).out
    assert "and on" in shown
    assert "none" not in shown

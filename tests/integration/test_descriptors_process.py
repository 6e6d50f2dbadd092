"""A broker with few file descriptors: clients' connections leave its logs theirs, and without any
others lead.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from strandline import NewTopic, sync
from strandline_broker.storage.segment.open_segments import connections_max, replicas_max
from support.cluster import MakeCluster, eventually
from support.command import strandline
from support.processes import (
    broker_settings,
    command,
    controller_settings,
    free_ports,
)

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 60.0
LIMIT = 400
PARTITIONS = 6

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="NOT TESTED: limits of another process"
)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_more_connections_than_are_bounded_are_closed_and_logs_go_on(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    servers = {
        "controller": controller_settings(tmp_path / "controller", controller_port)
        | {"offsets_topic_num_partitions": "1"},
        "broker": broker_settings(tmp_path / "data", port, f"127.0.0.1:{controller_port}")
        | {"log_segment_bytes": "20000"},
    }
    running: list[subprocess.Popen[bytes]] = []
    held: list[socket.socket] = []
    try:
        for server, settings in servers.items():
            limited = ["prlimit", f"--nofile={LIMIT}:{LIMIT}", *command(server, **settings)]
            with (tmp_path / server).with_suffix(".txt").open("wb") as log:
                running.append(subprocess.Popen(limited, stderr=log))
        said = tmp_path / "broker.txt"
        eventually(lambda: "serving" in said.read_text(), "the broker serves")
        bootstrap = f"127.0.0.1:{port}"
        with sync.Admin(bootstrap) as admin, sync.Producer(bootstrap) as producer:
            admin.create_topics([NewTopic("orders", 3, 1)])
            producer.send_and_wait("orders", b"before", partition=0)
            for _ in range(2 * LIMIT):
                held.append(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
            closed = eventually(lambda: closed_by_peer(held), "some are closed again")
            assert closed
            bound = connections_max(LIMIT)
            eventually(
                lambda: len(held) - len(closed_by_peer(held)) <= bound, f"at most {bound} stay"
            )
            assert open_files(running[1].pid) < LIMIT - replicas_max(LIMIT) + 100
            for number in range(60):  # each begins a segment
                producer.send_and_wait("orders", bytes(15_000), partition=number % 3)
        assert "Too many open files" not in said.read_text()
    finally:
        for each in held:
            each.close()
        for process in running:
            process.kill()
            process.wait()


def closed_by_peer(connections: list[socket.socket]) -> list[socket.socket]:
    found = []
    for connection in connections:
        connection.setblocking(False)
        try:
            if connection.recv(1, socket.MSG_PEEK) == b"":
                found.append(connection)
        except BlockingIOError:
            pass
        except OSError:
            found.append(connection)
    return found


def test_a_broker_without_descriptors_hands_over_and_health_says_it(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3, broker_config={"log.segment.bytes": "20000"})
    pid = cluster.process(1).pid
    assert pid is not None
    with sync.Admin(cluster.bootstrap) as admin, sync.Producer(cluster.bootstrap) as producer:
        admin.create_topics([NewTopic("orders", PARTITIONS, 3)])

        def leaders() -> set[int]:
            found = admin.describe_topics(["orders"])["orders"]
            return {p.leader for p in found.partitions if p.leader is not None}

        def write() -> float:
            longest_s = 0.0
            for partition in range(PARTITIONS):
                began_s = time.monotonic()
                producer.send_and_wait("orders", bytes(15_000), partition=partition)
                longest_s = max(longest_s, time.monotonic() - began_s)
            return longest_s

        write()
        assert leaders() == {1, 2, 3}
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        for _ in range(3):
            assert write() < 20, "it stood still for 25 to 45 s"
        assert leaders() == {2, 3}
        sick = strandline("health", "--verbose", "--bootstrap", cluster.bootstrap)
        assert sick.status == 1, sick
        assert (
            "broker 1 has no file descriptors left: its replicas take no more records" in sick.out
        )
        assert "ulimit -Hn" in sick.out
        for partition in range(PARTITIONS):
            assert f"orders:{partition} lacks broker 1 in its ISR" in sick.out
        assert cluster.process(1).pid == pid
        assert "no file descriptors left" in cluster.process(1).log_file.read_text()

        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        eventually(
            lambda: strandline("health", "--bootstrap", cluster.bootstrap).status == 0,
            "every replica is in sync again",
            20,
        )
        write()

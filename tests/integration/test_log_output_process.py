"""What takes the text log takes no more: a full disk, a pipe without a reader, a closed pipe. The
servers and `strandline up` go on, obey SIGTERM, and say how many lines are missing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import grpc
import pytest

from strandline import NewTopic, sync
from strandline_local.local_cluster import LocalCluster
from strandline_proto.errors import KafkaStorageError, WireError
from strandline_proto.v1 import metadata_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.cluster import MakeCluster, eventually
from support.command import COMMAND, clean_environ, strandline
from support.processes import (
    broker_settings,
    command,
    controller_settings,
    free_ports,
    until_listening,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S = 60.0
DISK_MB = 100
SESSION = ("--config", "broker.session.timeout.ms=3000")
FULL_S = 5
"""Longer than a session: without it all were dead after one."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "strandline-test", str(path)]
    made = None if os.geteuid() != 0 else subprocess.run(mount, check=False)
    if made is None or made.returncode != 0:
        pytest.skip("NOT TESTED: a full disk needs root and the right to mount a tmpfs")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte free."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 64):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return ballast


def test_a_cluster_on_a_full_disk_lives_refuses_and_goes_on_when_there_is_room(
    make_cluster: MakeCluster, disk: Path
) -> None:
    """Data, text logs and what `strandline up` says share the disk."""
    directory = disk / "c"
    cluster = LocalCluster.create(directory, brokers=3, port=0)
    with (disk / "up.log").open("wb") as said:
        up = subprocess.Popen(
            [*COMMAND, "up", "--dir", str(directory), *SESSION],
            stdout=said,
            stderr=said,
            env=clean_environ(),
        )
    try:
        eventually(lambda: b"Ctrl-C" in (disk / "up.log").read_bytes(), "the cluster answers")
        living = {i: cluster.process(i).pid for i in cluster.process_ids}
        with sync.Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 3, 3)])
        with sync.Producer(cluster.bootstrap) as producer:
            producer.send_and_wait("orders", b"before")
        ballast = fill(disk)
        until = time.monotonic() + FULL_S
        while time.monotonic() < until:
            fill(disk)
            assert {i: cluster.process(i).pid for i in cluster.process_ids} == living
            assert up.poll() is None
            time.sleep(0.1)
        ballast.unlink()
        healthy = ("health", "--bootstrap", cluster.bootstrap)
        eventually(lambda: strandline(*healthy).status == 0, "every replica is in sync again")
        with sync.Producer(cluster.bootstrap) as producer:
            producer.send_and_wait("orders", b"after")
        assert {i: cluster.process(i).pid for i in cluster.process_ids} == living
        assert up.poll() is None
        up.send_signal(signal.SIGTERM)
        assert up.wait(DEADLINE_S) == 0
        assert cluster.alive() == []
        for process_id in cluster.process_ids:
            assert "stopped" in cluster.process(process_id).last_log_lines()[-1]
    finally:
        cluster.kill_all()
        up.kill()
        up.wait()


def test_a_controller_on_a_full_disk_refuses_decisions_and_takes_them_again(
    make_cluster: MakeCluster, disk: Path
) -> None:
    (disk / "controller").mkdir()
    cluster = make_cluster(brokers=1, up=False)
    data = cluster.data_directory("controller")
    data.symlink_to(disk / "controller")
    cluster.up()
    pid = cluster.process("controller").pid
    ballast = fill(disk)

    def create(name: str) -> None:
        with sync.Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(name, 1, 1)])

    refused: list[WireError] = []
    for number in range(60):  # a block of the file may have had room for the first ones
        try:
            create(f"t{number}")
        except WireError as error:
            refused.append(error)
            break
    assert isinstance(refused[0], KafkaStorageError), refused
    assert "No space left on device" in str(refused[0])
    assert "nothing was decided; free disk space" in str(refused[0])
    assert cluster.process("controller").pid == pid
    ballast.unlink()
    create("after")
    assert cluster.process("controller").pid == pid
    log = cluster.process("controller").log_file.read_text()
    assert "decisions are refused" in log

    fill(disk)
    cluster.kill("controller")
    cluster.launch("controller")
    eventually(lambda: cluster.process("controller").pid is None, "it cannot begin its epoch")
    assert cluster.process("controller").exit_status == 1
    last = cluster.process("controller").last_log_lines(1)[0]
    assert last.startswith("error: the controller cannot write its decision to ")
    assert "free disk space" in last


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe that takes no more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"-" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writing, True)
    try:
        yield reading, writing
    finally:
        for end in (reading, writing):
            with suppress(OSError):
                os.close(end)


@pytest.mark.parametrize("pipe", ["unread", "closed"])
def test_servers_whose_log_no_reader_takes_serve_and_obey_sigterm(
    tmp_path: Path, pipe: str
) -> None:
    port, controller_port = free_ports(2)
    settings = {
        "controller": controller_settings(tmp_path / "controller", controller_port),
        "broker": broker_settings(tmp_path / "data", port, f"127.0.0.1:{controller_port}"),
    }
    running: list[subprocess.Popen[bytes]] = []
    with full_pipe() as (reading, writing):
        if pipe == "closed":
            os.close(reading)
        try:
            for server, its in settings.items():
                argv = command(server, **its, log_level="debug")
                running.append(subprocess.Popen(argv, stderr=writing))
            until_listening(port)
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = BrokerServiceStub(channel)

                def serves() -> bool:
                    try:
                        answer = stub.Metadata(metadata_pb2.MetadataRequest(), timeout=DEADLINE_S)
                    except grpc.RpcError:
                        return False
                    return len(answer.brokers) == 1

                eventually(serves, "the broker serves")
                for _ in range(200):  # each of them is a line or more
                    stub.Metadata(metadata_pb2.MetadataRequest(), timeout=DEADLINE_S)
            for process in reversed(running):
                process.send_signal(signal.SIGTERM)
                assert process.wait(DEADLINE_S) == 0
        finally:
            for process in running:
                process.kill()
                process.wait()


def test_a_reader_that_comes_late_finds_how_many_lines_are_missing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with full_pipe() as (reading, writing):
        argv = [
            sys.executable,
            "-c",
            "import sys, strandline_runtime.log_output as out\n"
            "out.LogOutput.__init__.__kwdefaults__['queue_bytes'] = 100\n"
            "out.take_over_stderr()\n"
            "from strandline_broker.__main__ import main\n"
            "out.end_process(main(sys.argv[1:]))",
            *command("controller", **controller_settings(tmp_path / "data", port))[3:],
        ]
        running = subprocess.Popen(argv, stderr=writing)
        try:
            until_listening(port)
            os.close(writing)
            running.send_signal(signal.SIGTERM)
            said = b""
            while piece := os.read(reading, 1 << 16):
                said += piece
            assert running.wait(DEADLINE_S) == 0
        finally:
            running.kill()
            running.wait()
    lines = said.lstrip(b"-").decode().splitlines()
    assert any(re.search(r"log lines were dropped.* lines=[1-9]", line) for line in lines), lines


def test_what_a_server_says_goes_into_none_of_its_files_if_stderr_is_closed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    argv = command("controller", **controller_settings(tmp_path / "data", port))
    closed = ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *argv]
    with subprocess.Popen(closed) as running:
        try:
            until_listening(port)
            for descriptor in range(3):
                assert os.readlink(f"/proc/{running.pid}/fd/{descriptor}") == os.devnull
            running.send_signal(signal.SIGTERM)
            assert running.wait(DEADLINE_S) == 0
        finally:
            running.kill()


def test_up_whose_table_no_reader_takes_stays(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c", brokers=1, port=0)
    reading, writing = os.pipe()
    os.close(reading)
    argv, notes = [*COMMAND, "up", "--dir", str(tmp_path / "c")], tmp_path / "notes"
    with notes.open("wb") as stderr:
        up = subprocess.Popen(argv, stdout=writing, stderr=stderr, env=clean_environ())
    os.close(writing)
    try:
        eventually(lambda: "Ctrl-C" in notes.read_text(), "it stays")
        up.send_signal(signal.SIGTERM)
        assert up.wait(DEADLINE_S) == 0
        assert cluster.alive() == []
    finally:
        up.kill()
        up.wait()
        cluster.kill_all()


@pytest.mark.parametrize("pipe", ["unread", "closed"])
def test_up_whose_notes_no_reader_takes_stays_and_stops_its_cluster(
    tmp_path: Path, pipe: str
) -> None:
    cluster = LocalCluster.create(tmp_path / "c", brokers=1, port=0)
    with full_pipe() as (reading, writing):
        if pipe == "closed":
            os.close(reading)
        argv, table = [*COMMAND, "up", "--dir", str(tmp_path / "c")], tmp_path / "table"
        with table.open("wb") as stdout:
            up = subprocess.Popen(argv, stdout=stdout, stderr=writing, env=clean_environ())
        try:
            eventually(lambda: "broker-1.log" in table.read_text(), "the cluster answers")
            pid = cluster.process("controller").pid
            cluster.kill(1)
            cluster.launch(1)
            cluster.crash(1)  # which it reports
            assert up.poll() is None
            assert cluster.process("controller").pid == pid
            up.send_signal(signal.SIGTERM)
            assert up.wait(DEADLINE_S) == 0
            assert cluster.alive() == []
        finally:
            up.kill()
            up.wait()
            cluster.kill_all()

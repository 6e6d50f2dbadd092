"""The server processes from outside: one-line errors, garbage on the port, an orderly stop."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from strandline_proto.errors import NotController
from strandline_proto.v1 import metadata_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.cluster import eventually
from support.processes import broker_settings, command, free_ports, until_listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S = 60.0


def refused(server: str, **settings: str) -> str:
    """What a server that must not start says: one line, status 1."""
    done = subprocess.run(
        command(server, **settings), capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


@contextmanager
def process(server: str, log: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as stderr:
        started = subprocess.Popen(command(server, **settings), stderr=stderr)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def until_logged(log: Path, text: str) -> None:
    eventually(lambda: text in log.read_text(), f"{text!r} is in the log")


def test_a_wrong_configuration_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    settings = broker_settings(tmp_path, 9092)
    assert refused("broker", **settings, log_segment_byte="1") == (
        "error: unknown configuration key 'log.segment.byte'; did you mean log.segment.bytes? "
        "(in --set)"
    )
    assert "10MB" in refused("broker", **settings, log_segment_bytes="10MB")
    assert "is not supported yet" in refused("broker", **settings, num_network_threads="1")
    assert "node.id is not set" in refused("controller", listeners="C://127.0.0.1:1", log_dirs="x")


def test_a_port_in_use_is_named_before_anything_is_written(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        message = refused("broker", **broker_settings(tmp_path / "data", port))
    assert message.startswith(f"error: cannot listen on PLAINTEXT://127.0.0.1:{port}: the port is")
    assert not (tmp_path / "data").exists()


def test_a_data_directory_in_use_or_of_another_broker_is_refused(tmp_path: Path) -> None:
    first, second = free_ports(2)
    data = tmp_path / "data"
    with process("broker", tmp_path / "log", **broker_settings(data, first)) as running:
        until_listening(first)
        message = refused("broker", **broker_settings(data, second))
        assert "is locked by another running process" in message
        running.send_signal(signal.SIGTERM)
        assert running.wait(DEADLINE_S) == 0
    other = broker_settings(data, second) | {"node_id": "2"}
    assert "belongs to node 1, this is node 2" in refused("broker", **other)


def test_garbage_on_the_port_does_no_harm(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    with process("broker", log, **broker_settings(tmp_path / "data", port)) as running:
        until_listening(port)
        for garbage in (
            b"\x00" * 4096,
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                try:
                    while connection.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        assert running.poll() is None
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = BrokerServiceStub(channel)
            # A request that is no protobuf of ours is refused by itself.
            bad: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/strandline_proto.v1.BrokerService/Metadata"
            )
            with pytest.raises(grpc.RpcError):
                bad(b"\xff\xff\xff", timeout=DEADLINE_S)
            answer = stub.DescribeReplicas(
                metadata_pb2.DescribeReplicasRequest(), timeout=DEADLINE_S
            )
            assert answer.broker_id == 1


def test_without_a_controller_requests_are_answered_with_the_reason_in_time(
    tmp_path: Path,
) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    with process("broker", log, **broker_settings(tmp_path / "data", port)):
        until_listening(port)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = BrokerServiceStub(channel)
            created = stub.CreateTopics(
                metadata_pb2.CreateTopicsRequest(
                    topics=[metadata_pb2.NewTopic(name="t")], timeout_ms=5000
                ),
                timeout=DEADLINE_S,
            )
            assert created.error_code == NotController.code
            assert "no controller can be reached at 127.0.0.1:1" in created.error_message
            with pytest.raises(grpc.RpcError) as caught:
                stub.Metadata(metadata_pb2.MetadataRequest(), timeout=DEADLINE_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        until_logged(log, "no controller can be reached")


def test_a_broker_serves_and_an_orderly_stop_leaves_its_epoch_behind(tmp_path: Path) -> None:
    """I-52."""
    port, controller_port = free_ports(2)
    controller = {
        "node_id": "100",
        "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
        "log_dirs": str(tmp_path / "controller"),
    }
    log, marker = tmp_path / "log", tmp_path / "data" / ".kafka_cleanshutdown"
    settings = broker_settings(tmp_path / "data", port, f"127.0.0.1:{controller_port}")
    with process("controller", tmp_path / "controller-log", **controller) as control:
        with process("broker", log, **settings, log_format="json") as running:
            until_logged(log, '"serving"')
            assert not marker.exists()
            running.send_signal(signal.SIGTERM)
            assert running.wait(DEADLINE_S) == 0
        events = [json.loads(line) for line in log.read_text().splitlines()]
        (registered,) = [e for e in events if e["event"] == "registered"]
        assert json.loads(marker.read_text())["brokerEpoch"] == registered["broker_epoch"]
        assert events[-1]["event"] == "stopped"
        control.send_signal(signal.SIGTERM)
        assert control.wait(DEADLINE_S) == 0


def test_the_printed_configuration_is_complete_and_starts_nothing(tmp_path: Path) -> None:
    settings = broker_settings(tmp_path / "data", 9092)
    done = subprocess.run(
        [*command("broker", **settings), "--print-config"],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    assert '"replica.lag.time.max.ms" = "30000"' in done.stdout
    assert not (tmp_path / "data").exists()

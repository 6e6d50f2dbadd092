"""What gRPC does in programs of ours, which turn its event engine off."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from strandline_local.local_cluster import LocalCluster
from strandline_proto.v1 import metadata_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.cluster import MakeCluster

CALLS = 1000
ROUNDS_MAX = 5
CALL_S = 60.0


def turns_of_the_event_engine(pid: int) -> int:
    """How often its threads have waited: each read and each write that they do is one."""
    turns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "event_engine":
            lines = (task / "status").read_text().splitlines()
            told = next(line for line in lines if line.startswith("voluntary_ctxt_switches:"))
            turns += int(told.split()[1])
    return turns


def turns_of_rounds(cluster: LocalCluster) -> Iterator[int]:
    """Those of the broker in rounds of so many calls."""
    pid = cluster.process(1).pid
    assert pid is not None
    with grpc.insecure_channel(cluster.address(1)) as channel:
        stub = BrokerServiceStub(channel)
        for _ in range(ROUNDS_MAX):
            before = turns_of_the_event_engine(pid)
            for _ in range(CALLS):
                stub.Metadata(metadata_pb2.MetadataRequest(), timeout=CALL_S)
            yield turns_of_the_event_engine(pid) - before


def test_a_broker_reads_and_writes_without_the_event_engine(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads still keep timers, so a slow round has more of their turns."""
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    assert any(turns < CALLS // 2 for turns in turns_of_rounds(make_cluster(brokers=1)))


def test_it_comes_back_when_the_user_wants_it(
    make_cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so the test above would see it."""
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    assert all(turns > CALLS for turns in turns_of_rounds(make_cluster(brokers=1)))


def test_grpc_knows_both_experiments() -> None:
    """It says so, on stderr, when it does not."""
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "from strandline_runtime.grpc_experiments import without_event_engine\n"
            "without_event_engine()\n"
            "import grpc\n"
            "grpc.insecure_channel('127.0.0.1:1').close()",
        ],
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=True,
    )
    assert "experiment" not in ended.stderr.lower(), ended.stderr


CONNECTS_BETWEEN_CALLS = """
import socket, sys, threading, time
from strandline_runtime.grpc_experiments import without_event_engine
without_event_engine()
import grpc
from strandline_runtime.real import CHANNEL_OPTIONS

server = sys.argv[1].rpartition(":")
with socket.socket() as nobody:
    nobody.bind(("127.0.0.1", 0))
    port = nobody.getsockname()[1]
channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS)
metadata = channel.unary_unary("/strandline_proto.v1.BrokerService/Metadata")

def answered():
    try:
        return metadata(b"", timeout=5) is not None
    except grpc.RpcError:
        return False

def slowly(source, sink):
    while data := source.recv(65536):
        time.sleep(0.2)
        sink.sendall(data)

def serve():
    while True:
        client, _ = listener.accept()
        onward = socket.create_connection((server[0], int(server[2])))
        for ends in ((client, onward), (onward, client)):
            threading.Thread(target=slowly, args=ends, daemon=True).start()

assert not answered()
listener = socket.create_server(("127.0.0.1", port))
threading.Thread(target=serve, daemon=True).start()
rounds = 0
while not answered():
    rounds += 1
    time.sleep(0.3)
print(rounds)
"""


def test_a_channel_connects_again_between_calls_that_fail_at_once(
    make_cluster: MakeCluster,
) -> None:
    """By gRPC's default it polls a socket every 5 seconds between calls: 17 rounds."""
    address = make_cluster(brokers=1).grpc_address(1)
    ended = subprocess.run(
        [sys.executable, "-c", CONNECTS_BETWEEN_CALLS, address],
        capture_output=True,
        text=True,
        timeout=CALL_S,
        check=True,
    )
    assert int(ended.stdout) < 15, ended

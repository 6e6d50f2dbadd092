"""`strandline log-dirs`: sizes by broker, directory and replica."""

import json

import pytest

from strandline_cli.main import run
from strandline_cli.shown.sizes import size_text
from strandline_local import probe
from strandline_proto.v1.log_dirs_pb2 import DescribeLogDirsResponse
from strandline_proto.v1.metadata_pb2 import MetadataResponse

GIB = 1 << 30


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Two brokers with a directory each; the third does not answer."""
    metadata = MetadataResponse()
    metadata.topics.add(name="orders")
    for number in (3, 1, 2):
        metadata.brokers.add(node_id=number, host=f"b{number}", port=1)
    calls: list[tuple[str, list[str]]] = []

    def ask(address: str, topics: list[str], _: float) -> DescribeLogDirsResponse:
        calls.append((address, topics))
        if address == "b3:1":
            raise probe.NoAnswer("b3:1 does not answer: connection refused")
        answer = DescribeLogDirsResponse()
        described = answer.log_dirs.add(path="/data", total_bytes=4 * GIB, usable_bytes=GIB)
        described.replicas.add(topic="orders", partition=0, size_bytes=10, offset_lag=2)
        described.replicas.add(topic="orders", partition=1, size_bytes=GIB // 2)
        if address == "b2:1":
            answer.log_dirs.add(
                path="/more", failure="input/output error", total_bytes=-1, usable_bytes=-1
            )
        return answer

    monkeypatch.setattr(probe, "ask_metadata", lambda *_, **__: metadata)
    monkeypatch.setattr(probe, "ask_log_dirs", ask)
    return calls


def log_dirs(*options: str) -> int:
    return run(["log-dirs", "--bootstrap", "a:1", *options])


def test_each_directory_has_a_row_and_each_failure_a_reason(
    asked: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs() == 1
    shown = capsys.readouterr()
    assert [" ".join(line.split()) for line in shown.out.splitlines()] == [
        "broker directory replicas size free of state",
        "1 /data 2 512.0 MiB 1.0 GiB 4.0 GiB serves",
        "2 /data 2 512.0 MiB 1.0 GiB 4.0 GiB serves",
        "2 /more ? ? ? ? failed",
        "3 ? ? ? ? ? no answer",
    ]
    assert shown.err.splitlines() == [
        "broker 2: /more is out of service: input/output error",
        "broker 3: b3:1 does not answer: connection refused",
    ]
    assert [address for address, _ in asked] == ["b1:1", "b2:1", "b3:1"]


def test_replicas_are_listed_with_the_largest_first(
    asked: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs("--broker", "1", "--topic", "orders", "--replicas") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["1", "/data", "orders:1", "512.0", "MiB", "0"],
        ["1", "/data", "orders:0", "10", "B", "2"],
    ]
    assert asked == [("b1:1", ["orders"])]


def test_a_script_gets_bytes(
    asked: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs("--broker", "1", "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["size_bytes"], row["free_bytes"]) == (GIB // 2 + 10, GIB)
    assert row["replicas"][1] == {"topic": "orders", "partition": 0, "size_bytes": 10, "lag": 2}
    assert asked[0][0] == "b1:1"


def test_names_that_are_not_there_are_refused(
    asked: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_dirs("--broker", "9") == 2
    assert "--broker 9 is not among the live brokers (1, 2, 3)" in capsys.readouterr().err
    assert log_dirs("--topic", "ordres") == 1
    assert "no topic 'ordres' in this cluster" in capsys.readouterr().err
    assert asked == []


@pytest.mark.parametrize(
    ("size", "text"),
    [(-1, "?"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
     (3 << 40, "3.0 TiB"), (5 << 60, "5120.0 PiB")],
)  # fmt: skip
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(size) == text

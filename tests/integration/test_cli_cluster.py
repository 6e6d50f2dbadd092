"""A cluster through the command line, from `up` to `down`: what scripts rely on."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline import sync
from strandline_cli.errors import EXIT_INTERRUPTED
from strandline_local.local_cluster import LocalCluster
from strandline_local.probe import ask_metadata
from strandline_proto.batch import iter_headers
from strandline_runtime.build_id import build_id
from support.cluster import eventually
from support.command import CompletedCommand, start_strandline, strandline
from support.far_away import far_away

STATUS_KEYS = {"build", "id", "pid", "address", "listeners", "state"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster that the command line has started."""
    path = tmp_path_factory.mktemp("cli") / "cluster"
    up = strandline("up", "-n", 3, "--port", 0, "--detach", "--format", "json", "--dir", path)
    started = LocalCluster.open(path)
    assert up.json["bootstrap"] == up.json["kafka_bootstrap"] == started.bootstrap
    assert up.json["grpc_bootstrap"] == started.grpc_bootstrap
    assert [broker["listeners"] for broker in up.json["brokers"]] == shown_listeners(started)
    yield path
    LocalCluster.open(path).kill_all()


def _in(directory: Path, *arguments: object, stdin: str | bytes = b"") -> CompletedCommand:
    return strandline(*arguments, stdin=stdin, environ={"STRANDLINE_DIR": str(directory)})


def _json(directory: Path, *arguments: object) -> Any:
    return _in(directory, *arguments, "--format", "json").json


def _create(directory: Path, topic: str, partitions: int = 1) -> None:
    created = _in(directory, "topic", "create", topic, "--partitions", partitions)
    assert created.status == 0, created


def test_the_topic_of_groups_takes_one_line_of_a_brokers_log(directory: Path) -> None:
    cluster = LocalCluster.open(directory)
    for broker in cluster.broker_ids:
        log = cluster.process(broker).log_file
        eventually(lambda: "__consumer" in log.read_text(), f"{broker} has its roles")  # noqa: B023
        (line,) = [line for line in log.read_text().splitlines() if "__consumer" in line]
        assert " info " in line
        assert "roles topic=__consumer_offsets partitions=50 leads=1" in line
        assert "leaderless=0" in line


def test_status_gives_controller_and_brokers_by_directory_and_by_bootstrap(
    directory: Path,
) -> None:
    cluster = LocalCluster.open(directory)
    by_directory = _json(directory, "status")
    by_bootstrap = strandline("status", "--bootstrap", cluster.bootstrap, "--format", "json").json
    for status in (by_directory, by_bootstrap):
        assert status["controller"].keys() >= STATUS_KEYS
        assert status["controller"]["pid"] == cluster.process("controller").pid
        assert [set(broker) for broker in status["brokers"]] == [STATUS_KEYS] * 3
        assert {b["id"]: (b["pid"], b["address"], b["state"]) for b in status["brokers"]} == {
            i: (cluster.process(i).pid, cluster.address(i), "UNFENCED") for i in cluster.broker_ids
        }
        assert [broker["listeners"] for broker in status["brokers"]] == shown_listeners(cluster)
    table = _in(directory, "status").out.splitlines()
    assert table[0].split() == ["role", "id", "pid", "kafka", "grpc", "state", "build"]
    for line, broker in zip(table[2:], cluster.broker_ids, strict=True):
        assert line.split()[3:5] == [cluster.address(broker), cluster.grpc_address(broker)]


def shown_listeners(cluster: LocalCluster) -> list[list[dict[str, str]]]:
    return [
        [
            {"listener": "PLAINTEXT", "protocol": "kafka", "address": cluster.address(broker)},
            {"listener": "GRPC", "protocol": "grpc", "address": cluster.grpc_address(broker)},
        ]
        for broker in cluster.broker_ids
    ]


def test_one_address_serves_both_protocols_and_each_names_its_own(directory: Path) -> None:
    cluster = LocalCluster.open(directory)
    for addresses in (cluster.bootstrap, cluster.grpc_bootstrap):
        for address in addresses.split(","):
            answer = ask_metadata(address, 20.0)
            told = {b.node_id: f"{b.host}:{b.port}" for b in answer.brokers}
            assert told == {i: cluster.grpc_address(i) for i in cluster.broker_ids}


def test_every_process_names_its_build(directory: Path) -> None:
    cluster, build = LocalCluster.open(directory), build_id()
    status = _json(directory, "status")
    assert {p["build"] for p in (status["controller"], *status["brokers"])} == {build}
    assert strandline("--version").out == f"strandline {build}\n"
    with sync.Admin(cluster.bootstrap) as admin:
        found = admin.describe_cluster()
    named = {(broker.build, broker.version) for broker in found.brokers}
    named.add((found.controller.build, found.controller.version))
    assert named == {(build, build.partition("+")[0])}
    for process_id in cluster.process_ids:
        first = cluster.process(process_id).log_file.read_text().splitlines()[0]
        assert "starting" in first
        assert f"build={build}" in first


def test_the_cluster_keeps_a_topic_for_itself(directory: Path) -> None:
    """Made in the background, shown to who asks, out of everybody's reach."""
    name = "__consumer_offsets"

    def listed(*options: str) -> dict[str, dict[str, Any]]:
        return {t["name"]: t for t in _json(directory, "topic", "list", *options)}

    eventually(lambda: name in listed("--internal"), f"{name} is made")
    assert name not in listed()
    found = listed("--internal")[name]
    assert (found["partitions"], found["replication_factor"]) == (50, 3)
    for refused, why in (
        (_in(directory, "topic", "delete", name), "cannot be deleted"),
        (_in(directory, "topic", "create", name), "the cluster makes it by itself"),
        (_in(directory, "produce", name, stdin="line\n"), "its coordinators write to it"),
        (_in(directory, "topic", "alter", name, "--partitions", 60), "keeps its 50 partitions"),
    ):
        assert refused.status == 1, refused
        assert f"{name} is internal" in refused.err
        assert why in refused.err
    configs = _json(directory, "config", "describe", "topic", name)
    own = {c["key"]: c["value"] for c in configs if c["source"] == "DYNAMIC_TOPIC_CONFIG"}
    assert own == {
        "cleanup.policy": "compact",
        "max.message.bytes": "10485760",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_a_slow_network_is_no_dead_cluster(directory: Path) -> None:
    with far_away(LocalCluster.open(directory).address(1), 0.4) as address:
        assert strandline("health", "--bootstrap", address).out == "healthy\n"
        assert strandline("status", "--bootstrap", address).status == 0


def test_topic_describe_and_offsets_have_their_stable_shapes(directory: Path) -> None:
    _create(directory, "shapes", partitions=2)
    assert _in(directory, "produce", "shapes", "-p", 1, stdin="a\nb\n").status == 0
    described = _json(directory, "topic", "describe", "shapes")
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    for partition in described["partitions"]:
        keys = {"partition", "leader", "leader_epoch", "replicas", "isr", "elr", "offline"}
        assert partition["offline"] == []
        assert partition.keys() == keys
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [1, 2, 3]
    assert described["refused_truncations"] == []
    refused = _in(directory, "replica", "truncate", "shapes:0", "--broker", 1, "--to", 0)
    assert refused.status == 1
    assert "shapes:0 on broker 1 has refused no truncation" in refused.err
    replicas = _json(directory, "offsets", "shapes")
    assert len(replicas) == 6
    assert replicas[0].keys() == {
        "partition",
        "broker",
        "role",
        "in_sync",
        "log_start_offset",
        "log_end_offset",
        "high_watermark",
        "leader_epoch",
    }
    (leader,) = (r for r in replicas if r["partition"] == 1 and r["role"] == "leader")
    assert (leader["log_start_offset"], leader["log_end_offset"], leader["high_watermark"]) == (
        0,
        2,
        2,
    )
    assert all(r["in_sync"] for r in replicas)


def test_lines_come_back_as_they_were_sent(directory: Path) -> None:
    _create(directory, "lines", partitions=3)
    lines = [f"key{n % 7}:value {n}" for n in range(2000)]
    sent = _in(
        directory,
        "produce",
        "lines",
        "--key-separator",
        ":",
        "--compression",
        "zstd",
        stdin="\n".join(lines) + "\n",
    )
    assert (sent.status, sent.out, sent.err) == (0, "", "")
    read = _in(
        directory, "consume", "lines", "--from-beginning", "--exit-at-end", "-f", r"%p:%o:%k:%v\n"
    )
    assert read.status == 0, read
    rows = [row.split(":") for row in read.out.splitlines()]
    assert sorted(f"{key}:{value}" for _, _, key, value in rows) == sorted(lines)
    for partition in {row[0] for row in rows}:
        of_it = [row for row in rows if row[0] == partition]
        assert [int(row[1]) for row in of_it] == list(range(len(of_it)))
    for key in {row[2] for row in rows}:
        of_key = [row[3] for row in rows if row[2] == key]
        assert of_key == [line.partition(":")[2] for line in lines if line.startswith(f"{key}:")]


def test_a_large_input_is_acknowledged_whole_and_in_order(directory: Path) -> None:
    _create(directory, "large")
    text = b"".join(b"%d\n" % n for n in range(300_000))
    sent = _in(directory, "produce", "large", "--format", "json", stdin=text)
    assert sent.json["acknowledged"] == 300_000
    read = _in(directory, "consume", "large", "--from-beginning", "--exit-at-end")
    assert read.out.encode() == text


def test_consume_starts_and_ends_where_it_is_told(directory: Path) -> None:
    _create(directory, "where")
    assert (
        _in(directory, "produce", "where", stdin="".join(f"{n}\n" for n in range(10))).status == 0
    )
    cases: list[tuple[tuple[object, ...], list[str]]] = [
        (("--exit-at-end",), []),
        (("-o", 7, "--exit-at-end"), ["7", "8", "9"]),
        (("-o", -2, "--exit-at-end"), ["8", "9"]),
        (("-o", -99, "--exit-at-end"), [str(n) for n in range(10)]),
        (("-o", 10, "--exit-at-end"), []),
        (("--from-beginning", "-c", 3), ["0", "1", "2"]),
        (("-p", 0, "-o", 5, "-c", 1), ["5"]),
    ]
    for options, expected in cases:
        read = _in(directory, "consume", "where", *options)
        assert (read.status, read.out.splitlines()) == (0, expected), options
    past = _in(directory, "consume", "where", "-o", 11, "--exit-at-end")
    assert past.status == 1
    assert "past the end" in past.error
    both = _in(directory, "consume", "where", "-o", 1, "--from-beginning")
    assert both.status == 2


def test_a_reader_that_has_seen_enough_ends_consume_quietly(directory: Path) -> None:
    _create(directory, "pipe")
    assert _in(directory, "produce", "pipe", stdin=b"x" * 99 + b"\n").status == 0
    readable, writable = os.pipe()
    os.close(readable)
    consume = start_strandline(
        ["consume", "pipe", "--from-beginning"],
        environ={"STRANDLINE_DIR": str(directory)},
        stdout=writable,
        stderr=subprocess.PIPE,
    )
    os.close(writable)
    _, error = consume.communicate(timeout=300)
    assert (consume.returncode, error) == (0, b"")


def test_new_records_are_followed_until_ctrl_c(directory: Path) -> None:
    _create(directory, "follow")
    consume = start_strandline(
        ["consume", "follow"],
        environ={"STRANDLINE_DIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert consume.stdout is not None
    assert consume.stderr is not None
    os.set_blocking(consume.stdout.fileno(), False)

    def heard() -> bytes | None:
        # Sent again and again, as nobody knows when the consumer has begun.
        assert _in(directory, "produce", "follow", stdin="news\n").status == 0
        assert consume.stdout is not None
        return consume.stdout.read()

    assert eventually(heard, "a record that was sent later is printed").startswith(b"news\n")
    consume.send_signal(signal.SIGINT)
    assert consume.wait(timeout=300) == 130
    assert consume.stderr.read() == b""
    consume.stdout.close()
    consume.stderr.close()


def test_processes_are_killed_stopped_and_started_by_id(directory: Path) -> None:
    assert _in(directory, "health", "--wait").status == 0
    assert _in(directory, "kill", 2).status == 0
    status = _json(directory, "status")
    assert status["brokers"][1]["state"] == "DEAD"
    assert status["brokers"][1]["pid"] is None
    assert _in(directory, "health").status == 1
    again = _in(directory, "kill", 2)
    assert again.status == 1
    assert "strandline start 2" in again.error
    started = _json(directory, "start", 2)
    assert started["pid"] == LocalCluster.open(directory).process(2).pid
    twice = _in(directory, "start", 2)
    assert twice.status == 1
    assert "running already" in twice.error
    assert _in(directory, "restart", "controller").status == 0
    assert _in(directory, "stop", 3).status == 0
    assert _in(directory, "start", 3).status == 0
    assert _json(directory, "health", "--wait", 60)["healthy"] is True
    unknown = _in(directory, "stop", 7)
    assert unknown.status == 2
    assert "controller, 1, 2, 3" in unknown.error


def test_up_on_a_running_cluster_is_refused(directory: Path) -> None:
    refused = _in(directory, "up", "--detach")
    assert refused.status == 1
    assert "is running" in refused.error


def test_everything_acknowledged_survives_a_sigkill_of_every_process(directory: Path) -> None:
    _create(directory, "durable")
    lines = "".join(f"{n}\n" for n in range(1000))
    assert _in(directory, "produce", "durable", stdin=lines).status == 0
    cluster = LocalCluster.open(directory)
    bootstrap = cluster.bootstrap
    cluster.kill_all()
    assert _in(directory, "status").out.count("DEAD") == 4
    assert _json(directory, "up", "--detach")["bootstrap"] == bootstrap
    assert _in(directory, "health", "--wait", 60).status == 0
    read = _in(directory, "consume", "durable", "--from-beginning", "--exit-at-end")
    assert read.out == lines


def test_up_stays_until_ctrl_c_and_then_stops_everything(tmp_path: Path) -> None:
    up = start_strandline(
        ["up", "-n", 1, "--port", 0, "--dir", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert up.stderr is not None
    for line in up.stderr:
        if b"Ctrl-C" in line:
            break
    cluster = LocalCluster.open(tmp_path)
    assert cluster.alive() == ["controller", 1]
    cluster.crash(1)
    told = b"".join(iter(up.stderr.readline, b"Bring it back: strandline start 1\n"))
    assert b"broker 1 " in told
    up.send_signal(signal.SIGINT)
    out, _ = up.communicate(timeout=300)
    assert up.returncode == 0
    assert b"127.0.0.1:" in out
    assert cluster.alive() == []


def test_a_terminal_that_closes_stops_what_runs_in_front(tmp_path: Path) -> None:
    up = start_strandline(
        ["up", "-n", 1, "--port", 0, "--dir", tmp_path],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert up.stderr is not None
    for line in up.stderr:
        if b"Ctrl-C" in line:
            break
    cluster = LocalCluster.open(tmp_path)
    try:
        assert cluster.alive() == ["controller", 1]
        up.stderr.close()  # nobody can be told any more
        up.send_signal(signal.SIGHUP)
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=300) == 0
        assert cluster.alive() == []
        assert "stopped" in "".join(cluster.process(1).last_log_lines())
    finally:
        cluster.kill_all()


def test_a_benchmark_that_is_told_to_end_leaves_no_cluster_behind(tmp_path: Path) -> None:
    bench = start_strandline(
        ["bench", "latency", "--brokers", 1, "--replication-factor", 1, "--records", 10**9],
        environ={"TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def started() -> LocalCluster | None:
        for folder in tmp_path.glob("strandline-bench-*/cluster.json"):
            cluster = LocalCluster.open(folder.parent)
            if cluster.alive() == ["controller", 1]:
                return cluster
        return None

    cluster = eventually(started, "a cluster of its own")
    try:
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(timeout=300) == EXIT_INTERRUPTED
        assert cluster.alive() == []
        assert list(tmp_path.iterdir()) == []
    finally:
        bench.kill()
        cluster.kill_all()


def test_a_detached_cluster_has_no_terminal_to_lose(directory: Path) -> None:
    cluster = LocalCluster.open(directory)
    for process_id in cluster.alive():
        pid = cluster.process(process_id).pid
        assert pid is not None
        assert os.getsid(pid) == pid


def test_down_stops_everything_calmly_and_keeps_the_records(tmp_path: Path) -> None:
    options = ("--dir", tmp_path)
    assert strandline("up", "-n", 1, "--port", 0, "--detach", *options).status == 0
    create = ("topic", "create", "kept", "--replication-factor", 1, *options)
    assert strandline(*create, "--config", "min.insync.replicas=1").status == 0
    assert strandline("produce", "kept", *options, stdin="a\n").status == 0
    down = strandline("down", "--format", "json", *options).json
    assert down == {"stopped": ["controller", 1], "killed": []}
    assert LocalCluster.open(tmp_path).alive() == []
    (log,) = (tmp_path / "broker-1" / "kept-0").glob("*.log")
    assert [header.record_count for _, header in iter_headers(log.read_bytes())] == [1]
    assert strandline("down", *options).status == 0


def test_the_version_is_printed_quickly_and_help_names_every_command() -> None:
    version = strandline("--version")
    assert version.status == 0
    assert version.out.startswith("strandline ")
    shown = strandline("--help").out
    for command in ("up", "down", "start", "stop", "status", "health", "topic", "produce", "demo"):
        assert f"  {command} " in shown
    nothing = strandline("nothing")
    assert nothing.status == 2
    assert "nothing" in nothing.error


def test_a_script_can_read_json_line_by_line(directory: Path) -> None:
    _create(directory, "json")
    assert _in(directory, "produce", "json", "-K", "=", stdin=b"k=v\n\xff\n").status == 0
    read = _in(directory, "consume", "json", "--from-beginning", "-e", "--format", "json")
    first, second = (json.loads(line) for line in read.out.splitlines())
    assert (first["key"], first["value"], first["offset"]) == ("k", "v", 0)
    assert (second["key"], second["value"], second["value_base64"]) == (None, None, "/w==")

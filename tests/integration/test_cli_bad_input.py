"""Bad input, through the command line or a raw connection, on real processes.

Each mistake gets an exit status, one line that says what happened and what to do, and an answer
before its deadline; and the cluster serves on as if nothing had been.
"""

import json
import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from strandline import TopicPartition
from strandline.sync import Consumer
from strandline_local import probe
from strandline_local.cluster_files import free_ports
from strandline_local.local_cluster import LocalCluster
from strandline_proto.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from strandline_runtime.real import reserve_port
from support.cluster import MakeCluster, eventually
from support.command import COMMAND, CompletedCommand, clean_environ, start_strandline, strandline
from support.raw import one_record, produce_raw, run_server, send_bytes, where_is


def _on(cluster: LocalCluster, *arguments: object, stdin: str | bytes = b"") -> CompletedCommand:
    return strandline(*arguments, "--bootstrap", cluster.bootstrap, stdin=stdin)


def _create(cluster: LocalCluster, topic: str, *more: object) -> None:
    created = _on(cluster, "topic", "create", topic, "--partitions", 1, *more)
    assert created.status == 0, created


def _values(cluster: LocalCluster, topic: str) -> list[str]:
    only = TopicPartition(topic, 0)
    values: list[str] = []
    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([only])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([only])[only]
        while consumer.position(only) < end:
            for records in consumer.getmany(timeout_ms=1000).values():
                values += [(record.value or b"").decode() for record in records]
    return values


def _server_error(ended: CompletedCommand) -> str:
    """The last line of a server that could not start; log lines may stand before it."""
    assert ended.status == 1, ended
    assert "Traceback" not in ended.err
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("error: "), ended.err
    return last


# What waits for more than ten seconds does so while the others run.


@pytest.fixture(scope="module")
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def twin(
    cluster: LocalCluster, beside: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Future[CompletedCommand]:
    """A second broker 1."""
    (port,) = free_ports(1)
    own = (
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        f"log.dirs={tmp_path_factory.mktemp('twin') / 'data'}",
    )
    return beside.submit(run_server, cluster, "broker-1", *own)


NOBODYS = "127.0.0.1:1"
"""No user's program may listen there."""


@pytest.fixture(scope="module", autouse=True)
def nowhere(beside: ThreadPoolExecutor) -> dict[tuple[object, ...], Future[CompletedCommand]]:
    """Commands to a cluster of which no broker is there."""
    commands: tuple[tuple[object, ...], ...] = (
        ("status",),
        ("health",),
        ("offsets", "t"),
        ("topic", "list", "--timeout", 3),
        ("topic", "create", "t", "--timeout", 3),
        ("config", "describe", "topic", "t", "--timeout", 3),
        ("config", "alter", "broker", "--default", "--set", "log.roll.ms=5", "--timeout", 3),
        ("produce", "t", "--timeout", 3),
        ("consume", "t", "--exit-at-end", "--timeout", 3),
    )
    to = ("--bootstrap", NOBODYS)
    return {
        command: beside.submit(strandline, *command, *to, stdin="line\n", deadline_s=30)
        for command in commands
    }


@pytest.fixture(scope="module", autouse=True)
def full_disks(
    beside: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Future[str]]:
    """By the number of brokers: what a producer was told."""
    folders = {brokers: tmp_path_factory.mktemp(f"full-of-{brokers}") for brokers in (1, 2)}
    return {n: beside.submit(_fill_a_disk, folder, n) for n, folder in folders.items()}


# Topics.


@pytest.mark.parametrize(
    "command",
    [
        ("consume", "absent", "--exit-at-end"),
        ("produce", "absent"),
        ("offsets", "absent"),
        ("topic", "describe", "absent"),
        ("topic", "delete", "absent"),
    ],
    ids=" ".join,
)
def test_an_unknown_topic_is_refused_by_name_with_the_way_to_list_topics(
    cluster: LocalCluster, command: tuple[str, ...]
) -> None:
    refused = _on(cluster, *command, stdin="line\n")
    assert refused.status == 1
    assert "absent" in refused.error
    assert "topic list" in refused.error


def test_a_replication_factor_above_the_live_brokers_is_refused_with_their_number(
    cluster: LocalCluster,
) -> None:
    refused = _on(cluster, "topic", "create", "wide", "--replication-factor", 4)
    assert refused.status == 1
    assert "replication factor 4" in refused.error
    assert "3 live brokers" in refused.error
    assert _on(cluster, "topic", "describe", "wide").status == 1


@pytest.mark.parametrize("name", ["a b", "..", "x" * 250, "naïve", ""])
def test_an_invalid_topic_name_is_refused(cluster: LocalCluster, name: str) -> None:
    refused = _on(cluster, "topic", "create", name)
    assert refused.status == 1
    assert "InvalidTopic" in refused.error


def test_a_topic_that_exists_is_not_created_again(cluster: LocalCluster) -> None:
    _create(cluster, "once")
    refused = _on(cluster, "topic", "create", "once")
    assert refused.status == 1
    assert "TopicAlreadyExists" in refused.error


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("segment.byte=1", "did you mean segment.bytes"),
        ("segment.bytes=5MB", "without a unit: write 5242880"),
        ("local.retention.ms=1000", "not supported yet"),
        ("retention.ms=-2", "from -1"),
        ("segment.bytes", "KEY=VALUE"),
    ],
)
def test_a_malformed_topic_configuration_is_refused_by_key(
    cluster: LocalCluster, config: str, said: str
) -> None:
    refused = _on(cluster, "topic", "create", "configured", "--config", config)
    assert refused.status in (1, 2)
    assert said in refused.error
    assert _on(cluster, "topic", "describe", "configured").status == 1


# Records.


def test_records_that_cannot_be_deleted_stay(cluster: LocalCluster) -> None:
    _create(cluster, "shortened")
    assert _on(cluster, "produce", "shortened", stdin="a\nb\nc\n").status == 0
    for partition, where, status, said in (
        (0, ("--before", 4), 1, "between 0 and the high watermark 3"),
        (1, ("--before", 1), 1, "no partition 1; it has 1"),
        (-1, ("--before", 1), 2, "'-1' is not a partition"),
        (0, ("--before", -2), 2, "--before"),
        (0, (), 2, "--before"),
    ):
        refused = _on(cluster, "topic", "delete-records", f"shortened:{partition}", *where)
        assert refused.status == status, where
        assert said in refused.error
        assert _values(cluster, "shortened") == ["a", "b", "c"], where


def test_records_of_a_compacted_topic_are_not_deleted_by_offset(cluster: LocalCluster) -> None:
    _create(cluster, "compacted", "--config", "cleanup.policy=compact")
    refused = _on(cluster, "topic", "delete-records", "compacted:0", "--before", 0)
    assert refused.status == 1
    assert "cleanup.policy=compact" in refused.error


def test_a_consumer_goes_on_at_the_new_start_as_its_reset_policy_says(
    cluster: LocalCluster,
) -> None:
    _create(cluster, "shortened-well")
    assert _on(cluster, "produce", "shortened-well", stdin="a\nb\nc\n").status == 0
    deleted = _on(cluster, "topic", "delete-records", "shortened-well:0", "--before", 2)
    assert (deleted.status, deleted.out) == (0, "shortened-well:0 begins at offset 2\n")
    assert _values(cluster, "shortened-well") == ["c"]
    below = _on(
        cluster, "consume", "shortened-well", "--offset", 0, "--partition", 0, "--exit-at-end"
    )
    assert (below.status, below.out) == (1, ""), "never a silent skip"
    assert "starts at 2" in below.error
    again = _on(
        cluster,
        "topic",
        "delete-records",
        "shortened-well:0",
        "--before",
        -1,
        "--format",
        "json",
    )
    assert json.loads(again.out) == {"topic": "shortened-well", "partition": 0, "low_watermark": 3}
    assert _values(cluster, "shortened-well") == []


def test_a_line_above_the_size_limit_is_not_acknowledged_and_the_others_are(
    cluster: LocalCluster,
) -> None:
    _create(cluster, "large")
    lines = b"before\n" + b"x" * 2_000_000 + b"\nafter\n"
    sent = _on(cluster, "produce", "large", stdin=lines)
    assert sent.status == 1
    assert "1 of 3 lines were not acknowledged" in sent.error
    assert "RecordTooLarge" in sent.error
    assert _values(cluster, "large") == ["before", "after"]


def test_a_partition_that_is_not_there_is_refused_before_anything_is_sent(
    cluster: LocalCluster,
) -> None:
    _create(cluster, "single")
    refused = _on(cluster, "produce", "single", "-p", 9, stdin="a\nb\n")
    assert refused.status == 1
    assert refused.error == ("topic 'single' has no partition 9, it has 0 alone: nothing was sent")


def test_an_empty_separator_is_refused_by_its_name(cluster: LocalCluster) -> None:
    refused = _on(cluster, "produce", "any", "-K", "", stdin="a\n")
    assert refused.status == 2
    assert "--key-separator is empty" in refused.error


@pytest.mark.parametrize(
    ("command", "output", "said"),
    [
        (
            "topic list --bootstrap {}",
            ">&-",
            "cannot write to standard output: Bad file descriptor",
        ),
        ("--help", ">&-", "cannot write to standard output: Bad file descriptor"),
        ("--version", ">/dev/full", "cannot write to standard output: No space left on device"),
        ("produce any --bootstrap {}", "<&-", "cannot read standard input: Bad file descriptor"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_named(
    cluster: LocalCluster, command: str, output: str, said: str
) -> None:
    if "any" in command:
        _create(cluster, "any")
    program = " ".join(map(shlex.quote, COMMAND))
    line = f"{program} {command.format(cluster.bootstrap)} {output}"
    ended = subprocess.run(
        ["sh", "-c", line], stderr=subprocess.PIPE, env=clean_environ(), timeout=300, check=False
    )
    assert (ended.returncode, ended.stderr.decode()) == (1, f"error: {said}\n")


def test_who_ends_produce_by_a_signal_hears_what_is_unknown(cluster: LocalCluster) -> None:
    _create(cluster, "cut-short")
    at = where_is(cluster.address(1), "cut-short")

    def leader() -> probe.Replica:
        return probe.replicas_of(cluster.address(at.leader), 10.0)["cut-short", 0]

    signals = (signal.SIGINT, signal.SIGTERM)
    command = ["produce", "cut-short", "--bootstrap", cluster.bootstrap]
    pipe = subprocess.PIPE
    running = [start_strandline(command, stdin=pipe, stderr=pipe) for _ in signals]

    def say(text: bytes) -> None:
        for produce in running:
            assert produce.stdin is not None
            produce.stdin.write(text)
            produce.stdin.flush()

    say(b"acknowledged\n")
    eventually(lambda: leader().high_watermark == 2, "a line of each is acknowledged")
    follower = next(broker for broker in at.replicas if broker != at.leader)
    cluster.pause(follower)
    try:
        say(b"appended\nnever acknowledged\n")
        eventually(lambda: leader().log_end_offset == 6, "the leader has the rest")
        for produce, number in zip(running, signals, strict=True):
            produce.send_signal(number)
        for produce in running:
            _, error = produce.communicate(timeout=300)
            assert produce.returncode == 130
            assert error.decode() == (
                "interrupted: 1 lines were acknowledged, 2 may have been written,"
                " the rest of the input was not sent\n"
            )
    finally:
        cluster.resume(follower)
    assert _on(cluster, "health", "--wait", 60).status == 0


def test_a_batch_above_the_limit_of_its_topic_is_refused_and_nothing_of_it_written(
    cluster: LocalCluster,
) -> None:
    _create(cluster, "narrow", "--config", "max.message.bytes=1000")
    sent = _on(cluster, "produce", "narrow", stdin="x" * 5000 + "\n")
    assert sent.status == 1
    assert "RecordTooLarge" in sent.error
    assert "may have been written" not in sent.error
    assert _values(cluster, "narrow") == []


def test_a_corrupt_batch_is_refused_and_nothing_of_it_written(cluster: LocalCluster) -> None:
    _create(cluster, "corrupt")
    at = where_is(cluster.address(1), "corrupt")
    damaged = bytearray(one_record())
    damaged[-2] ^= 1
    result = produce_raw(cluster.address(at.leader), at.topic_id, bytes(damaged))
    assert result.error_code == CorruptMessage.code
    assert not result.appended
    assert "CRC" in result.error_message
    assert _values(cluster, "corrupt") == []


@pytest.mark.parametrize("records", [b"", b"\0" * 20, b"garbage" * 40])
def test_bytes_that_are_no_batch_are_refused(cluster: LocalCluster, records: bytes) -> None:
    topic = f"nobatch{len(records)}"
    _create(cluster, topic)
    at = where_is(cluster.address(1), topic)
    result = produce_raw(cluster.address(at.leader), at.topic_id, records)
    assert result.error_code != 0
    assert not result.appended
    assert _values(cluster, topic) == []


def test_a_batch_for_a_follower_is_refused_with_the_leader_to_go_to(cluster: LocalCluster) -> None:
    _create(cluster, "follower")
    at = where_is(cluster.address(1), "follower")
    follower = next(broker for broker in at.replicas if broker != at.leader)
    result = produce_raw(cluster.address(follower), at.topic_id, one_record())
    assert result.error_code == NotLeaderOrFollower.code
    assert not result.appended
    assert result.current_leader.leader_id == at.leader
    assert _values(cluster, "follower") == []


def test_a_leader_whose_disk_is_full_says_so_and_loses_nothing(
    full_disks: dict[int, Future[str]],
) -> None:
    """Alone, and with another replica."""
    for brokers, ended in full_disks.items():
        error = ended.result()
        assert "lines were not acknowledged" in error
        if brokers == 1:
            assert "free disk space" in error
        else:
            # The other replica leads meanwhile and may be the last that has answered (I-99).
            assert "free disk space" in error or "NotEnoughReplicas" in error


def _fill_a_disk(directory: Path, brokers: int) -> str:
    """What a producer to so many brokers is told whose leader's disk is full."""
    cluster = LocalCluster.create(directory, brokers=brokers, port=0)
    try:
        cluster.up()
        return _filled(cluster, brokers)
    finally:
        cluster.kill_all()


def _filled(cluster: LocalCluster, brokers: int) -> str:
    _create(cluster, "full", "--replication-factor", brokers)
    assert _on(cluster, "produce", "full", stdin="before\n").status == 0
    leader = cluster.process(where_is(cluster.address(1), "full").leader).pid
    assert leader is not None
    # No file of that process may grow beyond this: the system refuses the write, as on a full disk.
    limit, hard = resource.prlimit(leader, resource.RLIMIT_FSIZE, (100_000, -1))
    lines = "".join(f"{n:0999}\n" for n in range(2000))
    # With another replica: time enough for it to lead, and for the full one to be out of sync.
    full = _on(cluster, "produce", "full", "--timeout", 4 * brokers**2, stdin=lines)
    assert full.status == 1
    acknowledged = 2000 - int(full.error.split()[0])
    resource.prlimit(leader, resource.RLIMIT_FSIZE, (limit, hard))
    assert _on(cluster, "produce", "full", stdin="after\n").status == 0
    values = _values(cluster, "full")
    assert values[: 1 + acknowledged] == ["before", *lines.splitlines()[:acknowledged]]
    assert values[-1] == "after"
    return full.error


def test_a_batch_for_another_leader_epoch_is_refused(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=2)
    _create(cluster, "fenced", "--replication-factor", 2, "--config", "min.insync.replicas=1")
    first = where_is(cluster.address(1), "fenced")
    cluster.restart(first.leader)
    assert _on(cluster, "health", "--wait", 30).status == 0
    at = where_is(cluster.address(1), "fenced")
    assert at.leader_epoch > first.leader_epoch
    for ahead, error in ((-1, FencedLeaderEpoch.code), (1, UnknownLeaderEpoch.code)):
        result = produce_raw(
            cluster.address(at.leader),
            at.topic_id,
            one_record(),
            leader_epoch=at.leader_epoch + ahead,
        )
        assert result.error_code == error
        assert not result.appended


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(range(256)) * 64,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096,
        b"\0\0\0\x1a\0\x12\0\0\0\0\0\x01\0\tconsole-x\0",
    ],
    ids=["http1", "every byte", "http2 and garbage", "a Kafka client"],
)
def test_garbage_on_the_port_hurts_nobody_else(cluster: LocalCluster, data: bytes) -> None:
    for process_id in cluster.process_ids:
        send_bytes(cluster.address(process_id), data)
    assert _on(cluster, "health").status == 0


# Servers.


def test_up_on_a_port_in_use_names_the_port_and_starts_nothing(tmp_path: Path) -> None:
    # The controller takes the port before the first broker's: this one must be free.
    port = next(port for port in free_ports(50) if reserve_port("127.0.0.1", port - 1))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        refused = strandline("up", "--detach", "--dir", tmp_path, "--port", port, "-n", 1)
    assert refused.status == 1
    assert f"port {port} for broker 1 is in use" in refused.error
    assert list(tmp_path.iterdir()) == [], "no file names a cluster that is somebody else's"


def test_a_server_on_a_port_in_use_ends_with_one_line(cluster: LocalCluster) -> None:
    (free,) = free_ports(1)
    directory = cluster.directory / "elsewhere"
    error = _server_error(
        run_server(
            cluster,
            "broker-1",
            "node.id=9",
            f"log.dirs={directory}",
            f"listeners=PLAINTEXT://{cluster.address(2)}",
        )
    )
    assert cluster.address(2).rpartition(":")[2] in error
    assert str(free) not in error


def test_a_data_directory_in_use_is_refused(cluster: LocalCluster) -> None:
    (port,) = free_ports(1)
    error = _server_error(
        run_server(cluster, "broker-1", f"listeners=PLAINTEXT://127.0.0.1:{port}")
    )
    assert str(cluster.data_directory(1)) in error
    assert _on(cluster, "health").status == 0


def test_a_second_broker_with_the_same_id_is_refused_and_the_first_serves_on(
    cluster: LocalCluster, twin: Future[CompletedCommand]
) -> None:
    error = _server_error(twin.result())
    assert "1" in error
    assert _on(cluster, "health").status == 0


def test_a_data_directory_of_another_broker_id_is_refused(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=2)
    cluster.stop(2)
    error = _server_error(
        run_server(
            cluster,
            "broker-2",
            "node.id=3",
            f"listeners=PLAINTEXT://{cluster.address(2)}",
        )
    )
    assert "2" in error
    assert "3" in error


def test_a_data_directory_of_another_cluster_is_refused(
    cluster: LocalCluster, make_cluster: MakeCluster, tmp_path: Path
) -> None:
    other = make_cluster(brokers=1)
    other.stop(1)
    copy = tmp_path / "copy"
    shutil.copytree(other.data_directory(1), copy)
    error = _server_error(
        run_server(
            other,
            "broker-1",
            "node.id=1",
            f"log.dirs={copy}",
            f"controller.quorum.bootstrap.servers={cluster.controller_address}",
        )
    )
    assert "cluster" in error
    assert _on(cluster, "health").status == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("log.segment.byte=1", "did you mean log.segment.bytes"),
        ("log.segment.bytes=1GB", "without a unit"),
        ("log.retention.hours=1", "use log.retention.ms"),
        ("replica.truncation=high-watermark", "development.unsafe"),
        ("log.dirs=/a,/a", "named twice"),
        ("flush.policy=sometimes", "always"),
    ],
)
def test_a_malformed_configuration_is_refused_by_server_and_by_up(
    cluster: LocalCluster, tmp_path: Path, setting: str, said: str
) -> None:
    assert said in _server_error(run_server(cluster, "broker-1", setting))
    if not setting.startswith("log.dirs"):
        options = ("--dir", tmp_path, "--port", 0, "--config", setting)
        refused = strandline("up", "--detach", *options)
        assert refused.status == 2
        assert said in refused.error
        assert not (tmp_path / "cluster.json").exists()


def test_a_configuration_file_that_is_no_toml_is_refused(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(brokers=1, up=False)
    (cluster.directory / "broker-1.toml").write_text("node.id = = 1\n")
    assert "TOML" in _server_error(run_server(cluster, "broker-1"))


def test_without_a_controller_creating_fails_in_time_and_producing_goes_on(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=3)
    _create(cluster, "going")

    def write(line: str) -> None:
        """With acks 1, so that no id is asked for: the followers may have it later."""
        assert _on(cluster, "produce", "going", "--acks", 1, stdin=f"{line}\n").status == 0
        eventually(lambda: _values(cluster, "going")[-1:] == [line], "the followers have it")

    write("first")  # every replica has its role: what was not pushed yet ends with the controller
    cluster.kill("controller")
    options = ("--bootstrap", cluster.bootstrap, "--timeout", 5)
    commands = (
        ("topic", "create", "never"),
        ("config", "alter", "topic", "going", "--set", "retention.ms=5"),
    )
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(strandline, *one, *options, deadline_s=20) for one in commands]
        produce = ("produce", "going", *options)
        sent = pool.submit(strandline, *produce, stdin="never\n", deadline_s=40)
        for ended in waiting:
            refused = ended.result()
            assert refused.status == 1
            assert "controller" in refused.error
        late = sent.result()
    described = _on(cluster, "config", "describe", "topic", "going", "--format", "json")
    assert described.json == [], "brokers know what is configured without the controller"
    # A new idempotent producer needs an id, and where brokers hold none in store only the
    # controller has one. It is told so by its deadline; records that need no id go on.
    assert late.status in (0, 1)
    assert late.status == 0 or "1 of 1 lines were not acknowledged" in late.error
    write("line")
    assert "controller" in _on(cluster, "health").out
    state = _on(cluster, "status", "--format", "json").json
    assert state["controller"]["state"] == "UNREACHABLE"
    assert len(state["brokers"]) == 3


def test_without_any_broker_every_command_fails_in_time(
    nowhere: dict[tuple[object, ...], Future[CompletedCommand]],
) -> None:
    for command, ended in nowhere.items():
        refused = ended.result()
        assert refused.status == 1, command
        if command != ("health",):
            assert NOBODYS in refused.error


# Java.


@pytest.mark.parametrize("command", [("demo", "flights"), ("demo", "flights", "--small")])
def test_the_demo_without_java_ends_at_once_with_the_remedy(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("line\n")
    environ = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    refused = strandline(*command, "--input", lines, environ=environ)
    assert refused.status == 1
    assert "JAVA_HOME" in refused.error
    assert os.listdir(tmp_path) == ["lines"]

"""examples/: each program does what it says against one cluster, and ends clearly without one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from strandline import ConsumerRecord, NewTopic, sync
from strandline_local.local_cluster import LocalCluster
from support.cluster import eventually
from support.command import clean_environ
from support.processes import REFUSED_CONNECTION
from support.tidy_tree import ROOT

pytestmark = pytest.mark.integration

EXAMPLES = ROOT / "examples"
DEADLINE_S = 600
"""A JVM starts in seconds, and on a busy machine in minutes."""
SESSION = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""An instance that is killed keeps its partitions for so long."""
PROGRAMS = {
    "web_service": ["--port", "0"],
    "worker_group": [],
    "compacted_cache": [],
    "exactly_once_copy": [],
    "outbox": ["relay", "--once"],
    "spark_to_duckdb": [],
}
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    made = LocalCluster.create(folder, brokers=3, port=0, broker_config=SESSION)
    made.up()
    try:
        yield made
    finally:
        made.kill_all()


@pytest.fixture(autouse=True, scope="module")
def without_a_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """Every example with an address where nothing answers. Each tries for its own time, so all
    begin with the first test here.
    """
    folder = tmp_path_factory.mktemp("without")
    processes = {
        program: started(REFUSED_CONNECTION, folder, program, *words)
        for program, words in PROGRAMS.items()
    }
    yield processes
    for process in processes.values():
        killed(process)


def started(bootstrap: str, cwd: Path, program: str, *words: str) -> "subprocess.Popen[str]":
    """The process of an example; its output can be read line by line."""
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / f"{program}.py"), *words],
        cwd=cwd,
        env=clean_environ({"STRANDLINE_BOOTSTRAP": bootstrap}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def killed(process: "subprocess.Popen[str]") -> None:
    """Ends an example with all that it has started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def output(bootstrap: str, cwd: Path, program: str, *words: str) -> list[str]:
    """The lines of an example that ends by itself, with status 0."""
    process = started(bootstrap, cwd, program, *words)
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        killed(process)
    assert process.returncode == 0, err
    return out.splitlines()


@contextmanager
def running(bootstrap: str, cwd: Path, program: str, *words: str) -> Iterator[Start]:
    """A function that starts an example. All are killed at the end."""
    processes: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        processes.append(started(bootstrap, cwd, program, *words))
        return processes[-1]

    try:
        yield start
    finally:
        for process in processes:
            killed(process)


def terminated(process: "subprocess.Popen[str]") -> list[str]:
    """The output of an example that SIGTERM ends in order."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    return out.splitlines()


def create(cluster: LocalCluster, *topics: str, partitions: int = 3) -> None:
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=partitions) for topic in topics])


def records(cluster: LocalCluster, topic: str, count: int) -> list[ConsumerRecord]:
    """The records of a topic, which has so many and no more."""
    with sync.Consumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        partitions = consumer.assignment()
        ends = consumer.end_offsets(partitions)
        assert sum(ends.values()) == count, ends
        return [consumer.getone() for _ in range(count)]


def test_a_web_service_that_is_stopped_has_stored_what_it_answered(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "orders")
    with running(cluster.bootstrap, tmp_path, "web_service", "--port", "0") as start:
        service = start()
        assert service.stdout is not None
        address = service.stdout.readline().strip().removeprefix("http://")
        answered: dict[str, dict[str, int]] = {}

        def order(number: int) -> None:
            """Orders until the service accepts no more."""
            connection = HTTPConnection(address, timeout=DEADLINE_S)
            with suppress(OSError, HTTPException):
                for each in range(1_000_000):
                    body = f"{number}-{each}"
                    connection.request("POST", f"/customers/{number}/orders", body)
                    answer = connection.getresponse()
                    told = json.loads(answer.read())
                    assert answer.status == 201, told
                    answered[body] = told
            connection.close()

        with ThreadPoolExecutor(4) as customers:
            done = [customers.submit(order, number) for number in range(4)]
            eventually(lambda: len(answered) >= 20, "orders are answered")
            assert terminated(service) == []
        for each in done:
            each.result()
    with sync.Consumer(
        "orders", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        ends = consumer.end_offsets(consumer.assignment())
    stored = {
        (r.value or b"").decode(): {"partition": r.partition, "offset": r.offset}
        for r in records(cluster, "orders", sum(ends.values()))
    }
    assert {body: stored.get(body) for body in answered} == answered


def test_workers_share_jobs_and_set_aside_those_that_fail(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create(cluster, "jobs", "jobs.dead")
    jobs = [*map(str, range(1, 31)), "flaky", "0", "none"]
    with sync.Producer(cluster.bootstrap) as producer:
        for number, job in enumerate(jobs):
            headers = (("number", str(number).encode()),)
            producer.send("jobs", job.encode(), partition=number % 3, headers=headers)
    with running(cluster.bootstrap, tmp_path, "worker_group") as start:
        workers = [start(), start()]
        with sync.Admin(cluster.bootstrap) as admin:

            def is_done() -> bool:
                committed = admin.list_group_offsets("workers")
                return sum(each.offset for each in committed.values()) == len(jobs)

            eventually(is_done, "all jobs are committed")
        done = {line.partition(":")[0] for worker in workers for line in terminated(worker)}
    assert done == set(jobs) - {"0", "none"}
    dead = {(r.value or b"").decode(): dict(r.headers) for r in records(cluster, "jobs.dead", 2)}
    assert dead["0"] == {
        "number": b"31",
        "error": b"ZeroDivisionError: division by zero",
        "attempts": b"1",
        "source": b"jobs:1:10",
    }
    assert (dead["none"]["error"] or b"").startswith(b"ValueError: invalid literal for int()")


def test_a_cache_reads_its_writes_and_another_reads_them_too(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    expected = ["written: {'tea': b'3.40'}", "read by another: {'tea': b'3.40'}"]
    assert output(cluster.bootstrap, tmp_path, "compacted_cache") == expected
    assert output(cluster.bootstrap, tmp_path, "compacted_cache") == expected
    with sync.Admin(cluster.bootstrap) as admin:
        described = admin.describe_configs([("topic", "prices")])["topic", "prices"]
    assert described["cleanup.policy"].value == "compact"


def test_a_copy_has_each_record_once_though_an_instance_dies(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    program = (EXAMPLES / "exactly_once_copy.py").read_text("utf-8")
    assert '"orders", "bills", "billing"' in program
    own = program.replace('"orders", "bills", "billing"', '"orders.once", "bills.once", "once"')
    (tmp_path / "once.py").write_text(own)
    create(cluster, "orders.once", "bills.once")
    count = 3_000
    with sync.Producer(cluster.bootstrap) as producer:
        producer.send_many("orders.once", [b"%04d" % number for number in range(count)])
    with running(cluster.bootstrap, tmp_path, str(tmp_path / "once"), "1") as start:
        victim = start()
        assert victim.stdout is not None
        assert victim.stdout.readline().startswith("copied ")
        killed(victim)
        instance = start()
        with sync.Admin(cluster.bootstrap) as admin:

            def is_done() -> bool:
                committed = admin.list_group_offsets("once")
                return sum(each.offset for each in committed.values()) == count

            eventually(is_done, "all records are copied")
        terminated(instance)
    found: list[bytes] = []
    with sync.Consumer(
        "bills.once",
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        eventually(lambda: not any(consumer.lag().values()) or read_some(consumer, found), "read")
    assert sorted(found) == [b"bill for %04d" % number for number in range(count)]


def read_some(consumer: sync.Consumer, found: list[bytes]) -> bool:
    """Reads what there is; False, as there may be more."""
    for records_of in consumer.getmany(timeout_ms=200).values():
        found += [record.value or b"" for record in records_of]
    return False


def test_an_outbox_is_sent_once_and_in_order(cluster: LocalCluster, tmp_path: Path) -> None:
    create(cluster, "orders.of.the.outbox", partitions=1)
    program = (EXAMPLES / "outbox.py").read_text("utf-8")
    assert 'TOPIC = "orders"' in program
    environment = (cluster.bootstrap, tmp_path)
    (tmp_path / "outbox.py").write_text(program.replace('"orders"', '"orders.of.the.outbox"'))
    own = str(tmp_path / "outbox")
    placed = output(*environment, own, "place", "tea", "coffee")
    assert placed == ["order 1: tea", "order 2: coffee"]
    assert output(*environment, own, "relay", "--once") == ["sent 2"]
    assert output(*environment, own, "place", "milk") == ["order 3: milk"]
    assert output(*environment, own, "relay", "--once") == ["sent 1"]
    assert output(*environment, own, "relay", "--once") == []
    sent = records(cluster, "orders.of.the.outbox", 3)
    assert [json.loads(r.value or b"")["item"] for r in sent] == ["tea", "coffee", "milk"]
    assert [dict(r.headers)["outbox-id"] for r in sent] == [b"1", b"2", b"3"]


@pytest.mark.spark
def test_a_report_has_each_record_of_the_topic_once(cluster: LocalCluster, tmp_path: Path) -> None:
    create(cluster, "payments")
    with sync.Producer(cluster.bootstrap) as producer:
        for customer, amount in ((b"7", 20), (b"8", 5), (b"7", 30)):
            producer.send("payments", json.dumps({"amount": amount}).encode(), key=customer)
    shown = output(cluster.bootstrap, tmp_path, "spark_to_duckdb")
    assert shown[-2:] == ["customer 7: 2 payments, 50 EUR", "customer 8: 1 payments, 5 EUR"]


@pytest.mark.spark
def test_an_example_without_a_cluster_ends_with_an_error(
    without_a_cluster: dict[str, "subprocess.Popen[str]"],
) -> None:
    for name, process in without_a_cluster.items():
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode not in (0, -signal.SIGKILL), name
        *_, last = err.strip().splitlines()
        assert last.startswith("error: "), (name, err)
        assert REFUSED_CONNECTION in last, (name, err)


def test_every_example_stands_in_the_list_and_is_run_here() -> None:
    files = {path.stem for path in EXAMPLES.glob("*.py")}
    assert files == set(PROGRAMS)
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert [name for name in files if f"| [{name}.py]({name}.py) |" not in listed] == []

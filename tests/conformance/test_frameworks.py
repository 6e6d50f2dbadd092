"""A Streams application and a Connect worker go on when a broker is killed."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from base64 import b64decode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import installed
from conformance.harness.clients import client
from conformance.harness.records import numbered
from conformance.harness.results import recorded
from conformance.harness.versions import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conformance.harness.driver import Driver
    from conformance.harness.targets import Target

WAIT_S = 120.0
NUMBERS = 400
RECORDS = 600


@pytest.fixture
def driver(target: Target) -> Iterator[Driver]:
    started = client("confluent-kafka").start(target.bootstrap)
    yield started
    started.close()


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    """A process that must not end by itself. Its output is kept in `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield
            assert process.poll() is None, log.read_text("utf-8", errors="replace")[-2000:]
        finally:
            process.kill()
            process.wait()


def until(question: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while True:
        if answer := question():
            return answer
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.5)


def values(driver: Driver, topic: str, partitions: int = 1) -> list[tuple[str, str]]:
    """(key, value) of all records of a topic."""
    numbers = list(range(partitions))
    records = driver.call("read", topic=topic, partitions=numbers, wait_s=30.0)["records"]
    return [
        (b64decode(each["key"]).decode(), b64decode(each["value"]).decode()) for each in records
    ]


def test_a_streams_application_survives_the_kill_of_a_broker(
    target: Target, driver: Driver, tmp_path: Path
) -> None:
    with recorded("frameworks", "Kafka Streams", "survives the kill of a broker"):
        for topic in ("streams-in", "streams-out"):
            driver.call("create_topic", topic=topic, partitions=3, replication=3)
        app = installed.java_with(
            "StreamsApp.java", f"kafka-streams:{versions()['java']['streams']}"
        )
        words = [target.bootstrap, "streams-app", "streams-in", "streams-out", str(tmp_path)]
        with running([*app, *words], tmp_path / "log"):
            driver.call("produce", topic="streams-in", records=numbered("a", RECORDS // 2))
            until(
                lambda: ("a", str(RECORDS // 2)) in values(driver, "streams-out", 3), "first half"
            )
            victim = driver.call("leaders", topic="streams-out")["leaders"]["0"]
            target.kill(victim)
            driver.call("produce", topic="streams-in", records=numbered("a", RECORDS // 2))
            driver.call("produce", topic="streams-in", records=numbered("b", 30))
            until(
                lambda: {("a", str(RECORDS)), ("b", "30")} <= set(values(driver, "streams-out", 3)),
                "counts of both halves",
            )
            target.restart(victim)


def test_exactly_once_streams_count_right_across_two_kills(
    target: Target, driver: Driver, tmp_path: Path
) -> None:
    """A broker is killed, and then another one. The committed counts are 1, 2, 3 and so on."""
    third = RECORDS // 3
    with recorded("frameworks", "Kafka Streams", "exactly_once_v2 counts right across two kills"):
        for topic in ("exact-in", "exact-out"):
            driver.call("create_topic", topic=topic, partitions=3, replication=3)
        app = installed.java_with(
            "StreamsApp.java", f"kafka-streams:{versions()['java']['streams']}"
        )
        words = ["exact-app", "exact-in", "exact-out", str(tmp_path), "exactly_once_v2"]
        with running([*app, target.bootstrap, *words], tmp_path / "log"):
            for number in range(3):
                driver.call("produce", topic="exact-in", records=numbered("a", third))
                wanted = str((number + 1) * third)
                if number == 2:
                    until(lambda: len(values(driver, "exact-out", 3)) >= RECORDS, "every count")
                    break
                until(lambda: ("a", wanted) in values(driver, "exact-out", 3), f"count {wanted}")  # noqa: B023 - called at once
                victim = driver.call("leaders", topic="exact-out")["leaders"][str(number)]
                driver.call("produce", topic="exact-in", records=numbered("b", 3))
                target.kill(victim)
                until(lambda: ("b", str(3 * (number + 1))) in values(driver, "exact-out", 3), "b")  # noqa: B023 - called at once
                target.restart(victim)
                until(lambda: _in_sync(driver, "exact-out"), "all replicas in sync")
        counts = [int(count) for key, count in values(driver, "exact-out", 3) if key == "a"]
        assert counts == list(range(1, RECORDS + 1))


def _in_sync(driver: Driver, topic: str) -> bool:
    isrs = driver.call("leaders", topic=topic)["isrs"]
    return bool(isrs) and all(len(each) == 3 for each in isrs.values())


def test_a_connect_worker_survives_the_kill_of_a_broker_and_of_itself(
    target: Target, driver: Driver, tmp_path: Path
) -> None:
    with recorded("frameworks", "Kafka Connect", "survives the kill of a broker and of itself"):
        driver.call("create_topic", topic="connect-out", partitions=1, replication=3)
        command, rest = _worker(target, tmp_path)
        with running(command, tmp_path / "first"):
            until(lambda: _asked(rest, "connectors") is not None, "an answer of the worker")
            _asked(rest, "connectors", _connector())
            until(lambda: len(values(driver, "connect-out")) > NUMBERS // 4, "first numbers")
            victim = driver.call("leaders", topic="connect-out")["leaders"]["0"]
            target.kill(victim)
            until(lambda: len(values(driver, "connect-out")) > NUMBERS // 2, "more numbers")
        target.restart(victim)
        with running(command, tmp_path / "second"):
            wanted = {str(number) for number in range(NUMBERS)}
            until(
                lambda: {value for _, value in values(driver, "connect-out")} == wanted,
                "all numbers",
            )
            until(lambda: "RUNNING" in str(_asked(rest, "connectors/numbers/status")), "a task")


def _worker(target: Target, folder: Path) -> tuple[list[str], str]:
    """The command of a distributed worker, and the address of its REST interface."""
    version = versions()["java"]["connect"]
    plugin = installed.java_with("NumbersSource.java", f"connect-runtime:{version}")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        rest = f"http://127.0.0.1:{probe.getsockname()[1]}"
    string = "org.apache.kafka.connect.storage.StringConverter"
    settings = {
        "bootstrap.servers": target.bootstrap,
        "group.id": "connect-cluster",
        "key.converter": string,
        "value.converter": string,
        "offset.storage.topic": "connect-offsets",
        "offset.storage.partitions": 3,
        "offset.flush.interval.ms": 500,
        "config.storage.topic": "connect-configs",
        "status.storage.topic": "connect-status",
        "status.storage.partitions": 3,
        "listeners": rest,
        "plugin.discovery": "only_scan",
        "scheduled.rebalance.max.delay.ms": 0,
    }
    file = folder / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return [*plugin[:-1], main, str(file)], rest


def _connector() -> dict[str, Any]:
    settings = {"topic": "connect-out", "count": str(NUMBERS), "tasks.max": "1"}
    return {"name": "numbers", "config": {"connector.class": "NumbersSource", **settings}}


def _asked(rest: str, path: str, document: dict[str, Any] | None = None) -> Any:
    """The answer of the REST interface; None if there is none."""
    body = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{rest}/{path}", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())
    except OSError:
        if document is not None:
            raise
        return None

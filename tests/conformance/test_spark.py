"""Spark reads topics: by its own Kafka connector, and by Strandline's data source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import installed
from conformance.harness.clients import all_clients, client
from conformance.harness.records import CODECS, PARTITIONS, Record, of_codec, same
from conformance.harness.results import recorded
from conformance.harness.versions import HERE, TESTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conformance.harness.driver import Driver
    from conformance.harness.targets import Target

JOB_TIMEOUT_S = 580
JOB_CONF = ("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=1")


@pytest.fixture(scope="module")
def drivers(target: Target) -> Iterator[dict[str, Driver]]:
    started = {
        each.name: each.start(target.bootstrap)
        for each in all_clients()
        if each.only_on in (None, target.name)
    }
    yield started
    for driver in started.values():
        driver.close()


def all_records(topic: str, driver: Driver) -> list[Record]:
    records: list[Record] = []
    for codec in CODECS:
        records += of_codec(codec)
        driver.call("produce", topic=topic, records=of_codec(codec), codec=codec)
    return records


def job(python: list[str], program: str, arguments: list[str], jars: str | None = None) -> Any:
    """The last line that a job prints, read as JSON."""
    submitted = f"--master local[2] --driver-memory 768m {' '.join(JOB_CONF)}"
    if jars is not None:
        submitted += f" --jars {jars}"
    environ = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    done = subprocess.run(
        [*python, str(HERE / "clients" / program), *arguments],
        env={
            **environ,
            "PYSPARK_SUBMIT_ARGS": f"{submitted} pyspark-shell",
            "PYTHONPATH": str(TESTS),
            "PYSPARK_PYTHON": python[0],
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_sparks_own_connector_reads_and_writes_in_batch_and_stream(
    target: Target, drivers: dict[str, Driver], tmp_path: Path
) -> None:
    with recorded("frameworks", "Spark's Kafka connector", "batch and stream"):
        driver = drivers["confluent-kafka"]
        topics = ["spark-in", "spark-batch", "spark-stream"]
        for topic in topics:
            driver.call("create_topic", topic=topic, partitions=PARTITIONS, replication=3)
        wanted = all_records("spark-in", driver)
        arguments = [target.bootstrap, *topics, str(tmp_path)]
        done = job(installed.spark(), "spark_kafka.py", arguments, installed.connector())
        assert done == {"read": len(wanted), "ended": True}
        for topic in topics[1:]:
            got = driver.call("read", topic=topic, partitions=list(range(PARTITIONS)), wait_s=40.0)[
                "records"
            ]
            same(got, wanted, timed=False)  # the connector's sink sets no timestamp


def test_our_spark_source_reads_what_every_client_wrote(
    target: Target, drivers: dict[str, Driver]
) -> None:
    if target.name != "strandline":
        pytest.skip("Strandline's Spark source reads from Strandline only")
    written = {}
    for name, driver in drivers.items():
        topic = f"source-{name}"
        drivers["confluent-kafka"].call(
            "create_topic", topic=topic, partitions=PARTITIONS, replication=3
        )
        codecs = client(name).codecs
        written[topic] = [each for codec in codecs for each in of_codec(codec)]
        for codec in codecs:
            driver.call("produce", topic=topic, records=of_codec(codec), codec=codec)
    read = job([sys.executable], "spark_strandline.py", [target.bootstrap, *written])
    for topic, wanted in written.items():
        writer = topic.removeprefix("source-")
        with recorded("cross reading", writer, "read by Strandline's Spark source"):
            same(read[topic], wanted, timed=writer != "kcat")

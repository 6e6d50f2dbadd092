"""Metrics and health of real processes over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition

from strandline import NewTopic, TopicPartition, sync
from strandline_broker.hosts.common.quiet import QUIET_S
from support.cluster import eventually
from support.promql import alerts, of_dashboard, selectors
from support.scrape import get, scrape, scrapes
from support.tidy_tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_local.local_cluster import LocalCluster, ProcessId
    from support.cluster import MakeCluster
    from support.promql import Selector
    from support.scrape import Scrape

pytestmark = pytest.mark.integration

METRICS: Final = ROOT / "deploy" / "metrics"
OF_FAILURES: Final = frozenset({"strandline_request_failures_total"})
"""Metrics without a sample until something fails."""
OF_PROMETHEUS: Final = frozenset({"up"})
IDLE: Final = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
TOPIC: Final = "orders"
GROUP: Final = "readers"
RECORDS: Final = 30
READ: Final = 4
TRIES: Final = 8
"""Attempts that exceed the limit of lines in the time that they take."""
CLIENT: Final = """
import sys
import time
from strandline import sync
from strandline.errors import StrandlineError

bootstrap, topic = sys.argv[1:]
with (
    sync.Producer(bootstrap, delivery_timeout_ms=1_000, request_timeout_ms=1_000) as producer,
    sync.Consumer(topic, bootstrap_servers=bootstrap, group_id="watched") as consumer,
):
    while True:
        try:
            producer.send_and_wait(topic, b"x")
            consumer.getmany(timeout_ms=10)
            print("sent", flush=True)
        except StrandlineError:
            print("failed", flush=True)
        time.sleep(0.01)
"""
"""A client that goes on, whatever is killed. Its log is its standard error."""


def test_each_process_serves_metrics_and_health_at_a_port_of_its_own(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(brokers=1, metrics_port=0)
    for process_id in cluster.process_ids:
        address = cluster.metrics_address(process_id)
        assert address is not None
        assert get(address, "/healthz") == (200, "alive\n")
        assert get(address, "/readyz") == (200, "ready\n")
        assert get(address, "/")[0] == 404
    broker = scrape(cluster, 1)
    assert broker.value("strandline_requests_total", method="Metadata") > 0
    assert (
        scrape(cluster, "controller").value(
            "strandline_requests_total", method="BrokerRegistration"
        )
        == 1
    )
    cluster.kill("controller")
    cluster.restart(1, wait_s=0)
    address = cluster.metrics_address(1)
    assert address is not None

    def waits() -> bool:
        try:
            status, why = get(address, "/readyz")
        except OSError:
            return False  # the listener is not bound yet
        return status == 503 and "not registered with the controller" in why

    eventually(waits, "the broker without a controller says why it is not ready")
    assert get(address, "/healthz") == (200, "alive\n")


def work(cluster: LocalCluster) -> int:
    """Both protocols' producers and consumers, and a group that has read a part. Returns the number
    of bytes of the values.
    """
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, 3, 3)])
    value = b"v" * 100
    with sync.Producer(cluster.grpc_bootstrap) as producer:
        for number in range(RECORDS):
            producer.send_and_wait(TOPIC, value, partition=number % 3)
    kafka = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    kafka.send(TOPIC, value, partition=0).get(60)
    kafka.close()
    with sync.Consumer(
        bootstrap_servers=cluster.bootstrap, group_id=GROUP, enable_auto_commit=False
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, index) for index in range(3)])
        consumer.commit({TopicPartition(TOPIC, index): READ for index in range(3)})
    reader = KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    reader.assign([KafkaPartition(TOPIC, 0)])
    while not reader.poll(1_000):
        pass
    reader.close()
    return len(value) * (RECORDS + 1)


def total(shown: list[Scrape], name: str, **labels: str) -> float:
    return sum(sum(each.values(name, **labels)) for each in shown)


def test_the_metrics_count_the_work_and_every_expression_finds_its_metrics(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    told = {"log.level": "debug", "log.format": "json"}
    cluster = make_cluster(brokers=3, metrics_port=0, broker_config=told, controller_config=told)
    size = work(cluster)

    def settled() -> list[Scrape] | None:
        shown = scrapes(cluster, cluster.broker_ids)
        lag = total(shown, "kafka_consumergroup_lag_sum", consumergroup=GROUP, topic=TOPIC)
        copied = total(shown, "strandline_replica_high_watermark", topic=TOPIC)
        is_settled = lag == RECORDS + 1 - 3 * READ and copied == 3 * (RECORDS + 1)
        # A broker knows its idle share from its second sample on.
        return shown if is_settled and all(each.values(IDLE) for each in shown) else None

    brokers = eventually(settled, "the group's lag is known, and all is committed everywhere")
    prefix = "kafka_server_brokertopicmetrics_"
    assert total(brokers, f"{prefix}messagesin_total", topic=TOPIC) == RECORDS + 1
    assert total(brokers, f"{prefix}bytesin_total", topic=TOPIC) > size
    assert total(brokers, f"{prefix}bytesout_total", topic=TOPIC) > 100
    copied = total(brokers, f"{prefix}replicationbytesin_total")
    assert copied >= 2 * total(brokers, f"{prefix}bytesin_total", topic=TOPIC)
    assert total(brokers, "kafka_consumergroup_lag", consumergroup=GROUP) == RECORDS + 1 - 3 * READ
    assert total(brokers, "kafka_server_replicamanager_leadercount") >= 3
    requests = "kafka_network_requestmetrics_requests_total"
    assert total(brokers, requests, request="Produce") >= RECORDS + 1
    assert total(brokers, requests, request="FetchFollower") > 0
    for each in brokers:
        quantile = each.values(
            "kafka_network_requestmetrics_totaltimems", request="FetchFollower", quantile="0.99"
        )
        assert len(quantile) == 1
        assert quantile[0] > 0
        assert 0 <= each.value(IDLE) <= 1
    phases = "kafka_network_requestmetrics_{}timems_count"
    for phase in ("local", "remote"):
        assert total(brokers, phases.format(phase), request="Produce") == total(
            brokers, phases.format("total"), request="Produce"
        )
    assert total(brokers, phases.format("requestqueue"), request="Produce") >= 1
    purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert total(brokers, purgatory, delayedOperation="Fetch") > 0, "followers wait for records"
    assert total(brokers, "kafka_server_socket_server_metrics_connection_creation_total") >= 1
    controller = scrape(cluster, "controller")
    assert controller.value("kafka_controller_kafkacontroller_activebrokercount") == 3
    assert controller.value("kafka_topic_partitions", topic=TOPIC) == 3
    every_expression_finds_its_metrics([*brokers, controller])
    killed_processes_fill_no_log(cluster, tmp_path)


class NewLines:
    """The log lines of a server since now, without those of the level debug."""

    def __init__(self, cluster: LocalCluster, process_id: ProcessId) -> None:
        self._file = cluster.process(process_id).log_file
        self._before = len(self._file.read_text().splitlines())

    def all(self) -> list[dict[str, Any]]:
        written = self._file.read_text().rpartition("\n")[0].splitlines()[self._before :]
        return [json.loads(line) for line in written]

    def count(self, event: str, **fields: object) -> int:
        return sum(each["event"] == event and fields.items() <= each.items() for each in self.all())

    def are_few(self) -> None:
        """Fails if a kind of line, about one peer, came more often than its limit allows."""
        found = self.all()
        first, last = (datetime.fromisoformat(found[at]["timestamp"]) for at in (0, -1))
        allowed = 3 + (last - first).total_seconds() / QUIET_S
        for (event, peer), count in Counter(
            (each["event"], each.get("leader")) for each in found if each["level"] != "debug"
        ).items():
            assert count <= allowed, (event, peer, count, allowed)


def killed_processes_fill_no_log(cluster: LocalCluster, directory: Path) -> None:
    """First a broker is killed. Then the controller is, and a second broker: no controller moves
    its leaderships, so the last broker tries to reach it again and again.
    """
    answers, errors = directory / "answers", directory / "errors"
    words = [sys.executable, "-c", CLIENT, cluster.grpc_bootstrap, TOPIC]
    with answers.open("wb") as out, errors.open("wb") as err:
        client = subprocess.Popen(words, stdout=out, stderr=err)
    try:
        eventually(lambda: answers.read_text().count("sent") >= TRIES, "the client works")
        logs = {name: NewLines(cluster, name) for name in ("controller", 1, 3)}
        before = answers.read_text().count("sent")
        cluster.kill(2)
        eventually(lambda: logs["controller"].count("broker fenced", broker=2), "it is seen")
        eventually(
            lambda: answers.read_text().count("sent") >= before + TRIES, "the client goes on"
        )
        for log in logs.values():
            log.are_few()
        cluster.kill("controller")
        cluster.kill(3)
        begun, failed = time.monotonic(), answers.read_text().count("failed")
        tries = partial(logs[1].count, "fetching stopped", leader=3)
        eventually(lambda: tries() >= TRIES, "the broker tries")
        eventually(
            lambda: answers.read_text().count("failed") >= failed + TRIES, "the client tries"
        )
        logs[1].are_few()
        lines = errors.read_text().splitlines()
        assert len(lines) <= 3 + (time.monotonic() - begun) / QUIET_S, lines
    finally:
        client.kill()
        client.wait()


def every_expression_finds_its_metrics(shown: list[Scrape]) -> None:
    expressions, variables = of_dashboard(METRICS / "grafana" / "dashboards" / "strandline.json")
    expressions |= alerts(METRICS / "alerts.yml")
    missing = {
        title: faults
        for title, expression in expressions.items()
        if (faults := not_found(selectors(expression), shown))
    }
    assert missing == {}
    assert not_found(variables, shown) == []


def not_found(wanted: set[Selector], shown: list[Scrape]) -> list[Selector]:
    """The selectors for which no process has a sample with their labels."""
    return [
        each
        for each in wanted
        if each.metric not in OF_FAILURES | OF_PROMETHEUS
        and not any(
            sample.name == each.metric and each.labels <= sample.labels.keys()
            for scraped in shown
            for sample in scraped.samples
        )
    ]

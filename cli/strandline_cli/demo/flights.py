"""`strandline demo flights`: real records, a killed leader, and every acknowledged record in a
table.

The steps in order: a separate cluster, a topic, the stream with the kill in its middle, the
broker's return, full ISRs, the ingestion, the comparison record by record, the report.
"""

import json
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strandline_cli.client import run_client
from strandline_cli.commands.health import judge_cluster
from strandline_cli.demo import ingestion
from strandline_cli.demo.gold_look import print_gold
from strandline_cli.demo.report import Report, print_report
from strandline_cli.demo.stream import Stream, Victim
from strandline_cli.demo.table_check import compare, read_table
from strandline_cli.errors import CliError
from strandline_local.local_cluster import LocalCluster
from strandline_local.probe import ask_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa  # type: ignore[import-untyped]
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from strandline_cli.demo.flights_input import DemoInput

TOPIC: Final = "flights"
PARTITIONS: Final = 3
REPLICATION_FACTOR: Final = 3
FULL_ISR_S: Final = 60.0
_POLL_S: Final = 0.1
_ASK_S: Final = 5.0


@dataclass(slots=True)
class FlightsDemo:
    """One run of the demo."""

    source: "DemoInput"
    with_spark: bool
    console: "Console"
    as_json: bool = False

    def run(self) -> int:
        """Exit status 0 only if nothing is lost, duplicated or missing."""
        if self.with_spark:
            ingestion.check_java()
        started = time.monotonic()
        directory = Path(tempfile.mkdtemp(prefix="strandline-demo-"))
        try:
            cluster = LocalCluster.create(directory / "cluster", brokers=3, port=0)
            try:
                return self._run(cluster, directory, started)
            finally:
                cluster.kill_all()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run(self, cluster: LocalCluster, directory: Path, started: float) -> int:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as progress:
            with _step(progress, "controller and three brokers start"):
                cluster.up()
            with _step(progress, f"topic {TOPIC} is created"):
                run_client(_create_topic(cluster.grpc_bootstrap))
            stream = self._stream(cluster, progress)
            assert stream.victim is not None
            epochs = _epochs_after(cluster, stream.victim)
            with _step(progress, f"broker {stream.victim.broker} comes back, every ISR fills up"):
                cluster.start(stream.victim.broker)
                _await_health(cluster)
            ingest_started = time.monotonic()
            with _step(progress, "Spark ingests" if self.with_spark else "a consumer reads"):
                table = self._table(cluster, directory)
            ingest_s = time.monotonic() - ingest_started
            with _step(progress, "every record is compared"):
                findings = compare(stream.ledger, table)
        report = Report(
            source=self.source.title,
            stream=stream,
            findings=findings,
            epochs=epochs,
            ingest_s=ingest_s,
            total_s=time.monotonic() - started,
        )
        if self.as_json:
            print(json.dumps(report.document(), indent=2))
        else:
            print_report(self.console, report, table)
            if self._has_gold:
                self.console.print()
                print_gold(self.console, directory / "lake" / "gold")
        return 0 if report.passed else 1

    @property
    def _has_gold(self) -> bool:
        """True if the built-in pipeline can parse the records."""
        return self.with_spark and self.source.is_flights

    def _stream(self, cluster: LocalCluster, progress: "Progress") -> Stream:
        total = self.source.total_consumed()
        bar = progress.add_task(f"{self.source.title} are sent", total=total)

        def kill(broker: int) -> None:
            cluster.crash(broker)
            progress.update(bar, description=f"sent on, without broker {broker}")

        stream = Stream(
            topic=TOPIC,
            partitions=PARTITIONS,
            kill_at=total // 3,
            find_victim=lambda: find_victim(cluster, partition=0),
            kill=kill,
            progress=lambda consumed: progress.update(bar, completed=consumed),
        )
        run_client(self._send(cluster.grpc_bootstrap, stream))
        if stream.victim is None or stream.killed_at_s is None:
            raise CliError("the input ended before a leader could be killed: use a longer one")
        progress.update(bar, completed=total)
        return stream

    async def _send(self, bootstrap: str, stream: Stream) -> None:
        from strandline import Producer

        async with Producer(bootstrap) as producer:
            await stream.run(producer, self.source.records())

    def _table(self, cluster: LocalCluster, directory: Path) -> "pa.Table":
        if not self.with_spark:
            return run_client(ingestion.read_topic(cluster.grpc_bootstrap, TOPIC))
        if self._has_gold:
            ingestion.run_pipeline(
                TOPIC,
                bootstrap=cluster.grpc_bootstrap,
                directory=directory,
                log_file=directory / "spark.log",
            )
            return read_table(directory / "lake" / "bronze", TOPIC)
        table = directory / "tables" / "bronze"
        ingestion.ingest_bronze(
            bootstrap=cluster.grpc_bootstrap,
            topic=TOPIC,
            table=table,
            checkpoint=directory / "checkpoint",
            log_file=directory / "spark.log",
        )
        return read_table(table, TOPIC)


@contextmanager
def _step(progress: "Progress", title: str) -> "Iterator[TaskID]":
    task = progress.add_task(title, total=None)
    yield task
    progress.update(task, total=1, completed=1)


async def _create_topic(bootstrap: str) -> None:
    from strandline import Admin, NewTopic

    config = {"min.insync.replicas": "2"}
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICATION_FACTOR, config=config)])


def find_victim(cluster: LocalCluster, *, partition: int) -> Victim:
    """The leader of `partition`, with everything it leads."""
    leaders = _leaders(cluster)
    broker, _ = leaders[partition]
    return Victim(broker, {p: epoch for p, (leader, epoch) in leaders.items() if leader == broker})


def _leaders(cluster: LocalCluster) -> dict[int, tuple[int, int]]:
    """Leader and leader epoch of each partition, as a living broker knows them."""
    living = next(i for i in cluster.broker_ids if cluster.process(i).pid is not None)
    answer = ask_metadata(cluster.grpc_address(living), _ASK_S, topics=True)
    (topic,) = (t for t in answer.topics if t.name == TOPIC)
    return {p.index: (p.leader, p.leader_epoch) for p in topic.partitions}


def _epochs_after(cluster: LocalCluster, victim: Victim) -> dict[int, tuple[int, int]]:
    """Leader epoch before and after, where another broker leads now."""
    leaders = _leaders(cluster)
    return {
        partition: (before, leaders[partition][1])
        for partition, before in victim.leads.items()
        if leaders[partition][0] != victim.broker
    }


def _await_health(cluster: LocalCluster) -> None:
    deadline = cluster.patience(FULL_ISR_S)
    while not (report := judge_cluster([cluster.grpc_address(cluster.broker_ids[0])])).healthy:
        if deadline.is_over():
            raise CliError(f"not every ISR is full after {FULL_ISR_S:.0f} s: {report.problems[0]}")
        time.sleep(_POLL_S)

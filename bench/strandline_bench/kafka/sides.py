"""The two clusters under measure: their addresses, processes, and the death of a broker."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from strandline_bench.target import OwnCluster, own_cluster, until_settled
from strandline_local.local_cluster import LocalCluster

COMMAND_S = 300.0
HEAP = "512m"


class OfSides(OwnCluster, Protocol):
    """The options of a benchmark of both systems."""

    @property
    def kafka_script(self) -> Path | None: ...
    @property
    def kafka_version(self) -> str: ...


class Side(Protocol):
    """One cluster that speaks Kafka's protocol."""

    name: str
    bootstrap: str

    def pids(self) -> list[int]:
        """The processes of the brokers that live."""
        ...

    def kill(self, broker_id: int) -> None:
        """Kills a broker as a machine dies."""
        ...

    def restart(self, broker_id: int) -> None:
        """Starts a killed broker; returns once it listens."""
        ...


class Strandline:
    name = "strandline"

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.file.kafka_bootstrap or cluster.bootstrap
        self.grpc_bootstrap = cluster.grpc_bootstrap

    def pids(self) -> list[int]:
        found = (self._cluster.process(each).pid for each in self._cluster.broker_ids)
        return [pid for pid in found if pid is not None]

    def kill(self, broker_id: int) -> None:
        self._cluster.crash(broker_id)

    def restart(self, broker_id: int) -> None:
        self._cluster.start(broker_id)


class Kafka:
    """Apache Kafka, run by a script with the commands up, status, kill, restart and down."""

    name = "kafka"

    def __init__(self, script: Path, directory: str) -> None:
        self._script = script
        self._directory = directory
        self.bootstrap = ""

    def up(self, brokers: int, version: str) -> None:
        told = self._run("up", "--brokers", str(brokers), "--version", version, "--heap", HEAP)
        self.bootstrap = str(json.loads(told)["bootstrap"])

    def pids(self) -> list[int]:
        nodes = json.loads(self._run("status"))["nodes"].values()
        return [node["pid"] for node in nodes if "dead" not in node]

    def kill(self, broker_id: int) -> None:
        self._run("kill", "--node", str(broker_id))

    def restart(self, broker_id: int) -> None:
        self._run("restart", "--node", str(broker_id))

    def down(self) -> None:
        self._run("down")

    def _run(self, command: str, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, str(self._script), command, "--dir", self._directory, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
        if done.returncode != 0:
            raise SystemExit(f"error: {self._script} {command} failed: {done.stderr.strip()}")
        return done.stdout


@contextlib.contextmanager
def sides(options: OfSides) -> Iterator[list[Side]]:
    """Both clusters, new and running; their files are removed at the end."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(own_cluster(options))
        cluster.up()
        until_settled(cluster)
        found: list[Side] = [Strandline(cluster)]
        if options.kafka_script is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="strandline-peer-"))
            kafka = Kafka(options.kafka_script, f"{folder}/kafka")
            stack.callback(kafka.down)
            kafka.up(options.brokers, options.kafka_version)
            found.append(kafka)
        yield found

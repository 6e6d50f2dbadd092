"""The clusters that the clients are run against: Strandline, and Apache Kafka as the measure.

A target has three brokers. Brokers are named by the ids that Kafka's metadata shows.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Protocol

from conformance.harness.versions import TESTS
from strandline_broker.kafka.versions import BY_NAME
from strandline_local.cluster_files import broker_keys, to_toml
from strandline_local.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TARGET_VARIABLE = "TEST_CONFORMANCE_TARGET"
PEER = TESTS.parents[1] / "shared" / "peers" / "kafka.py"
PEER_TIMEOUT_S = 180
SETTINGS = {"group.min.session.timeout.ms": "1000"}
"""What kafka-python's own tests need of a broker."""
KAFKA_SETTINGS = {
    **SETTINGS,
    # Strandline's default, where Kafka's is three seconds; and the default of both.
    "group.initial.rebalance.delay.ms": "100",
    "auto.create.topics.enable": "true",
}


class Target(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    def kill(self, broker: int) -> None:
        """Ends the broker's process with SIGKILL."""

    def restart(self, broker: int) -> None:
        """Starts a killed broker; returns once it accepts connections."""


class KafkaTarget:
    """Apache Kafka, run by the script of the shared folder."""

    name = "kafka"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        options = ["--brokers", "3", "--heap", "256m", "--port", str(_free_base())]
        printed = self._script(
            "up", *options, *(f"--set={name}={value}" for name, value in KAFKA_SETTINGS.items())
        )
        self.bootstrap = str(json.loads(printed)["bootstrap"])

    def kill(self, broker: int) -> None:
        self._script("kill", "--node", str(broker))

    def restart(self, broker: int) -> None:
        self._script("restart", "--node", str(broker))

    def down(self) -> None:
        self._script("down")

    def _script(self, command: str, *options: str) -> str:
        done = subprocess.run(
            [sys.executable, str(PEER), command, "--dir", str(self._directory), *options],
            capture_output=True,
            text=True,
            timeout=PEER_TIMEOUT_S,
            check=True,
        )
        return done.stdout


class StrandlineTarget:
    name = "strandline"

    def __init__(self, directory: Path) -> None:
        self._cluster = LocalCluster.create(directory, brokers=3, port=0, broker_config=SETTINGS)
        self._set_advertised_listeners()
        self._cluster.up()
        self.bootstrap = self._cluster.bootstrap

    def _set_advertised_listeners(self) -> None:
        """Sets the key to what it would be anyway: a test of kafka-python's reads its source."""
        for broker in self._cluster.broker_ids:
            keys = broker_keys(self._cluster.directory, self._cluster.file, broker)
            line = to_toml({"advertised.listeners": keys["listeners"]})
            with (self._cluster.directory / f"broker-{broker}.toml").open(
                "a", encoding="utf-8"
            ) as to:
                to.write(line)

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)

    def restart(self, broker: int) -> None:
        self._cluster.start(broker)

    def down(self) -> None:
        self._cluster.kill_all()


def asked_target() -> str:
    return os.environ.get(TARGET_VARIABLE, "strandline")


def why_not() -> str | None:
    """The reason why the target cannot run here; None if it can."""
    match asked_target():
        case "strandline":
            served = {"Produce", "Fetch", "JoinGroup"} <= BY_NAME.keys()
            return None if served else "the broker's Kafka listener serves no records and groups"
        case "kafka":
            if shutil.which("java") is None or shutil.which("mvn") is None:
                return "Apache Kafka needs Java and Maven"
            return None if PEER.is_file() else "the shared folder has no peers/kafka.py"
        case other:
            return f"{TARGET_VARIABLE}={other} is neither strandline nor kafka"


@contextlib.contextmanager
def running_target(directory: Path) -> Iterator[Target]:
    made: KafkaTarget | StrandlineTarget
    made = KafkaTarget(directory) if asked_target() == "kafka" else StrandlineTarget(directory)
    try:
        yield made
    finally:
        made.down()


def _free_base() -> int:
    """A port such that it, the two above and the same a hundred higher are free."""
    for _ in range(100):
        base = random.randrange(20_000, 32_000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in [base + each + far for each in range(3) for far in (0, 100)]:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return base
    raise RuntimeError("no six free ports were found")


def coordinator(
    bootstrap: str, key: str, timeout_s: float = 30.0, *, of_transactions: bool = False
) -> int:
    """The broker that coordinates a group or a transactional id, by a FindCoordinator request."""
    name = key.encode()
    body = len(name).to_bytes(2, "big") + name + of_transactions.to_bytes(1, "big")
    frame = bytes.fromhex("000a000100000001ffff") + body
    deadline = time.monotonic() + timeout_s
    while True:
        for address in bootstrap.split(","):
            host, _, port = address.rpartition(":")
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), timeout=5) as connection,
            ):
                connection.sendall(len(frame).to_bytes(4, "big") + frame)
                with connection.makefile("rb") as stream:
                    answer = stream.read(int.from_bytes(stream.read(4), "big"))
                if answer[8:10] == b"\0\0":  # behind the id and the throttle time
                    at = 12 + max(0, int.from_bytes(answer[10:12], "big", signed=True))
                    return int.from_bytes(answer[at : at + 4], "big")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no broker knows the coordinator of {key}")
        time.sleep(0.2)

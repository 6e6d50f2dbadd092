"""A controller and brokers as processes, each broker with a listener for Kafka clients."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.cluster import eventually
from support.processes import controller_settings, free_ports
from support.server_forks import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.command_forks import Fork


class KafkaCluster:
    def __init__(self, path: Path, brokers: int, **broker_settings: str) -> None:
        self._path = path
        self._more = broker_settings
        ports = free_ports(1 + 2 * brokers)
        self.controller_port = ports[0]
        self.grpc_ports = {1 + n: ports[1 + 2 * n] for n in range(brokers)}
        self.kafka_ports = {1 + n: ports[2 + 2 * n] for n in range(brokers)}
        self.processes: dict[str, Fork] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.kafka_ports.values())

    def address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.kafka_ports[broker_id]}"

    def log(self, name: str) -> str:
        return (self._path / f"{name}.log").read_text()

    def start_controller(self, **settings: str) -> None:
        self._start(
            "controller",
            "controller",
            controller_settings(self._path / "controller", self.controller_port) | settings,
        )

    def start_broker(self, broker_id: int) -> None:
        grpc, kafka = self.grpc_ports[broker_id], self.kafka_ports[broker_id]
        settings = {
            "node_id": str(broker_id),
            "listeners": f"INTERNAL://127.0.0.1:{grpc},PLAINTEXT://127.0.0.1:{kafka}",
            "log_dirs": str(self._path / f"broker-{broker_id}"),
            "controller_quorum_bootstrap_servers": f"127.0.0.1:{self.controller_port}",
            "broker_rack": f"rack-{broker_id}",
        }
        self._start(f"broker-{broker_id}", "broker", settings | self._more)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _start(self, name: str, kind: str, settings: dict[str, str]) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        with (self._path / f"{name}.log").open("ab") as log:
            self.processes[name] = start_server(kind, dotted, log.fileno())

    def kill_all(self) -> None:
        for name in list(self.processes):
            self.kill(name)


@contextmanager
def kafka_cluster(
    path: Path, brokers: int = 3, *, controller: dict[str, str] | None = None, **settings: str
) -> Iterator[KafkaCluster]:
    """A cluster whose brokers are all in Kafka's metadata."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    made = KafkaCluster(path, brokers, **settings)
    factor = str(min(3, brokers))
    defaults = {
        "offsets_topic_replication_factor": factor,
        "transaction_state_log_replication_factor": factor,
        "default_replication_factor": factor,
    }
    try:
        made.start_controller(**(defaults | (controller or {})))
        for broker_id in made.kafka_ports:
            made.start_broker(broker_id)

        client = AdminClient({"bootstrap.servers": made.bootstrap, "log_level": 0})

        def all_known() -> bool:
            try:
                return len(client.list_topics(timeout=1.0).brokers) == brokers
            except KafkaException:
                return False  # the brokers are starting

        eventually(all_known, f"{brokers} brokers are in the metadata", poll_s=0.2)
        yield made
    finally:
        made.kill_all()

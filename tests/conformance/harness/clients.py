"""The clients of the smoke test, and how each driver is started."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from conformance.harness import installed
from conformance.harness.driver import Driver
from conformance.harness.records import CODECS
from conformance.harness.versions import versions

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN_CODECS = ("none", "gzip")
"""The codecs that kafkajs brings. It needs other packages for the others."""


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    version: str
    command: Callable[[], list[str]]
    """The driver's command; it makes or finds what the driver needs."""
    only_on: str | None = None
    """The one target that the client can speak to; None if it speaks Kafka's protocol."""

    codecs: tuple[str, ...] = CODECS
    transacts: bool = True
    """True if the driver has the steps of transactions."""

    def start(self, bootstrap: str) -> Driver:
        return Driver(self.name, self.command(), bootstrap)


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [*installed.python(), "-m", f"conformance.clients.{module}"]


def _java(version: str) -> Callable[[], list[str]]:
    return lambda: installed.java("Driver.java", installed.client_jars(version))


def smoke_clients() -> list[Client]:
    """The clients that `.ci/run` runs."""
    pins = versions()
    return [
        Client("confluent-kafka", pins["python"]["confluent-kafka"], _python("confluent_driver")),
        Client("aiokafka", pins["python"]["aiokafka"], _python("aiokafka_driver")),
        Client("kafka-python", pins["python"]["kafka-python"], _python("kafka_python_driver")),
        Client(
            "kcat",
            pins["debian"]["kcat"],
            lambda: [*installed.kcat(), "-m", "conformance.clients.kcat_driver"],
        ),
        *(
            Client(f"java-{version}", version, _java(version))
            for version in pins["java"]["clients"]
        ),
    ]


def more_clients() -> list[Client]:
    """The clients that run the script of the smoke test in `make conformance`."""
    pins = versions()
    sarama = "github.com/IBM/sarama"
    node = pins["node"]
    return [
        Client(
            "sarama", pins["go"][sarama], lambda: installed.go("driver.go", sarama), transacts=False
        ),
        Client(
            "kafkajs",
            node["kafkajs"],
            lambda: installed.node("kafkajs.mjs"),
            codecs=PLAIN_CODECS,
            transacts=False,
        ),
        Client(
            "platformatic",
            node["@platformatic/kafka"],
            lambda: installed.node("platformatic.mjs"),
            transacts=False,
        ),
    ]


def all_clients() -> list[Client]:
    """Also the clients that only `make conformance` runs."""
    return [
        *smoke_clients(),
        *more_clients(),
        Client(
            "strandline",
            metadata.version("strandline"),
            lambda: [sys.executable, "-m", "conformance.clients.strandline_driver"],
            only_on="strandline",
        ),
    ]


def client(name: str) -> Client:
    return next(each for each in all_clients() if each.name == name)

"""`strandline doctor`: each advertised address, reached by the protocol of its listener."""

import json
from typing import Any

import pytest

from strandline_local.local_cluster import LocalCluster
from support.cluster import MakeCluster
from support.command import CompletedCommand, strandline

pytestmark = pytest.mark.integration


def doctor(cluster: LocalCluster, *arguments: object) -> CompletedCommand:
    return strandline("doctor", *arguments, environ={"STRANDLINE_DIR": str(cluster.directory)})


def found(cluster: LocalCluster, *arguments: object) -> dict[str, Any]:
    ended = doctor(cluster, "--format", "json", *arguments)
    document: dict[str, Any] = json.loads(ended.out)
    assert (ended.status == 0) == document["reachable"] == (document["problems"] == [])
    return document


@pytest.fixture
def led_astray(make_cluster: MakeCluster) -> LocalCluster:
    """Broker 2 advertises addresses of broker 1 on two of its listeners."""
    cluster: LocalCluster = make_cluster(brokers=2, up=False)
    file = cluster.directory / "broker-2.toml"
    text = file.read_text()
    (listeners,) = [line for line in text.splitlines() if line.startswith('"listeners"')]
    extra = listeners[:-1] + ',EXTRA://127.0.0.1:0"'
    told = f"PLAINTEXT://{cluster.address(1)},EXTRA://{cluster.grpc_address(1)}"
    file.write_text(text.replace(listeners, f'{extra}\n"advertised.listeners" = "{told}"'))
    cluster.up()
    return cluster


def test_addresses_that_lead_elsewhere_and_brokers_that_are_gone_are_reported(
    led_astray: LocalCluster,
) -> None:
    cluster = led_astray
    document = found(cluster)
    seen = {(each["broker"], each["listener"]): each for each in document["listeners"]}
    assert {place: (each["protocol"], each["reached"]) for place, each in seen.items()} == {
        (1, "PLAINTEXT"): ("kafka", True),
        (1, "GRPC"): ("grpc", True),
        (2, "PLAINTEXT"): ("kafka", False),
        (2, "GRPC"): ("grpc", True),
        (2, "EXTRA"): ("grpc", False),
    }
    assert seen[2, "PLAINTEXT"]["reason"] == (
        "another broker, or one of another cluster, answers there"
    )
    assert seen[2, "PLAINTEXT"]["address"] == cluster.address(1)
    assert seen[2, "EXTRA"]["reason"].startswith("another broker answers there (this is broker 1;")
    assert found(cluster, "--listener", "GRPC")["reachable"]

    table = doctor(cluster)
    assert table.status == 1
    assert table.out.splitlines()[0].split() == [
        *("broker", "listener", "protocol", "address", "result")
    ]
    assert (
        f"broker 2: its listener PLAINTEXT (kafka) at {cluster.address(1)} is not reached: another"
        " broker, or one of another cluster, answers there; correct advertised.listeners, or what"
        " forwards the port"
    ) in table.out.splitlines()

    cluster.kill(1)
    document = found(cluster, "--listener", "PLAINTEXT", "--listener", "GRPC")
    reasons = {(each["broker"], each["listener"]): each["reason"] for each in document["listeners"]}
    refused = "connection refused, nothing listens there"
    assert reasons[1, "PLAINTEXT"] == reasons[1, "GRPC"] == refused
    assert reasons[2, "GRPC"] is None

    cluster.kill("controller")
    document = found(cluster)
    assert "the controller cannot be reached" in document["problems"][0]
    assert "`strandline start controller`" in document["problems"][0]

    unknown = doctor(cluster, "--listener", "NONE")
    assert unknown.status == 2
    assert "no broker has a listener NONE: there are PLAINTEXT, GRPC" in unknown.error
    cluster.kill(2)
    assert "no broker answers at" in doctor(cluster).error

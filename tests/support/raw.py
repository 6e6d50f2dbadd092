"""Raw connections to a broker: requests that the client library would never send."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from strandline_local.local_cluster import LocalCluster
from strandline_proto.batch import build_batch
from strandline_proto.v1 import metadata_pb2, produce_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from support.command import CompletedCommand, clean_environ
from support.server_forks import server_forks

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 60.0
SERVER_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class PartitionAt:
    """Where a partition is led, as one broker knows it."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]


def topic_config(address: str, topic: str, key: str) -> str:
    """The value of a topic's key, as the broker at this address knows it."""
    with grpc.insecure_channel(address) as channel:
        request = metadata_pb2.DescribeConfigsRequest()
        request.resources.add(type=2, name=topic, keys=[key])
        answer = BrokerServiceStub(channel).DescribeConfigs(request, timeout=DEADLINE_S)
    ((config,),) = [result.configs for result in answer.results]
    value: str = config.value
    return value


def where_is(address: str, topic: str, partition: int = 0) -> PartitionAt:
    """The partition, as soon as the broker at this address knows it."""
    request = metadata_pb2.MetadataRequest(only_named=True)
    request.topics.add(name=topic)
    deadline = time.monotonic() + DEADLINE_S
    with grpc.insecure_channel(address) as channel:
        while True:
            answer = BrokerServiceStub(channel).Metadata(request, timeout=DEADLINE_S)
            (described,) = answer.topics
            there = [p for p in described.partitions if p.index == partition]
            if there or time.monotonic() > deadline:
                break
            time.sleep(0.05)
    (found,) = there
    return PartitionAt(described.topic_id, found.leader, found.leader_epoch, tuple(found.replicas))


def one_record(value: bytes = b"raw") -> bytes:
    return build_batch([(None, value)], timestamp_ms=1)


def produce_raw(
    address: str,
    topic_id: bytes,
    records: bytes,
    *,
    partition: int = 0,
    acks: int = -1,
    leader_epoch: int | None = None,
) -> produce_pb2.PartitionProduceResult:
    """One Produce request as it is; the answer about its partition."""
    request = produce_pb2.ProduceRequest(correlation_id=7, acks=acks, timeout_ms=5000)
    data = request.topics.add(topic_id=topic_id).partitions.add(index=partition, records=records)
    if leader_epoch is not None:
        data.current_leader_epoch = leader_epoch

    def requests() -> Iterator[produce_pb2.ProduceRequest]:
        yield request

    with grpc.insecure_channel(address) as channel:
        answers = BrokerServiceStub(channel).Produce(requests(), timeout=DEADLINE_S)
        answer = next(iter(answers))
    assert answer.correlation_id == 7
    return answer.topics[0].partitions[0]


def send_bytes(address: str, data: bytes) -> bytes:
    """Write bytes to a port and read until the other side closes or falls silent."""
    host, _, port = address.rpartition(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=2.0) as connection:
        try:
            connection.sendall(data)
            while chunk := connection.recv(65_536):
                received += chunk
        except (TimeoutError, ConnectionError):
            pass
    return received


def run_server(cluster: LocalCluster, process: str, *settings: str) -> CompletedCommand:
    """A server of `cluster` with changed settings, which must end by itself within the deadline."""
    kind = "controller" if process == "controller" else "broker"
    config: Path = cluster.directory / f"{process}.toml"
    words = [kind, "--config", str(config)]
    for setting in settings:
        words += ["--set", setting]
    server = server_forks().start(words, clean_environ(), None)
    with ThreadPoolExecutor(1) as pool:
        talk = pool.submit(server.communicate, b"")
        try:
            out, err = talk.result(SERVER_DEADLINE_S)
        finally:
            server.kill()
    assert server.returncode is not None
    return CompletedCommand(server.returncode, out.decode(), err.decode())

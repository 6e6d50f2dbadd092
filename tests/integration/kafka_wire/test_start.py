"""A broker that has not heard from the controller yet."""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from support.cluster import eventually
from support.kafka_cluster import KafkaCluster
from support.processes import until_listening

if TYPE_CHECKING:
    from pathlib import Path

METADATA, DESCRIBE_CLUSTER, API_VERSIONS = 3, 60, 18


def asked(port: int, key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    """The answer behind its header; nothing if the broker ends the connection."""
    header = struct.pack(">hhihs", key, version, 7, 1, b"c") + (b"\x00" if flexible else b"")
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        with connection.makefile("rb") as answers:
            length = answers.read(4)
            return answers.read(struct.unpack(">i", length)[0])[4:] if length else b""


def test_a_broker_without_a_controller_sends_its_clients_elsewhere(tmp_path: Path) -> None:
    cluster = KafkaCluster(tmp_path, 1)
    port = cluster.kafka_ports[1]
    try:
        cluster.start_broker(1)
        until_listening(port)
        assert asked(port, API_VERSIONS, 0, b"", flexible=False)[:2] == b"\x00\x00"
        with ThreadPoolExecutor(3) as clients:  # each waits its time for the controller
            described = clients.submit(asked, port, DESCRIBE_CLUSTER, 0, bytes(2), flexible=True)
            older = clients.submit(asked, port, METADATA, 1, b"\xff" * 4, flexible=False)
            everything = b"\x00\x01\x00\x00"
            newest = clients.submit(asked, port, METADATA, 13, everything, flexible=True)
        assert (described.result(), older.result()) == (b"", b"")
        assert newest.result()[-3:-1] == struct.pack(">h", 129)
        eventually(
            lambda: "not heard from the controller" in cluster.log("broker-1"), "it is logged"
        )
    finally:
        cluster.kill_all()

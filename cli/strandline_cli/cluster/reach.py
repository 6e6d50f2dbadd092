"""Attempts to reach advertised addresses: Metadata over gRPC, ApiVersions in Kafka's protocol.

Either answer also shows which broker of which cluster listens there. Every attempt ends in time,
even if a name's resolution does not: a thread that is left behind ends with the process.
"""

import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_local import probe
from strandline_local.listeners import KAFKA, ListenerAddress

if TYPE_CHECKING:
    import grpc

GRACE_S: Final = 1.0
"""Time beyond the limit of an attempt after which it counts as unanswered."""
AT_A_TIME: Final = 64
_BROKER: Final = 4
"""Kafka's type of resource."""
_API_VERSIONS: Final = 18
_VERSION: Final = 5
"""The first version that names the broker for which it is meant (KIP-1242)."""
_CORRELATION_ID: Final = 1
_NONE: Final = 0
_REBOOTSTRAP_REQUIRED: Final = 129
_ANSWER_BYTES_MIN: Final = 6
_ANSWER_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """The address of one listener of one broker of a cluster."""

    cluster_id: str
    broker: int
    listener: ListenerAddress


@dataclass(frozen=True, slots=True)
class Unreached:
    """The reason why no answer of the broker came, and the remedy."""

    reason: str
    remedy: str


def reach_all(places: Sequence[Place], timeout_s: float) -> list[Unreached | None]:
    """The failure of each place, or None; `timeout_s` limits each attempt."""
    found: list[Unreached | None] = []
    for first in range(0, len(places), AT_A_TIME):
        found += _reach_at_once(places[first : first + AT_A_TIME], timeout_s)
    return found


def _reach_at_once(places: Sequence[Place], timeout_s: float) -> list[Unreached | None]:
    late = _silence(timeout_s)
    found: dict[int, Unreached | None] = {}

    def attempt(number: int, place: Place) -> None:
        found[number] = reach(place, timeout_s)

    threads = [
        threading.Thread(target=attempt, args=(number, place), daemon=True)
        for number, place in enumerate(places)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout_s + GRACE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answered = dict(found)
    return [answered.get(number, late) for number in range(len(places))]


def reach(place: Place, timeout_s: float) -> Unreached | None:
    """The failure of one attempt, or None."""
    host, _, port = place.listener.address.rpartition(":")
    deadline = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as stream:
            if place.listener.protocol == KAFKA:
                return _by_kafka(place, stream, deadline)
        return _by_grpc(place, deadline, timeout_s)
    except TimeoutError:
        return _silence(timeout_s)
    except ConnectionRefusedError:
        return Unreached(
            "connection refused, nothing listens there",
            "start the broker, or correct advertised.listeners",
        )
    except socket.gaierror:
        return Unreached(
            "the host name cannot be resolved here",
            "make the name known here, or correct advertised.listeners; if only clients elsewhere"
            " use the listener, check from there",
        )
    except (EOFError, ConnectionError):
        return _other_protocol("the connection was closed without an answer")
    except OSError as why:
        return Unreached(
            f"no connection: {why.strerror or why}",
            "check the network between here and the broker, or correct advertised.listeners",
        )


def _silence(timeout_s: float) -> Unreached:
    return Unreached(
        f"no answer within {timeout_s:g} s",
        "check that the broker runs and that no firewall drops the packets, or correct"
        " advertised.listeners",
    )


def _elsewhere(what: str) -> Unreached:
    return Unreached(what, "correct advertised.listeners, or what forwards the port")


def _by_grpc(place: Place, deadline: float, timeout_s: float) -> Unreached | None:
    from strandline_proto.v1 import metadata_pb2
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub

    address = place.listener.address

    def is_broker(channel: "grpc.Channel", left_s: float) -> "metadata_pb2.ConfigResourceResult":
        asked = metadata_pb2.ConfigResource(type=_BROKER, name=str(place.broker), keys=["node.id"])
        request = metadata_pb2.DescribeConfigsRequest(resources=[asked])
        return BrokerServiceStub(channel).DescribeConfigs(request, timeout=left_s).results[0]

    try:
        answer = probe.ask_metadata(address, max(0.1, deadline - time.monotonic()))
        if answer.cluster_id != place.cluster_id:
            return _elsewhere(f"a broker of another cluster ({answer.cluster_id}) answers there")
        result = probe.ask(address, max(0.1, deadline - time.monotonic()), is_broker)
    except probe.NoAnswer as why:
        reason = str(why).removeprefix(f"{address} does not answer: ")
        if reason == "no answer in time":
            reason = f"connected, but no answer over gRPC within {timeout_s:g} s"
        return _other_protocol(reason)
    if result.error_code != _NONE:
        return _elsewhere(f"another broker answers there ({result.error_message})")
    return None


def _by_kafka(place: Place, stream: socket.socket, deadline: float) -> Unreached | None:
    stream.sendall(_api_versions(place))
    size = int.from_bytes(_exactly(stream, 4, deadline), "big", signed=True)
    if not _ANSWER_BYTES_MIN <= size <= _ANSWER_BYTES_MAX:
        return _other_protocol("what answers there does not speak Kafka's protocol")
    correlation_id, error = struct.unpack_from(">ih", _exactly(stream, size, deadline))
    if correlation_id != _CORRELATION_ID:
        return _other_protocol("what answers there does not speak Kafka's protocol")
    if error == _REBOOTSTRAP_REQUIRED:
        return _elsewhere("another broker, or one of another cluster, answers there")
    if error != _NONE:
        return _elsewhere(f"what answers there is no broker of this build (error {error})")
    return None


def _other_protocol(what: str) -> Unreached:
    return Unreached(
        what,
        "check that this listener of the broker is there, or correct advertised.listeners and"
        " listener.security.protocol.map; the broker's log names the connections that it has ended",
    )


def _api_versions(place: Place) -> bytes:
    """An ApiVersions request for that broker of that cluster."""
    header = struct.pack(">hhih", _API_VERSIONS, _VERSION, _CORRELATION_ID, -1) + b"\0"
    software = _compact("strandline") + _compact("doctor")
    body = software + _compact(place.cluster_id) + struct.pack(">i", place.broker) + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _compact(text: str) -> bytes:
    """A compact string, whose length fits into one byte of a varint."""
    data = text.encode()[:126]
    return bytes([len(data) + 1]) + data


def _exactly(stream: socket.socket, count: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < count:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        stream.settimeout(left_s)
        part = stream.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)

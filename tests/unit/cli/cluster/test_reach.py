"""Attempts to reach an address: the reason of each failure, the remedy, and an end in time."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strandline_cli.cluster import reach as reach_module
from strandline_cli.cluster.reach import Place, Unreached, reach, reach_all
from strandline_local import probe
from strandline_local.listeners import ListenerAddress
from strandline_proto.v1.metadata_pb2 import MetadataResponse

TIMEOUT_S = 20.0
SOON_S = 0.3


def place(address: str, protocol: str = "kafka", cluster_id: str = "cluster") -> Place:
    return Place(cluster_id, 7, ListenerAddress("L", protocol, address))


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that does this with its connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept = []

        def serve() -> None:
            with contextlib.suppress(OSError):  # the listener has been closed
                while True:
                    stream, _ = listener.accept()
                    kept.append(stream)
                    with contextlib.suppress(OSError):
                        answer(stream)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(TIMEOUT_S)
            for stream in kept:
                stream.close()


def kafka(data: bytes, asked: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    """A server that reads one request, and sends these bytes."""

    def answer(stream: socket.socket) -> None:
        size = struct.unpack(">i", stream.recv(4, socket.MSG_WAITALL))[0]
        request = stream.recv(size, socket.MSG_WAITALL)
        if asked is not None:
            asked.append(request)
        stream.sendall(data)
        stream.close()

    return answer


def told(correlation_id: int, error: int) -> bytes:
    body = struct.pack(">ih", correlation_id, error) + b"\x01\0\0\0\0\0"
    return struct.pack(">i", len(body)) + body


def failure(found: Unreached | None) -> Unreached:
    assert found is not None
    assert found.remedy
    return found


def test_an_answer_to_api_versions_is_enough_and_the_request_names_the_broker() -> None:
    asked: list[bytes] = []
    with server(kafka(told(1, 0), asked)) as address:
        assert reach(place(address), TIMEOUT_S) is None
    assert asked == [
        struct.pack(">hhih", 18, 5, 1, -1)
        + b"\0\x0bstrandline\x07doctor\x08cluster"
        + struct.pack(">i", 7)
        + b"\0"
    ]


@pytest.mark.parametrize(
    ("data", "reason", "remedy"),
    [
        (told(1, 129), "another broker, or one of another cluster, answers", "what forwards the"),
        (told(1, 35), "no broker of this build (error 35)", "correct advertised.listeners"),
        (told(2, 0), "does not speak Kafka's protocol", "listener.security.protocol.map"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol", "this listener"),
        (b"\0\0\0\0", "does not speak Kafka's protocol", "this listener of the broker is there"),
        (b"", "the connection was closed without an answer", "the broker's log names"),
        (told(1, 0)[:-3], "the connection was closed without an answer", "the broker's log names"),
    ],
)
def test_another_answer_in_kafkas_protocol_is_a_failure(
    data: bytes, reason: str, remedy: str
) -> None:
    with server(kafka(data)) as address:
        found = failure(reach(place(address), TIMEOUT_S))
    assert reason in found.reason
    assert remedy in found.remedy


@pytest.mark.parametrize("protocol", ["kafka", "grpc"])
def test_an_address_where_nothing_listens_is_refused(protocol: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        found = failure(reach(place(f"127.0.0.1:{port}", protocol), TIMEOUT_S))
    assert found.reason == "connection refused, nothing listens there"
    assert found.remedy == "start the broker, or correct advertised.listeners"


@pytest.mark.parametrize("protocol", ["kafka", "grpc"])
def test_a_name_that_is_not_known_is_named_as_such(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = failure(reach(place("broker-1:9092", protocol), TIMEOUT_S))
    assert found.reason == "the host name cannot be resolved here"
    assert "check from there" in found.remedy


@pytest.mark.parametrize("protocol", ["kafka", "grpc"])
def test_a_server_that_is_silent_is_given_up_in_time(protocol: str) -> None:
    with server(lambda _: None) as address:
        found = failure(reach(place(address, protocol), SOON_S))
    assert f"within {SOON_S} s" in found.reason


def test_a_port_that_does_not_speak_grpc_is_named_as_such() -> None:
    with server(lambda stream: stream.close()) as address:
        found = failure(reach(place(address, "grpc"), SOON_S))
    assert "listener.security.protocol.map" in found.remedy


def test_a_broker_of_another_cluster_is_a_failure_over_grpc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "ask_metadata", lambda *_: MetadataResponse(cluster_id="other"))
    with server(lambda _: None) as address:
        found = failure(reach(place(address, "grpc"), TIMEOUT_S))
    assert found.reason == "a broker of another cluster (other) answers there"
    assert "what forwards the port" in found.remedy


def test_all_attempts_end_in_time_even_if_a_name_is_never_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never = threading.Event()
    monkeypatch.setattr(reach_module, "GRACE_S", 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: never.wait(60) and [])
    found = reach_all([place("slow:1"), place("slow:2")], SOON_S)
    never.set()
    assert [failure(each).reason for each in found] == [f"no answer within {SOON_S} s"] * 2


def test_results_come_in_the_order_of_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach_module, "AT_A_TIME", 2)
    with server(kafka(told(1, 0))) as good, server(kafka(told(1, 129))) as bad:
        found = reach_all([place(each) for each in (good, bad, bad, good, good)], TIMEOUT_S)
    assert [each is None for each in found] == [True, False, False, True, True]

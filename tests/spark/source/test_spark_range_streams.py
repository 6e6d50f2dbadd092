"""Connections for ranges in plain frames: kept for the next range, and given up for gRPC where they
do not work.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from strandline_proto import hot_calls
from strandline_proto.hot_messages import FetchRangeRequest
from strandline_proto.range_frames import LENGTHS, MAGIC
from strandline_spark.cluster import range_streams
from strandline_spark.cluster.cluster import close_channels
from strandline_spark.cluster.offsets import TopicPartition
from strandline_spark.cluster.range_streams import RangeBroken, RangesNotServed
from strandline_spark.source.losses import OnLoss
from strandline_spark.source.ranges import RangeReader
from strandline_spark.source.splitting import PlannedRange
from support.fake_broker_sync import FakeBroker
from support.fake_range_server import serving_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDS = 300
BATCHES = 10


@pytest.fixture(autouse=True)
def no_connections() -> Iterator[None]:
    yield
    close_channels()
    range_streams._avoided.clear()


@pytest.fixture
def filled() -> Iterator[FakeBroker]:
    with FakeBroker() as fake:  # type: ignore[abstract] # the calls it lacks are UNIMPLEMENTED
        partition = fake.create("t").partitions[0]
        each = RECORDS // BATCHES
        for first in range(0, RECORDS, each):
            partition.append([(b"%d" % (first + i), bytes(10_000)) for i in range(each)])
        yield fake


def read(broker: FakeBroker) -> list[bytes]:
    """The keys of all records, as a Spark task reads them."""
    planned = PlannedRange(TopicPartition("t", 0), broker.topics["t"].topic_id, 0, RECORDS, 0)
    reader = RangeReader(planned, (broker.address,), on_loss=OnLoss.STOP)
    return [key for batch in reader.batches() for key in batch["key"].to_pylist()]


EVERY = [b"%d" % number for number in range(RECORDS)]


@pytest.fixture
def over_grpc(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls of FetchRange over gRPC."""
    calls: list[object] = []
    fetch_range = hot_calls.fetch_range

    def noted(channel: object) -> object:
        calls.append(channel)
        return fetch_range(channel)

    monkeypatch.setattr(hot_calls, "fetch_range", noted)
    return calls


@contextmanager
def peer(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[int]]]:
    """An address whose connections `answer` serves, and their number."""
    accepted: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        ending = threading.Event()

        def serve() -> None:
            while not ending.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                accepted.append(1)
                with connection:
                    connection.settimeout(5)
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", accepted
        finally:
            ending.set()
            thread.join()


def take_request(connection: socket.socket) -> None:
    connection.recv(1 << 16)


def test_ranges_come_over_one_connection_and_not_over_grpc(
    filled: FakeBroker, over_grpc: list[object]
) -> None:
    with serving_frames(filled):
        assert read(filled) == EVERY
        (kept,) = range_streams._idle.values()
        assert read(filled) == EVERY
        assert list(range_streams._idle.values()) == [kept]
    assert over_grpc == []


def test_the_buffer_is_used_again_and_rows_that_were_read_do_not_change(
    filled: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline_spark.source.ranges.MESSAGE_BYTES", 400_000)
    with serving_frames(filled):
        planned = PlannedRange(TopicPartition("t", 0), filled.topics["t"].topic_id, 0, RECORDS, 0)
        reader = RangeReader(planned, (filled.address,), on_loss=OnLoss.STOP)
        batches = list(reader.batches())
        (kept,) = range_streams._idle.values()
    assert len(batches) == BATCHES
    assert len(kept._buffer) < 400_000
    assert [key for batch in batches for key in batch["key"].to_pylist()] == EVERY


def test_a_message_above_the_kept_size_leaves_the_buffer_as_it_is(
    filled: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_streams, "KEPT_BYTES_MAX", 1000)
    with serving_frames(filled):
        assert read(filled) == EVERY
        (kept,) = range_streams._idle.values()
        assert len(kept._buffer) == 0


def test_a_connection_that_the_broker_ended_is_made_again(
    filled: FakeBroker, over_grpc: list[object]
) -> None:
    with serving_frames(filled):
        assert read(filled) == EVERY
        (kept,) = range_streams._idle.values()
        kept._socket.shutdown(socket.SHUT_RDWR)
        assert read(filled) == EVERY
    assert over_grpc == []


def test_an_address_that_takes_no_frames_is_left_for_grpc_and_not_tried_again(
    filled: FakeBroker, over_grpc: list[object]
) -> None:
    """A broker of an earlier build ends the connection; other addresses refuse it."""
    with peer(lambda _: None) as (address, accepted):
        filled.range_port = int(address.rpartition(":")[2])
        assert read(filled) == EVERY
        assert read(filled) == EVERY
    assert (len(over_grpc), len(accepted)) == (2, 1)
    range_streams._avoided.clear()
    assert read(filled) == EVERY  # nothing listens there now
    assert len(over_grpc) == 3


def request() -> FetchRangeRequest:
    return FetchRangeRequest(topic_id=os.urandom(16), stop_offset=10)


def test_a_silent_broker_is_no_reason_to_take_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_streams, "SILENT_SECONDS", 0.05)
    ended = threading.Event()
    with peer(lambda _: (ended.wait(5), None)[1]) as (address, _):
        with pytest.raises(RangeBroken, match=r"TimeoutError: no bytes for 0\.05 s"):
            next(iter(range_streams.messages(address, request())))
        ended.set()
    assert address not in range_streams._avoided


def test_a_message_that_trickles_in_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_streams, "MESSAGE_SECONDS", 0.1)
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        take_request(connection)
        connection.sendall(LENGTHS.pack(2, 1000) + b"\x20\x05")
        with suppress(OSError):
            for _ in range(1000):
                connection.sendall(b"r")
                if ended.wait(0.02):
                    break

    with peer(answer) as (address, _):
        with pytest.raises(RangeBroken, match="a message is not whole"):
            next(iter(range_streams.messages(address, request())))
        ended.set()


@pytest.mark.parametrize(
    "frame",
    [LENGTHS.pack(0, (1 << 31)), LENGTHS.pack((64 << 20) + 1, 0), LENGTHS.pack(3, 0) + b"\xff" * 3],
    ids=["records", "head", "protobuf"],
)
def test_bytes_that_are_no_message_are_not_believed(frame: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        take_request(connection)
        connection.sendall(frame)

    with (
        peer(answer) as (address, _),
        pytest.raises(RangesNotServed, match="DecodeError"),
        closing(range_streams.messages(address, request())) as messages,  # type: ignore[type-var]
    ):
        next(messages)


def test_a_connection_that_ends_within_a_range_is_not_kept() -> None:
    received: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        received.append(connection.recv(1 << 16))
        # next_offset 5 of 10, and then the end.
        connection.sendall(LENGTHS.pack(2, 0) + b"\x20\x05")

    with peer(answer) as (address, _):
        messages = range_streams.messages(address, request())
        assert next(iter(messages)).next_offset == 5
        with pytest.raises(RangeBroken, match="the broker has ended the connection"):
            next(iter(messages))
    assert range_streams._idle == {}
    assert received[0].startswith(MAGIC)


def test_a_connection_belongs_to_the_process_that_made_it(
    filled: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked worker must not use its parent's."""
    with serving_frames(filled):
        assert read(filled) == EVERY
        own = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: own + 1)
        assert read(filled) == EVERY
        assert {pid for pid, _ in range_streams._idle} == {own, own + 1}
        first, second = range_streams._idle.values()
        assert first is not second
        close_channels()
        assert {pid for pid, _ in range_streams._idle} == {own}
        monkeypatch.undo()

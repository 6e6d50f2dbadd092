"""Ranges in plain frames: the messages of FetchRange, and the ends of a connection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.fetch_range import FetchRangeService
from strandline_broker.rpc.malformed import MalformedRequest
from strandline_broker.rpc.records import range_frames
from strandline_broker.rpc.records.range_frames import serve_ranges
from strandline_proto.batch import build_batch
from strandline_proto.errors import NONE, OffsetNotAvailable, UnknownTopicId
from strandline_proto.hot_messages import FetchRangeRequest
from strandline_proto.range_frames import (
    LENGTH,
    LENGTHS,
    REQUEST_BYTES_MAX,
    is_last,
    parse_message,
    request_frame,
)
from strandline_runtime.real import RealNetwork
from support.replica_nodes import TOPIC_ID, Node, decide, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_proto.hot_messages import FetchRangeResponse
    from strandline_runtime.runtime import ByteStream

MESSAGES = 5
DEADLINE_S = 20.0


@dataclass
class Reader:
    """A client of the connection under test, and how the broker's side ended."""

    stream: ByteStream
    node: Node
    ended: asyncio.Future[None]
    requests: list[None] = field(default_factory=list)

    async def read(self, request: FetchRangeRequest) -> list[FetchRangeResponse]:
        self.stream.write(request_frame(request))
        found = [await self.message()]
        while not is_last(found[-1], request):
            found.append(await self.message())
        return found

    async def message(self) -> FetchRangeResponse:
        head, records = LENGTHS.unpack(await self.stream.read_exactly(LENGTHS.size))
        return parse_message(
            await self.stream.read_exactly(head), await self.stream.read_exactly(records)
        )


@asynccontextmanager
async def reading(
    path: Path, *, value: bytes = b"v", idle_s: float | None = None
) -> AsyncIterator[Reader]:
    """A leader alone with one record in each of its batches, and a connection for ranges."""
    network = RealNetwork()
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[ByteStream] = loop.create_future()
    listener = await network.listen("127.0.0.1", 0, accepted.set_result)
    async with asyncio.timeout(DEADLINE_S), run_node(path / "1", 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1), node)
        for _ in range(MESSAGES):
            check_leader(node.partition, 0).appends.append(
                build_batch([(None, value)], timestamp_ms=1), acks=1, on_done=lambda _: None
            )
        client = await network.connect("127.0.0.1", listener.port)
        stream = await accepted
        requests: list[None] = []
        serving = asyncio.ensure_future(
            serve_ranges(
                FetchRangeService(node.replicas, node.metadata),
                stream,
                idle_s=idle_s,
                count=lambda: requests.append(None),
            )
        )
        try:
            yield Reader(client, node, serving, requests)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            for each in (client, stream):
                each.abort()
                await each.closed()
            listener.close()


def request(start: int = 0, stop: int = MESSAGES, **fields: Any) -> FetchRangeRequest:
    return FetchRangeRequest(
        topic_id=TOPIC_ID, start_offset=start, stop_offset=stop, max_message_bytes=1, **fields
    )


async def test_messages_are_those_of_the_call_over_grpc(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        service = FetchRangeService(reader.node.replicas, reader.node.metadata)
        expected = [message async for message in service.read(request())]
        assert len(expected) == MESSAGES
        found = await reader.read(request())
        assert [each._replace(aborted_transactions=[]) for each in found] == expected


async def test_one_connection_serves_range_after_range(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        for start in range(MESSAGES):
            messages = await reader.read(request(start, MESSAGES))
            assert [each.base_offset for each in messages] == list(range(start, MESSAGES))
        assert len(reader.requests) == MESSAGES


async def test_a_range_without_offsets_has_one_message(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        (only,) = await reader.read(request(2, 2))
        assert (only.error_code, only.next_offset, bytes(only.records)) == (NONE, 2, b"")


async def test_an_error_ends_the_range_and_not_the_connection(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        (above,) = await reader.read(request(0, MESSAGES + 1))
        assert above.error_code == OffsetNotAvailable.code
        unknown = request()._replace(topic_id=bytes(16))
        assert [each.error_code for each in await reader.read(unknown)] == [UnknownTopicId.code]
        assert len(await reader.read(request())) == MESSAGES


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (LENGTH.pack(REQUEST_BYTES_MAX + 1), f"{REQUEST_BYTES_MAX + 1} bytes; it has at most"),
        (LENGTH.pack(3) + b"\xff\xff\xff", "3 bytes are no request for a range"),
    ],
)
async def test_a_request_that_is_none_ends_the_connection_by_name(
    tmp_path: Path, frame: bytes, why: str
) -> None:
    async with reading(tmp_path) as reader:
        reader.stream.write(frame)
        with pytest.raises(MalformedRequest, match=why):
            await reader.ended


async def test_a_request_that_stops_arriving_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_frames, "STALLED_S", 0.05)
    async with reading(tmp_path) as reader:
        reader.stream.write(request_frame(request())[:-1])
        with pytest.raises(MalformedRequest, match="a part of a request"):
            await reader.ended


async def test_an_idle_connection_ends(tmp_path: Path) -> None:
    async with reading(tmp_path, idle_s=0.05) as reader:
        with pytest.raises(ConnectionAbortedError, match="idle"):
            await reader.ended


async def test_a_reader_that_does_not_read_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_frames, "UNREAD_S", 0.05)
    async with reading(tmp_path, value=bytes(900_000)) as reader:
        for _ in range(20):  # more than the sockets hold
            reader.stream.write(request_frame(request()))
        with pytest.raises(ConnectionAbortedError, match="has not read"):
            await reader.ended


async def test_a_client_that_leaves_ends_the_work_for_it(tmp_path: Path) -> None:
    async with reading(tmp_path, value=bytes(900_000)) as reader:
        reader.stream.write(request_frame(request()))
        await reader.message()
        reader.stream.abort()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.ended

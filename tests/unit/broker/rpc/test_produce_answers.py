"""Answers that a client does not read: they are bounded, and its requests with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.record_check import RecordChecks
from strandline_broker.rpc.produce import UNANSWERED_MAX, UNREAD_BYTES_MAX, ProduceRpc
from strandline_proto.v1 import produce_pb2
from strandline_runtime.real import real_runtime
from support.pushed_broker import TOPIC_ID, broker
from support.scripted_controller import WAIT_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

IDLE_TURNS = 100
"""Of the event loop, in which nothing was read."""


class Client:
    """Sends requests that are refused at once, and reads answers only when it may."""

    def __init__(self, requests: int, *, partitions: int) -> None:
        self.sent = 0
        self.answers: list[produce_pb2.ProduceResponse] = []
        self.reads = asyncio.Event()
        self._requests = requests
        self._partitions = partitions

    async def requests(self) -> AsyncIterator[produce_pb2.ProduceRequest]:
        for number in range(self._requests):
            request = produce_pb2.ProduceRequest(correlation_id=number, acks=-1, timeout_ms=1000)
            topic = request.topics.add(topic_id=TOPIC_ID)
            for index in range(self._partitions):
                topic.partitions.add(index=index)
            self.sent += 1
            yield request

    async def until_nothing_is_read(self) -> None:
        idle, before = 0, -1
        while idle < IDLE_TURNS:
            idle, before = (idle + 1 if self.sent == before else 0), self.sent
            await asyncio.sleep(0)

    async def send_initial_metadata(self, _: Any) -> None:
        """As a context does."""

    async def write(self, answer: produce_pb2.ProduceResponse) -> None:
        await self.reads.wait()
        self.answers.append(answer)


@pytest.mark.parametrize(("requests", "partitions"), [(2 * UNANSWERED_MAX, 1), (400, 200)])
async def test_a_client_that_reads_no_answers_is_not_read_for_ever(
    tmp_path: Path, requests: int, partitions: int
) -> None:
    client = Client(requests, partitions=partitions)
    async with broker(tmp_path) as b, asyncio.TaskGroup() as group:
        runtime = real_runtime("broker-1")
        thread = runtime.serial_executor("record-checks")
        checks = RecordChecks(runtime.clock, b.replicas, thread)
        rpc = ProduceRpc(b.replicas, b.metadata, checks, "PLAINTEXT")
        stream = group.create_task(rpc.Produce(client.requests(), client))
        await client.until_nothing_is_read()
        unread = client.sent
        assert unread <= min(UNANSWERED_MAX, requests // 2)
        client.reads.set()
        async with asyncio.timeout(WAIT_S):
            await stream
    assert [a.correlation_id for a in client.answers] == list(range(requests))
    sizes = [answer.ByteSize() for answer in client.answers[:unread]]
    assert sum(sizes) < UNREAD_BYTES_MAX + max(sizes)

"""Answers that a client does not read: they are bounded, and its requests with them."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.hosts.replica.record_check import RecordChecks
from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.rpc.records.produce import UNANSWERED_MAX, UNREAD_BYTES_MAX, ProduceRpc
from strandline_proto.batch import build_batch
from strandline_proto.hot_messages import ProduceData, ProduceRequest
from strandline_proto.v1 import produce_pb2
from strandline_runtime.real import RealClock, real_runtime
from support.pushed_broker import MY_EPOCH, TOPIC_ID, ask, broker, push, with_topic
from support.scripted_controller import WAIT_S, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

IDLE_TURNS = 100
"""Of the event loop, in which nothing was read."""


class Client:
    """Sends requests that are refused at once, and reads answers only when it may."""

    def __init__(self, requests: int, *, partitions: int) -> None:
        self.sent = 0
        self.answers: list[bytes] = []
        self.reads = asyncio.Event()
        self._requests = requests
        self._partitions = partitions

    async def requests(self) -> AsyncIterator[ProduceRequest]:
        for number in range(self._requests):
            self.sent += 1
            yield ProduceRequest(
                correlation_id=number,
                acks=-1,
                timeout_ms=1000,
                partitions=[ProduceData(TOPIC_ID, i, b"") for i in range(self._partitions)],
            )

    async def until_nothing_is_read(self) -> None:
        idle, before = 0, -1
        while idle < IDLE_TURNS:
            idle, before = (idle + 1 if self.sent == before else 0), self.sent
            await asyncio.sleep(0)

    async def send_initial_metadata(self, _: Any) -> None:
        """As a context does."""

    async def write(self, answer: bytes) -> None:
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
        checks = RecordChecks(runtime.clock, b.replicas.partitions, thread)
        rpc = ProduceRpc(
            ProduceService(b.replicas, b.metadata, checks),
            b.metadata,
            "PLAINTEXT",
            RequestTimes(RealClock()),
        )
        stream = group.create_task(rpc.Produce(client.requests(), client))
        await client.until_nothing_is_read()
        unread = client.sent
        assert unread <= min(UNANSWERED_MAX, requests // 2)
        client.reads.set()
        async with asyncio.timeout(WAIT_S):
            await stream
    answers = [produce_pb2.ProduceResponse.FromString(answer) for answer in client.answers]
    assert [answer.correlation_id for answer in answers] == list(range(requests))
    sizes = [len(answer) for answer in client.answers[:unread]]
    assert sum(sizes) < UNREAD_BYTES_MAX + max(sizes)


class Received(bytearray):
    """What came off the wire; it can be seen to go."""

    __slots__ = ("__weakref__",)


class Waiter:
    """Sends one batch and goes on listening for its answer."""

    def __init__(self, batch: bytes) -> None:
        self.written: list[bytes] = []
        received = Received(batch)
        self.alive = weakref.ref(received)
        self._records: list[memoryview] = [memoryview(received)]
        self._more = asyncio.Event()

    async def requests(self) -> AsyncIterator[ProduceRequest]:
        data = ProduceData(TOPIC_ID, 0, self._records.pop())
        yield ProduceRequest(1, -1, 60_000, [data])
        del data
        await self._more.wait()

    async def send_initial_metadata(self, _: Any) -> None:
        """As a context does."""

    async def write(self, answer: bytes) -> None:
        self.written.append(answer)


async def test_a_request_that_waits_for_its_acks_keeps_no_records(tmp_path: Path) -> None:
    waiter = Waiter(build_batch([(None, b"v" * 3000)], timestamp_ms=1))
    async with broker(tmp_path) as b, running(b.receiver.run()):
        elected = with_topic(push(5, 4, full=True), leader_epoch=1)
        (partition,) = elected.leader_and_isr[0].partitions
        partition.isr_with_epochs.add(broker_id=2, broker_epoch=MY_EPOCH)
        partition.replicas.append(2)
        await ask(b.stub.LeaderAndIsr(), elected)
        runtime = real_runtime("broker-1")
        checks = RecordChecks(
            runtime.clock, b.replicas.partitions, runtime.serial_executor("record-checks")
        )
        rpc = ProduceRpc(
            ProduceService(b.replicas, b.metadata, checks),
            b.metadata,
            "PLAINTEXT",
            RequestTimes(RealClock()),
        )
        async with asyncio.TaskGroup() as group, asyncio.timeout(WAIT_S):
            stream = group.create_task(rpc.Produce(waiter.requests(), waiter))
            while waiter.alive() is not None:  # noqa: ASYNC110 - what is let go tells nobody
                await asyncio.sleep(0)
            stream.cancel()
        leader = b.replicas.find(TOPIC_ID, 0)
        assert leader is not None
        assert (leader.log.log_end_offset, leader.high_watermark) == (1, 0)
    assert waiter.written == []


class Careless:
    """Asks for no answer to a good batch, then to one for a partition that is not led here, and has
    more to send.
    """

    def __init__(self) -> None:
        self.read = 0
        self.answers: list[bytes] = []

    async def requests(self) -> AsyncIterator[ProduceRequest]:
        batch = build_batch([(None, b"v")], timestamp_ms=1)
        for partition in (0, 0, 1, 0):
            self.read += 1
            yield ProduceRequest(self.read, 0, 1000, [ProduceData(TOPIC_ID, partition, batch)])

    async def send_initial_metadata(self, _: Any) -> None:
        """As a context does."""

    async def write(self, answer: bytes) -> None:
        self.answers.append(answer)


async def test_who_wants_no_answer_is_told_of_a_refusal_by_the_end_of_the_stream(
    tmp_path: Path,
) -> None:
    """Its client would else write to who leads no more until it asks by itself, after minutes."""
    client = Careless()
    async with broker(tmp_path) as b, running(b.receiver.run()):
        await ask(b.stub.LeaderAndIsr(), with_topic(push(5, 4, full=True), leader_epoch=1))
        runtime = real_runtime("broker-1")
        checks = RecordChecks(
            runtime.clock, b.replicas.partitions, runtime.serial_executor("record-checks")
        )
        async with asyncio.timeout(WAIT_S):
            rpc = ProduceRpc(
                ProduceService(b.replicas, b.metadata, checks),
                b.metadata,
                "PLAINTEXT",
                RequestTimes(RealClock()),
            )
            await rpc.Produce(client.requests(), client)
        leader = b.replicas.find(TOPIC_ID, 0)
        assert leader is not None
        assert (client.read, leader.log.log_end_offset, client.answers) == (3, 2, [])

"""A producer's `stop(timeout_ms=...)`, and delivery callbacks that send."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any

import pytest

from strandline import Producer, sync
from strandline.errors import (
    BufferFull,
    ClientClosed,
    ClientMisused,
    ConfigurationError,
    FlushFailed,
    OperationTimedOut,
    OutcomeUnknown,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
from support.scripted_broker import scripted_cluster

if TYPE_CHECKING:
    from concurrent.futures import Future

    from strandline import RecordMetadata
    from support.scripted_broker import ScriptedCluster

IN_TIME_S = 60.0
"""Half of `delivery_timeout_ms`, for which a `stop` without limit would wait."""


# A limited stop.


@pytest.mark.parametrize("timeout_ms", [0, 50])
async def test_a_limited_stop_leaves_silent_brokers(timeout_ms: float) -> None:
    async with scripted_cluster(1) as cluster:
        cluster.create("orders")
        producer = Producer(cluster.bootstrap)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.brokers[1].pause()
        seen = await producer.send("orders", b"seen")
        seen.add_done_callback(lambda _: None)
        unseen = await producer.send("orders", b"unseen")
        async with asyncio.timeout(IN_TIME_S):
            with pytest.raises(FlushFailed, match=r"^1 records .*the producer was closed: "):
                await producer.stop(timeout_ms=timeout_ms)
        waited = " after 50 ms" if timeout_ms == 50 else ""
        with pytest.raises((OutcomeUnknown, ClientClosed), match=f"acknowledged{waited}, of ord"):
            await seen
        assert unseen.done()
        assert "still under way" not in str(seen.exception())
        await producer.stop()
        cluster.brokers[1].resume()


async def test_a_second_stop_may_end_the_first() -> None:
    async with scripted_cluster(1) as cluster:
        cluster.create("orders")
        producer = Producer(cluster.bootstrap)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.brokers[1].pause()
        future = await producer.send("orders", b"v")
        future.add_done_callback(lambda _: None)
        async with asyncio.timeout(IN_TIME_S):
            first = asyncio.get_running_loop().create_task(producer.stop())
            await asyncio.sleep(0)
            await producer.stop(timeout_ms=10)
            await first
        assert future.done()
        cluster.brokers[1].resume()


async def test_a_limited_stop_delivers_what_it_can() -> None:
    async with scripted_cluster(1) as cluster:
        (partition,) = cluster.create("orders")
        producer = Producer(cluster.bootstrap)
        await producer.start()
        futures = [await producer.send("orders", b"%d" % i) for i in range(100)]
        await producer.stop(timeout_ms=IN_TIME_S * 1000)
        assert [(await future).offset for future in futures] == list(range(100))
        assert len(partition.values()) == 100


@pytest.mark.parametrize("wrong", [-1, float("nan"), "5", True])
async def test_a_wrong_limit_stops_nothing(wrong: Any) -> None:
    async with scripted_cluster(1) as cluster:
        cluster.create("orders")
        async with Producer(cluster.bootstrap) as producer:
            with pytest.raises(ConfigurationError, match="timeout_ms"):
                await producer.stop(timeout_ms=wrong)
            await producer.send_and_wait("orders", b"v")


def test_the_blocking_producer_has_it_too(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    producer = sync.Producer(threaded_cluster.bootstrap)
    producer.start()
    producer.send_and_wait("orders", b"first")
    with pytest.raises(ConfigurationError, match="timeout_ms"):
        producer.stop(timeout_ms=-1)
    threaded_cluster.brokers[1].pause()
    future = producer.send("orders", b"v")
    ended = threading.Event()

    def stop() -> None:
        with pytest.raises(FlushFailed):
            producer.stop(timeout_ms=50)
        ended.set()

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    assert ended.wait(IN_TIME_S)
    stopping.join(IN_TIME_S)
    assert isinstance(failure := future.exception(IN_TIME_S), OutcomeUnknown | ClientClosed)
    assert "after 0 ms" not in str(failure)
    threaded_cluster.brokers[1].resume()


# Callbacks that send.


class DeadLetters:
    """Sends a second record for each one whose outcome is known."""

    def __init__(self, producer: sync.Producer, topic: str) -> None:
        self.producer, self.topic = producer, topic
        self.sent: queue.Queue[Future[RecordMetadata]] = queue.Queue()
        self.values: list[bytes] = []

    def of(self, value: bytes) -> Any:
        def delivered(error: Exception | None, metadata: RecordMetadata | None) -> None:
            self.values.append(value)
            self.sent.put(self.producer.send(self.topic, value, headers={"why": b"test"}))

        return delivered


@pytest.mark.parametrize("is_known", [True, False])
def test_a_callback_may_send(threaded_cluster: ScriptedCluster, *, is_known: bool) -> None:
    threaded_cluster.create("orders")
    (dead,) = threaded_cluster.create("dead")
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        if is_known:
            producer.partitions_for("dead")
        letters = DeadLetters(producer, "dead")
        wanted = [b"%d" % i for i in range(1500)]
        for value in wanted:
            producer.send("orders", value, on_delivery=letters.of(value))
        offsets = [letters.sent.get(timeout=IN_TIME_S).result(IN_TIME_S).offset for _ in wanted]
        assert offsets == list(range(1500))
    assert dead.values() == letters.values == wanted


def test_the_end_of_the_block_delivers_what_callbacks_send(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    (dead,) = threaded_cluster.create("dead")
    with sync.Producer(threaded_cluster.bootstrap, linger_ms=5) as producer:
        letters = DeadLetters(producer, "dead")
        for i in range(20):
            producer.send("orders", b"%d" % i, on_delivery=letters.of(b"%d" % i))
    assert dead.values() == [b"%d" % i for i in range(20)]


def test_a_failed_record_becomes_a_dead_letter(threaded_cluster: ScriptedCluster) -> None:
    (dead,) = threaded_cluster.create("dead")
    with sync.Producer(threaded_cluster.bootstrap, max_request_size=100) as producer:
        letters = DeadLetters(producer, "dead")
        future = producer.send("missing", b"v" * 100, on_delivery=letters.of(b"v"))
        with pytest.raises(RecordTooLarge):
            future.result(IN_TIME_S)
        assert letters.sent.get(timeout=IN_TIME_S).result(IN_TIME_S).topic == "dead"
    assert dead.values() == [b"v"]


def test_a_callback_that_sends_to_no_topic_blocks_nothing(
    threaded_cluster: ScriptedCluster,
) -> None:
    (orders,) = threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap, request_timeout_ms=100) as producer:
        letters = DeadLetters(producer, "missing")
        producer.send("orders", b"v", on_delivery=letters.of(b"v")).result(IN_TIME_S)
        letter = letters.sent.get(timeout=IN_TIME_S)
        producer.send_and_wait("orders", b"w")
        assert isinstance(letter.exception(IN_TIME_S), OperationTimedOut | UnknownTopicOrPartition)
    assert orders.values() == [b"v", b"w"]


def test_what_callbacks_send_to_a_full_buffer_waits_and_is_bounded(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    leader = threaded_cluster.brokers[1]
    # Three records of 500 bytes fill the buffer; as many of callbacks may wait beside them.
    with sync.Producer(threaded_cluster.bootstrap, buffer_memory=1800) as producer:
        producer.send_and_wait("orders", b"first")
        leader.pause()
        value = b"v" * 500
        for _ in range(3):
            producer.send("orders", value)
        loop, _ = producer._running()
        late = loop.run(lambda: [producer.send("orders", value) for _ in range(4)])
        assert isinstance(late[3].exception(IN_TIME_S), BufferFull)
        with pytest.raises(OperationTimedOut, match="3 records of delivery callbacks"):
            producer.flush(timeout_ms=20)
        leader.resume()
        assert [future.result(IN_TIME_S).offset for future in late[:3]] == [4, 5, 6]
        producer.flush()


def test_a_callback_may_do_nothing_else(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    caught: queue.Queue[Exception] = queue.Queue()
    with sync.Producer(threaded_cluster.bootstrap) as producer:

        def delivered(error: Exception | None, metadata: RecordMetadata | None) -> None:
            calls: list[Any] = [
                producer.flush,
                producer.stop,
                lambda: producer.send_and_wait("orders", b"v"),
                lambda: producer.send_many("orders", [b"v"]),
                lambda: producer.send("orders", b"v").result(),
            ]
            for call in calls:
                try:
                    call()
                except Exception as wrong:  # noqa: BLE001
                    caught.put(wrong)

        producer.send("orders", b"v", on_delivery=delivered)
        for _ in range(5):
            assert isinstance(caught.get(timeout=IN_TIME_S), ClientMisused)


def test_a_callback_of_a_callback_is_refused_once_the_producer_stops(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    outcomes: queue.Queue[object] = queue.Queue()
    producer = sync.Producer(threaded_cluster.bootstrap)
    producer.start()

    def again(error: Exception | None, metadata: RecordMetadata | None) -> None:
        try:
            producer.send("orders", b"again", on_delivery=again)
        except ClientClosed as closed:
            outcomes.put(closed)

    producer.send("orders", b"v", on_delivery=again)
    producer.stop()
    assert isinstance(outcomes.get(timeout=IN_TIME_S), ClientClosed)

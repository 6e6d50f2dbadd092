"""Serializers and deserializers through the clients, and records that do not deserialize."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio

from strandline import Consumer, Producer, Record, TopicPartition, sync
from strandline.errors import (
    ConfigurationError,
    DeliveryError,
    DeserializationError,
    SerializationError,
)
from strandline.serialization import DeadLetters, Format, Json, Text
from strandline_proto.batch import build_batch
from support.scripted_broker import scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from support.scripted_broker import ScriptedCluster

IN_TIME_S = 60.0
T0 = TopicPartition("orders", 0)


class Order(msgspec.Struct):
    id: int


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(1) as scripted:
        scripted.create("orders")
        scripted.create("dead")
        yield scripted


def put(cluster: ScriptedCluster, *values: bytes | None, key: bytes | None = b"k") -> None:
    """Appends one batch."""
    pairs = [(key, value) for value in values]
    cluster.partition("orders").append(build_batch(pairs, timestamp_ms=1))


def reader(cluster: ScriptedCluster, **options: Any) -> Consumer[Any, Any]:
    chosen: dict[str, Any] = {"auto_offset_reset": "earliest", **options}
    return Consumer("orders", bootstrap_servers=cluster.bootstrap, **chosen)


async def read(consumer: Consumer[Any, Any], count: int) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(IN_TIME_S):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=None)).values():
                found += [record.value for record in records]
    return found


async def test_values_come_back_as_they_were_sent(cluster: ScriptedCluster) -> None:
    form = Json(Order)
    async with Producer(
        cluster.bootstrap, key_serializer=Text(), value_serializer=form
    ) as producer:
        await producer.send_and_wait("orders", Order(1), "é")
        await (await producer.send("orders", None, "é"))
        result = await producer.send_many("orders", [Order(2), ("k", Order(3)), Record(Order(4))])
        assert result.acknowledged == 3
        with pytest.raises(SerializationError, match=r"^orders: the value does not serialize"):
            await producer.send("orders", {"id": 4}, "é")  # type: ignore[arg-type]
        with pytest.raises(SerializationError):
            await producer.send_many("orders", [Order(5), 6])  # type: ignore[list-item]
        await producer.flush()
    async with reader(cluster, key_deserializer=Text(), value_deserializer=form) as consumer:
        records = [await consumer.getone() for _ in range(6)]
    assert [(r.key, r.value) for r in records] == [
        ("é", Order(1)),
        ("é", None),
        (None, Order(2)),
        ("k", Order(3)),
        (None, Order(4)),
        (None, Order(5)),
    ]


async def test_an_error_is_raised_after_the_records_before_it(cluster: ScriptedCluster) -> None:
    put(cluster, b'{"id":0}', b'{"id":1}', b'{"id":"x"}', b'{"id":3}')
    async with reader(cluster, value_deserializer=Json(Order)) as consumer:
        assert await read(consumer, 2) == [Order(0), Order(1)]
        for _ in range(2):  # until the program seeks
            with pytest.raises(DeserializationError) as caught:
                await consumer.getmany(timeout_ms=None)
        error = caught.value
        assert (error.partition, error.offset, error.field) == (T0, 2, "value")
        assert error.data == b'{"id":"x"}'
        assert str(error).startswith("orders:0: the value at offset 2 does not deserialize (")
        assert "`$.id`" in str(error)
        assert "seek to 3 to skip it" in str(error)
        consumer.seek(T0, error.offset + 1)
        assert await read(consumer, 1) == [Order(3)]


async def test_a_key_is_named_too(cluster: ScriptedCluster) -> None:
    put(cluster, b"v", key=b"\xff")
    async with reader(cluster, key_deserializer="str") as consumer:
        with pytest.raises(DeserializationError, match=r"the key at offset 0 .*utf-8") as caught:
            await consumer.getone()
        assert (caught.value.field, caught.value.data) == ("key", b"\xff")


async def _later(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(
    ("deserialize", "why"),
    [
        (lambda data: 1 / 0, "ZeroDivisionError"),
        (lambda data: None, "returned None"),
        (_later, "returned a coroutine"),
        (lambda data: exit(3), "SystemExit"),
        (lambda data: next(iter(())), "StopIteration"),
    ],
)
async def test_a_faulty_function_is_an_error_of_its_record(
    cluster: ScriptedCluster, deserialize: Any, why: str
) -> None:
    put(cluster, None, b"v")
    async with reader(cluster, value_deserializer=deserialize) as consumer:
        assert (await consumer.getone()).value is None, "a tombstone has nothing to deserialize"
        with pytest.raises(DeserializationError, match=why):
            await consumer.getone()


async def test_a_deserializer_that_blocks_ends_the_poll_not_the_loop(
    cluster: ScriptedCluster,
) -> None:
    put(cluster, b"a", b"block", b"c")
    go = threading.Event()

    def deserialize(data: bytes) -> str:
        if data == b"block":
            go.wait()
        return data.decode()

    try:
        async with reader(
            cluster, value_deserializer=deserialize, deserialization_timeout_ms=50
        ) as consumer:
            assert await read(consumer, 1) == ["a"]
            with pytest.raises(
                DeserializationError, match=r"offset 1 .*did not return within 50 ms"
            ):
                await consumer.getone()
            consumer.seek(T0, 2)
            assert await read(consumer, 1) == ["c"]
    finally:
        go.set()


async def test_a_poll_that_gives_up_on_a_blocked_deserializer_leaves_the_next_one_free(
    cluster: ScriptedCluster,
) -> None:
    put(cluster, b"a", b"b")
    go, entered = threading.Event(), threading.Event()

    def deserialize(data: bytes) -> str:
        if not entered.is_set():
            entered.set()
            go.wait()
        return data.decode()

    try:
        async with reader(
            cluster, value_deserializer=deserialize, deserialization_timeout_ms=50
        ) as consumer:
            poll = asyncio.get_running_loop().create_task(consumer.getone())
            assert await asyncio.to_thread(entered.wait, IN_TIME_S)
            poll.cancel()
            with pytest.raises((asyncio.CancelledError, DeserializationError)):
                await poll
            consumer.seek(T0, 0)
            assert await read(consumer, 2) == ["a", "b"]
    finally:
        go.set()


async def test_blocked_threads_are_bounded(cluster: ScriptedCluster) -> None:
    put(cluster, *[b"%d" % i for i in range(20)])
    go = threading.Event()
    entered: list[bytes] = []

    def deserialize(data: bytes) -> str:
        entered.append(data)
        go.wait()
        return ""

    try:
        async with reader(
            cluster,
            value_deserializer=deserialize,
            deserialization_timeout_ms=5,
            on_deserialization_error="skip",
        ) as consumer:
            with pytest.raises(DeserializationError, match="did not return"):
                await consumer.getone()
        assert len(entered) <= 8
    finally:
        go.set()


async def test_skipped_records_move_the_position_and_the_commit(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, b"x", b'{"id":1}', b"y", b'{"id":3}', b"z")
    put(cluster, b"x", b"y")
    put(cluster, b'{"id":7}')
    async with reader(
        cluster, value_deserializer=Json(Order), on_deserialization_error="skip"
    ) as consumer:
        assert await read(consumer, 3) == [Order(1), Order(3), Order(7)]
        assert await consumer.position(T0) == 8
    assert "records that do not deserialize were skipped" in caplog.text
    assert "offset 0" in caplog.text


async def test_dead_letters_are_sent_as_they_were_with_the_reason(
    cluster: ScriptedCluster,
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b'{"id":1}')
        await producer.send_and_wait(
            "orders", b"poison", b"key", headers={"trace": b"7"}, timestamp_ms=12_345
        )
        await producer.send_and_wait("orders", b'{"id":3}')
    async with reader(
        cluster, value_deserializer=Json(Order), on_deserialization_error=DeadLetters("dead")
    ) as consumer:
        assert await read(consumer, 2) == [Order(1), Order(3)]
    dead: Consumer = Consumer(
        "dead", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    )
    async with dead:
        letter = await dead.getone()
    assert (letter.key, letter.value, letter.timestamp) == (b"key", b"poison", 12_345)
    headers = dict(letter.headers)
    reason = headers.pop("strandline.dead-letter.reason")
    assert reason is not None
    assert b"malformed" in reason
    assert headers == {
        "trace": b"7",
        "strandline.dead-letter.topic": b"orders",
        "strandline.dead-letter.partition": b"0",
        "strandline.dead-letter.offset": b"1",
        "strandline.dead-letter.timestamp": b"12345",
        "strandline.dead-letter.field": b"value",
    }


async def test_a_record_whose_dead_letter_fails_is_not_passed_over(
    cluster: ScriptedCluster,
) -> None:
    put(cluster, b'{"id":0}', b"poison", b'{"id":2}')
    async with reader(
        cluster,
        value_deserializer=Json(Order),
        on_deserialization_error=DeadLetters("missing"),
        request_timeout_ms=300,
    ) as consumer:
        with pytest.raises(DeliveryError, match=r"offset 1 .*dead letter .*topic 'missing'"):
            await consumer.getone()
        assert (await consumer.getone()).value == Order(0)
        assert await consumer.position(T0) == 1
        with pytest.raises(DeliveryError, match="offset 1"):
            await consumer.getone()
        cluster.create("missing")
        async with asyncio.timeout(IN_TIME_S):
            while True:
                try:
                    record = await consumer.getone()
                    break
                except DeliveryError:
                    pass
        assert record.value == Order(2)
        assert cluster.partition("missing").values() == [b"poison"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"on_deserialization_error": "ignore"}, "use 'raise', 'skip' or"),
        ({"on_deserialization_error": "skip"}, "means nothing without key_deserializer"),
        ({"on_deserialization_error": DeadLetters("")}, "names no topic"),
        (
            {"on_deserialization_error": DeadLetters("orders"), "value_deserializer": "json"},
            "would come back",
        ),
        ({"value_deserializer": 5}, "value_deserializer=5 is neither"),
        ({"value_deserializer": Json}, r"write Json\(\)"),
        ({"deserialization_timeout_ms": 0}, "deserialization_timeout_ms=0 is below 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], why: str) -> None:
    for client in (Consumer, sync.Consumer):
        make: Any = client
        with pytest.raises(ConfigurationError, match=why):
            make("orders", bootstrap_servers="h:1", **options)


class Upper(Format[str]):
    """A format of the program: it runs on the deserializers' thread."""

    threads: set[str]

    def __init__(self) -> None:
        self.threads = set()

    def serialize(self, value: str) -> bytes:
        return value.lower().encode()

    def deserialize(self, data: bytes) -> str:
        self.threads.add(threading.current_thread().name)
        return data.decode().upper()


def test_the_blocking_clients_have_them_too(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    form = Upper()
    with sync.Producer(threaded_cluster.bootstrap, value_serializer=form) as producer:
        producer.send("orders", "A").result(IN_TIME_S)
        producer.send_many("orders", ["B", (b"k", "C")])
        refused = producer.send("orders", 5)  # type: ignore[arg-type]
        assert isinstance(refused.exception(IN_TIME_S), SerializationError)
    with sync.Consumer(
        "orders",
        bootstrap_servers=threaded_cluster.bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=form,
    ) as consumer:
        values = _first(iter(consumer), 2)
        assert [*values, consumer.getone().value] == ["A", "B", "C"]
    assert form.threads == {"strandline-deserializer"}


def _first(records: Iterator[Any], count: int) -> list[Any]:
    return [next(records).value for _ in range(count)]

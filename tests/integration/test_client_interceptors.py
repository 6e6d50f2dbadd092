"""Interceptors see each record and commit; one that raises changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Consumer, Producer, Record, TopicPartition, sync
from strandline.errors import ConfigurationError, FlushFailed, RecordTooLarge
from strandline.interceptors import ConsumerInterceptor, ProducerInterceptor
from support.scripted_broker import scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.scripted_broker import ScriptedCluster

IN_TIME_S = 60.0
T0 = TopicPartition("orders", 0)


class Tracer(ProducerInterceptor):
    def __init__(self) -> None:
        self.outcomes: list[tuple[str, Any, Any]] = []

    def on_send(self, topic: str, record: Record[Any, Any]) -> Record[Any, Any]:
        return replace(record, headers=[*record.headers, ("trace", topic.encode())])

    def on_acknowledgement(self, topic: str, error: Any, metadata: Any) -> None:
        self.outcomes.append((topic, error, None if metadata is None else metadata.offset))


class Broken(ProducerInterceptor, ConsumerInterceptor):
    def on_send(self, topic: str, record: Record[Any, Any]) -> Record[Any, Any]:
        raise LookupError("on_send")

    def on_acknowledgement(self, topic: str, error: Any, metadata: Any) -> None:
        raise LookupError("on_acknowledgement")

    def on_consume(self, records: Any) -> Any:
        return None


class OnlyOdd(ConsumerInterceptor):
    def on_consume(self, records: Any) -> Any:
        return {
            tp: [r._replace(value=r.value + b"!") for r in some if r.offset % 2]
            for tp, some in records.items()
        }


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(1) as scripted:
        scripted.create("orders")
        yield scripted


async def test_records_and_outcomes_are_seen(cluster: ScriptedCluster) -> None:
    tracer = Tracer()
    async with Producer(
        cluster.bootstrap, interceptors=[Broken(), tracer], value_serializer=str.encode
    ) as producer:
        await producer.send_and_wait("orders", "a", headers={"own": b"1"})
        await producer.send_many("orders", ["b", (b"k", "c"), Record("d")])
    assert tracer.outcomes == [("orders", None, i) for i in range(4)]
    async with Consumer(
        "orders", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        records = [await consumer.getone() for _ in range(4)]
    assert [(r.key, r.value) for r in records] == [
        (None, b"a"),
        (None, b"b"),
        (b"k", b"c"),
        (None, b"d"),
    ]
    assert [dict(r.headers).get("trace") for r in records] == [b"orders"] * 4
    assert dict(records[0].headers)["own"] == b"1"


async def test_a_failure_that_only_interceptors_see_is_still_raised(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    tracer = Tracer()
    producer = Producer(cluster.bootstrap, interceptors=[tracer, Broken()])
    await producer.start()
    await producer.send_and_wait("orders", b"first")
    cluster.brokers[1].pause()
    await producer.send("orders", b"v")
    with pytest.raises(FlushFailed):
        await producer.stop(timeout_ms=0)
    cluster.brokers[1].resume()
    assert [offset for _, _, offset in tracer.outcomes] == [0, None]
    assert tracer.outcomes[1][1] is not None
    assert "on_send of an interceptor raised" in caplog.text
    assert "on_acknowledgement of an interceptor raised" in caplog.text


async def test_records_are_changed_and_left_out(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_many("orders", [b"%d" % i for i in range(4)])
    async with Consumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        interceptors=[Broken(), OnlyOdd()],
    ) as consumer:
        async with asyncio.timeout(IN_TIME_S):
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1!", b"3!"]
        assert await consumer.position(T0) == 4
    assert "on_consume of an interceptor raised" in caplog.text


async def test_commits_are_seen(cluster: ScriptedCluster) -> None:
    seen: list[Any] = []

    class Commits(Broken):
        def on_commit(self, offsets: Any) -> None:
            seen.append(offsets)
            offsets.clear()
            raise LookupError("on_commit")

    async with Producer(cluster.bootstrap) as producer:
        await producer.send_many("orders", [b"a", b"b"])
    first, second = Commits(), Commits()
    async with Consumer(
        bootstrap_servers=cluster.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        interceptors=[first, second],
    ) as consumer:
        await consumer.assign([T0])
        await consumer.getone()
        await consumer.commit()
        await consumer.commit({T0: (1, "note")})
    assert seen == [{}] * 4, "two interceptors, two commits, each with a dict of its own"


async def test_a_commit_names_offset_and_text(cluster: ScriptedCluster) -> None:
    seen: list[Any] = []

    class Commits(ConsumerInterceptor):
        def on_commit(self, offsets: Any) -> None:
            seen.append({tp: (at.offset, at.metadata) for tp, at in offsets.items()})

    async with Consumer(
        bootstrap_servers=cluster.bootstrap, group_id="g", interceptors=[Commits()]
    ) as consumer:
        await consumer.assign([T0])
        await consumer.commit({T0: (0, "note")})
    assert seen[0] == {T0: (0, "note")}


def test_the_blocking_clients_have_them_too(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    tracer = Tracer()
    with sync.Producer(
        threaded_cluster.bootstrap, interceptors=[tracer], max_request_size=200
    ) as producer:
        for i in range(4):
            producer.send("orders", b"%d" % i)
        refused = producer.send("orders", b"x" * 500)
        assert isinstance(refused.exception(IN_TIME_S), RecordTooLarge)
    assert sorted(o for _, _, o in tracer.outcomes if o is not None) == [0, 1, 2, 3]
    with sync.Consumer(
        "orders",
        bootstrap_servers=threaded_cluster.bootstrap,
        auto_offset_reset="earliest",
        interceptors=[OnlyOdd()],
    ) as consumer:
        records = iter(consumer)
        assert [next(records).value for _ in range(2)] == [b"1!", b"3!"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([object()], "has none of on_"),
        ([Tracer, OnlyOdd], "is a class; make one of it"),
        (5, "interceptors=5 is not a list"),
        ("ab", "is not a list"),
    ],
)
def test_what_is_no_interceptor_is_refused(given: Any, why: str) -> None:
    for client in (Producer, Consumer):
        make: Any = client
        with pytest.raises(ConfigurationError, match=why):
            make(bootstrap_servers="h:1", interceptors=given)

"""Whole batches against scripted brokers: the same again is not written again, and after a failure
nothing is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import Producer
from strandline._core.delivery_terms import Identity
from strandline.batches import Batches, Row, Topic
from strandline.errors import (
    ConfigurationError,
    InvalidProducerEpoch,
    OutOfOrderSequenceNumber,
    RecordTooLarge,
    TopicRecreated,
    UnknownTopicOrPartition,
)
from strandline.producer import sender_of
from strandline_proto import errors
from strandline_proto.batch import read_header
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.scripted_log import Partition

ID = (1 << 62) + 11
CHOSEN = Identity(ID, 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        yield scripted


def rows(*values: str) -> list[Row]:
    return [(1000 + i, b"k", value.encode(), (("h", b"x"),)) for i, value in enumerate(values)]


async def write(
    cluster: ScriptedCluster, *batches: list[Row], identity: Identity | None = CHOSEN
) -> int:
    async with Producer(cluster.bootstrap) as producer:
        out = Batches(producer)
        topic = await out.topic("t")
        for batch in batches:
            size = sum(out.size_of("t", value, key, headers) for _, key, value, headers in batch)
            await out.send(topic, 0, batch, size, identity)
        return await out.finish()


def sequences(p: Partition) -> list[tuple[int, int, int, int]]:
    headers = [read_header(data) for _, data in p.batches]
    return [(h.producer_id, h.producer_epoch, h.base_sequence, h.record_count) for h in headers]


async def test_batches_stay_as_they_were_cut_and_come_once_however_often_they_are_sent(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("t")
    cut = [rows("a", "b", "c"), rows("d"), rows("e", "f")]
    assert await write(cluster, *cut[:2]) == 4
    for _ in range(2):
        assert await write(cluster, *cut) == 6
    assert sequences(p) == [(ID, 0, 0, 3), (ID, 0, 3, 1), (ID, 0, 4, 2)]
    assert p.values() == [b"a", b"b", b"c", b"d", b"e", b"f"]
    record = p.records()[1]
    assert (record.timestamp, record.key, record.headers) == (1001, b"k", (("h", b"x"),))
    assert cluster.identity_requests == []
    # A newer epoch begins at 0 again, and shuts the older one out.
    assert await write(cluster, rows("g"), identity=Identity(ID, 1)) == 1
    assert sequences(p)[-1] == (ID, 1, 0, 1)
    with pytest.raises(InvalidProducerEpoch):
        await write(cluster, rows("h"))
    assert p.values()[-1] == b"g"


async def test_without_an_identity_a_broker_gives_one(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("t")
    for _ in range(2):
        assert await write(cluster, rows("a", "b"), identity=None) == 2
    assert p.values() == [b"a", b"b"] * 2
    assert len(cluster.identity_requests) == 2


async def test_lost_answers_and_broken_streams_change_nothing(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("t")
    p.acts.extend(
        [
            Act(append=True, drop_stream=True),
            Act(append=False, drop_stream=True),
            Act(code=errors.NotLeaderOrFollower.code),
            Act(append=True, code=errors.RequestTimedOut.code),
        ]
    )
    assert await write(cluster, *(rows(f"{i}", f"{i}+") for i in range(20))) == 40
    assert p.values() == [text.encode() for i in range(20) for text in (f"{i}", f"{i}+")]


async def test_after_a_failure_nothing_more_is_sent(cluster: ScriptedCluster) -> None:
    """What follows would take the numbers of what failed, and be taken for it in the rerun."""
    [p] = cluster.create("t")
    async with Producer(cluster.bootstrap, max_in_flight=1) as producer:
        out = Batches(producer)
        topic = await out.topic("t")
        await out.send(topic, 0, rows("a"), 100, CHOSEN)
        assert await out.finish() == 1
        p.acts.append(Act(code=errors.RecordTooLarge.code, message="no"))
        for value in ("b", "c"):
            await out.send(topic, 0, rows(value), 100, CHOSEN)
        with pytest.raises(RecordTooLarge):
            await out.finish()
        with pytest.raises(RecordTooLarge):
            await out.send(topic, 0, rows("d"), 100, CHOSEN)
        with pytest.raises(RecordTooLarge):
            await out.finish()
    assert p.values() == [b"a"]
    assert cluster.identity_requests == []


async def test_a_rerun_that_is_cut_otherwise_is_refused(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("t")
    await write(cluster, rows("a", "b"), rows("c"))
    with pytest.raises(OutOfOrderSequenceNumber):
        await write(cluster, rows("a", "b", "c", "d"), rows("e"))
    assert p.values() == [b"a", b"b", b"c"]


async def test_a_topic_that_is_not_what_it_was_gets_nothing(cluster: ScriptedCluster) -> None:
    """Its numbers would begin in the middle of the rows."""
    cluster.create("t")
    async with Producer(cluster.bootstrap) as producer:
        out = Batches(producer)
        topic = await out.topic("t")
        await out.send(topic, 0, rows("a"), 100, CHOSEN)
        assert await out.finish() == 1
        cluster.delete("t")
        [anew] = cluster.create("t", topic_id=b"anew".ljust(16))
        sender, _ = sender_of(producer)
        async with asyncio.timeout(60):
            while b"anew".ljust(16) not in sender.cluster.view.by_id:
                await sender.cluster.refresh(5)
        with pytest.raises(TopicRecreated):
            await out.send(topic, 0, rows("b"), 100, CHOSEN)
    assert anew.values() == []


async def test_what_cannot_be_meant_is_refused(cluster: ScriptedCluster) -> None:
    cluster.create("t", 2)
    async with Producer(cluster.bootstrap) as producer:
        out = Batches(producer)
        topic = await out.topic("t")
        assert topic == Topic("t", b"t".ljust(16, b"\0"), 2)
        for identity in (Identity(41, 0), Identity((1 << 62) - 1, 0), Identity(1 << 63, 0)):
            with pytest.raises(ConfigurationError, match="may belong to another producer"):
                await out.send(topic, 0, rows("a"), 100, identity)
        for epoch in (-1, 1 << 15):
            with pytest.raises(ConfigurationError, match="is not one from 0 to 32767"):
                await out.send(topic, 0, rows("a"), 100, Identity(ID, epoch))
        for partition in (-1, 2):
            with pytest.raises(UnknownTopicOrPartition, match="has 2 partitions"):
                await out.send(topic, partition, rows("a"), 100, CHOSEN)
        with pytest.raises(UnknownTopicOrPartition):
            await out.topic("no")
    async with Producer(cluster.bootstrap, acks=1) as producer:
        out = Batches(producer)
        with pytest.raises(ConfigurationError, match="enable_idempotence"):
            await out.send(await out.topic("t"), 0, rows("a"), 100, CHOSEN)


async def test_small_records_with_long_headers_fit_the_batch_that_was_counted_for_them(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("t")
    many: list[Row] = [
        (i * 10**9, None, None, (("n" * (i % 7), None),) * (i % 5)) for i in range(3000)
    ]
    assert await write(cluster, many) == 3000
    assert [len(r.headers) for r in p.records()] == [i % 5 for i in range(3000)]

"""A record that is lost is never lost in silence, whoever forgot to look."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import Producer, sync
from strandline.errors import (
    DeliveryTimedOut,
    FlushFailed,
    InvalidRecord,
    NotEnoughReplicas,
    OperationTimedOut,
    RequestTimedOut,
    SendManyFailed,
)
from strandline.producer import sender_of
from support.replica_nodes import eventually
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from strandline import RecordMetadata

REFUSED = Act(code=InvalidRecord.code, message="not for this topic")
UNANSWERED = Act(append=True, answer=False)
Fate = tuple[Exception | None, "RecordMetadata | None"]


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(1) as scripted:
        scripted.create("orders", 2)
        yield scripted


async def half_of_ten(producer: Producer, cluster: ScriptedCluster) -> list[asyncio.Future[object]]:
    """Five records that are acknowledged and five that are refused."""
    cluster.partition("orders", 1).acts.append(REFUSED)
    return [await producer.send("orders", b"%d" % n, partition=n % 2) for n in range(10)]  # type: ignore[misc]


async def test_flush_raises_what_nobody_has_heard_of(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await half_of_ten(producer, cluster)
        with pytest.raises(FlushFailed, match="5 records were not acknowledged, 5 of") as failed:
            await producer.flush()
        assert (failed.value.failed, failed.value.unknown) == (5, 0)
        assert [type(error) for error in failed.value.errors] == [InvalidRecord]
        assert not failed.value.may_have_been_written
        await producer.flush()  # it has been said
    [logged] = [r for r in caplog.records if r.name == "strandline" and r.levelno == logging.ERROR]
    assert "orders:1" in logged.getMessage()
    assert "not for this topic" in logged.getMessage()


async def test_the_end_of_the_block_raises_it_too(cluster: ScriptedCluster) -> None:
    with pytest.raises(FlushFailed, match="5 records"):
        async with Producer(cluster.bootstrap) as producer:
            await half_of_ten(producer, cluster)
    with pytest.raises(KeyError):
        await fails_after_half_of_ten(cluster)


async def fails_after_half_of_ten(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        await half_of_ten(producer, cluster)
        raise KeyError


async def test_who_has_looked_is_not_told_again(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        sent = await half_of_ten(producer, cluster)
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert sum(isinstance(outcome, InvalidRecord) for outcome in outcomes) == 5
        await producer.flush()
        sent = await half_of_ten(producer, cluster)
        assert producer._sender is not None
        await producer._sender.flush()
        assert sum(future.exception() is not None for future in sent) == 5, "looked at late"
        cluster.partition("orders", 0).acts.append(REFUSED)
        with pytest.raises(InvalidRecord):
            await producer.send_and_wait("orders", b"v", partition=0)


async def test_a_callback_hears_of_every_record(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Fate] = []

    def on_delivery(error: Exception | None, metadata: RecordMetadata | None) -> None:
        heard.append((error, metadata))
        raise ValueError("a defect of the caller's")

    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"a", partition=0, on_delivery=on_delivery)
        cluster.partition("orders", 1).acts.append(REFUSED)
        refused = await producer.send("orders", b"b", partition=1, on_delivery=on_delivery)
        refused.cancel()
        await producer.flush()
        assert len(heard) == 2, "flush returns when all of them have been called"
        [good] = [metadata for error, metadata in heard if error is None]
        [bad] = [error for error, metadata in heard if metadata is None]
        assert good is not None
        assert good.offset == 0
        assert isinstance(bad, InvalidRecord)
    assert "a defect of the caller's" in caplog.text


async def test_a_cancelled_wait_for_a_record_that_fails_is_raised(
    cluster: ScriptedCluster,
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        cluster.partition("orders", 0).acts.append(REFUSED)
        record = await producer.send("orders", b"a", partition=0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await record
        with pytest.raises(FlushFailed, match="1 records"):
            await producer.flush()


@pytest.mark.parametrize("is_late", [True, False])
async def test_what_fails_of_a_send_many_that_nobody_waits_for_is_raised(
    cluster: ScriptedCluster, is_late: bool
) -> None:
    """Whether it is cut off before its records fail, or its iterable raises behind that."""
    partition = cluster.partition("orders", 1)

    def broken() -> Iterator[tuple[None, bytes]]:
        yield from [(None, b"%d" % n) for n in range(5)]
        raise KeyError

    async with Producer(cluster.bootstrap, delivery_timeout_ms=2000) as producer:
        partition.acts.extend([Act(code=NotEnoughReplicas.code)] * 500)
        records = [b"%d" % n for n in range(5)] if is_late else broken()
        sending = asyncio.create_task(producer.send_many("orders", records, partition=1))
        if is_late:
            await eventually(lambda: sender_of(producer)[0].buffered > 0, "they are under way")
            sending.cancel()
        with pytest.raises((KeyError, asyncio.CancelledError)):
            await sending
        with pytest.raises(FlushFailed, match="5 records were not acknowledged, 5 of") as failed:
            await producer.flush()
        assert [type(error) for error in failed.value.errors] == [DeliveryTimedOut]
        partition.acts.clear()
        partition.acts.append(REFUSED)
        with pytest.raises(SendManyFailed):
            await producer.send_many("orders", [b"6"], partition=1)
        await producer.flush()  # it has been said


async def test_flush_says_what_is_late(cluster: ScriptedCluster) -> None:
    cluster.partition("orders", 0).acts.append(UNANSWERED)
    producer = Producer(cluster.bootstrap, delivery_timeout_ms=2000)
    async with producer:
        acknowledged = await producer.send("orders", b"a", partition=0)
        with pytest.raises(OperationTimedOut, match=r"1 records are not .* after 50 ms.*orders:0"):
            await producer.flush(timeout_ms=50)
        assert not acknowledged.done()
        with pytest.raises(FlushFailed, match=r"1 records .* 1 may have been"):
            await producer.flush(timeout_ms=10_000)


async def test_a_dropped_producer_is_noticed(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.partition("orders", 0).acts.append(UNANSWERED)
    producer = Producer(cluster.bootstrap, delivery_timeout_ms=2000)
    await producer.start()
    session = producer._session
    assert session is not None
    sent = await producer.send("orders", b"a", partition=0)
    holder = [producer]
    del producer
    with pytest.warns(ResourceWarning, match=r"without stop.. while 1 records waited"):
        holder.clear()
    assert "dropped without stop()" in caplog.text
    await asyncio.wait({sent})
    await session.close()


EXITS = """
import asyncio, sys
from strandline import Producer, sync

if sys.argv[2] == "sync":
    producer = sync.Producer(sys.argv[1])
    producer.start()
    producer.send("orders", b"a", partition=0)
else:
    async def main():
        producer = Producer(sys.argv[1])
        await producer.start()
        await producer.send("orders", b"a", partition=0)

    asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_program_that_ends_without_stop_says_what_waited(
    threaded_cluster: ScriptedCluster, kind: str
) -> None:
    threaded_cluster.create("orders")[0].acts.append(UNANSWERED)
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", EXITS, threaded_cluster.bootstrap, kind],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "dropped without stop()" in done.stderr
    assert "ResourceWarning" in done.stderr


def test_the_blocking_producer_tells_the_same(threaded_cluster: ScriptedCluster) -> None:
    (partition,) = threaded_cluster.create("orders")
    heard: list[Fate] = []
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        partition.acts.append(REFUSED)
        producer.send("orders", b"a")
        with pytest.raises(FlushFailed):
            producer.flush(timeout_ms=10_000)
        partition.acts.append(REFUSED)
        with pytest.raises(InvalidRecord):
            producer.send("orders", b"b").result(10)
        partition.acts.append(REFUSED)
        producer.send("orders", b"c", on_delivery=lambda *fate: heard.append(fate))
        producer.flush()
        assert [type(error) for error, _ in heard] == [InvalidRecord]
    partition.acts.append(REFUSED)
    with pytest.raises(FlushFailed), sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.send("orders", b"d")


def test_what_ends_a_blocking_block_matters_more(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")[0].acts.append(REFUSED)

    def fails() -> None:
        with sync.Producer(threaded_cluster.bootstrap) as producer:
            producer.send("orders", b"a")
            raise KeyError

    with pytest.raises(KeyError):
        fails()


def errors_logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "strandline" and record.levelno >= logging.WARNING
    ]


async def test_many_failures_are_one_line_in_the_log(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    for partition in range(2):
        cluster.partition("orders", partition).acts.extend([REFUSED] * 1000)
    async with Producer(cluster.bootstrap, batch_size=100) as producer:
        sent = [await producer.send("orders", bytes(90), partition=n % 2) for n in range(200)]
        with pytest.raises(FlushFailed, match="200 records were not acknowledged, 200 of"):
            await producer.flush()
        assert all(future.exception() is not None for future in sent)
    [line] = errors_logged(caplog)
    assert "orders:0" in line
    assert "orders:1" in line
    assert "200" in line
    assert "not for this topic" in line


async def test_failures_that_are_looked_at_in_time_are_no_line(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.partition("orders", 0).acts.extend([REFUSED] * 1000)
    async with Producer(cluster.bootstrap, batch_size=100) as producer:
        sent = [await producer.send("orders", bytes(90), partition=0) for _ in range(100)]
        for future in sent:
            with pytest.raises(InvalidRecord):
                await future
    assert errors_logged(caplog) == []


async def test_a_line_comes_without_a_flush(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.partition("orders", 0).acts.extend([REFUSED] * 1000)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"v", partition=0)
        async with asyncio.timeout(60):
            while not errors_logged(caplog):  # noqa: ASYNC110 - the log has no event
                await asyncio.sleep(0.05)
        with pytest.raises(FlushFailed):
            await producer.flush()
    assert len(errors_logged(caplog)) == 1


async def test_a_time_out_names_the_limit_that_was_set(cluster: ScriptedCluster) -> None:
    """The last try has a few milliseconds, which say nothing to whoever reads the error."""
    late = Act(code=RequestTimedOut.code, append=True, message="not committed within 1 ms")
    cluster.partition("orders", 0).acts.extend([late] * 1000)
    async with Producer(cluster.bootstrap, delivery_timeout_ms=2000) as producer:
        with pytest.raises(DeliveryTimedOut) as caught:
            await producer.send_and_wait("orders", b"v", partition=0)
    assert "within 2000 ms" in str(caught.value)
    assert "left of delivery_timeout_ms (2000)" in str(caught.value)
    assert "within 1 ms" not in str(caught.value)

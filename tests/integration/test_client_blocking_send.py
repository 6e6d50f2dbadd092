"""Blocking `send`: a queue between threads and the producer's loop, drained by few wake-ups."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from strandline import sync
from strandline.errors import (
    BufferFull,
    ClientClosed,
    ConfigurationError,
    FlushFailed,
    RecordTooLarge,
    UnknownTopicOrPartition,
)
from support.scripted_admin import add_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.scripted_broker import ScriptedBroker, ScriptedCluster

IN_TIME_S = 120.0
"""Far beyond what anything here takes."""
VALUE = b"v" * 79
"""With what a record adds, 100 bytes."""


class HeldLoop:
    """Keeps the producer's loop from running, and counts how often it is woken."""

    def __init__(self, producer: sync.Producer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wake_ups = 0
        self._open = threading.Event()
        loop, _ = producer._running()
        held = threading.Event()

        def hold() -> None:
            held.set()
            assert self._open.wait(IN_TIME_S)

        loop.call_soon(hold)
        assert held.wait(IN_TIME_S)
        wake = loop.call_soon

        def counted(function: Callable[[], object]) -> None:
            self.wake_ups += 1
            wake(function)

        monkeypatch.setattr(loop, "call_soon", counted)

    def release(self) -> None:
        self._open.set()


@pytest.fixture
def paused(threaded_cluster: ScriptedCluster) -> Iterator[ScriptedBroker]:
    """The leader of "orders", which answers nothing until it is resumed."""
    threaded_cluster.create("orders")
    leader = threaded_cluster.brokers[1]
    yield leader
    leader.resume()


def numbered(count: int, prefix: bytes = b"") -> list[bytes]:
    return [prefix + b"%06d" % i for i in range(count)]


def test_many_records_wake_the_loop_once_and_keep_their_order(
    threaded_cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    [p] = threaded_cluster.create("orders")
    values = numbered(3000)
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.send_and_wait("orders", b"first")
        held = HeldLoop(producer, monkeypatch)
        sent = [producer.send("orders", value) for value in values]
        assert held.wake_ups == 1
        assert not any(future.done() for future in sent)
        held.release()
        last = producer.send_and_wait("orders", b"last")
        assert [future.result(IN_TIME_S).offset for future in sent] == list(range(1, 3001))
        assert last.offset == 3001
    assert p.values() == [b"first", *values, b"last"]


def test_many_threads_send_at_once_and_each_keeps_its_order(
    threaded_cluster: ScriptedCluster,
) -> None:
    [p] = threaded_cluster.create("orders")
    names = [b"a", b"b", b"c", b"d", b"e", b"f"]
    with sync.Producer(threaded_cluster.bootstrap, buffer_memory=5000) as producer:

        def send_all(name: bytes) -> list[int]:
            sent = [producer.send("orders", value) for value in numbered(500, name)]
            return [future.result(IN_TIME_S).offset for future in sent]

        with concurrent.futures.ThreadPoolExecutor(len(names)) as threads:
            offsets = list(threads.map(send_all, names))
    values = p.values()
    assert len(values) == 3000
    for name, own in zip(names, offsets, strict=True):
        assert [v for v in values if v is not None and v.startswith(name)] == numbered(500, name)
        assert own == sorted(own)
        assert [values[offset] for offset in own] == numbered(500, name)


def test_what_is_wrong_with_a_record_comes_through_its_future(
    threaded_cluster: ScriptedCluster,
) -> None:
    [p] = threaded_cluster.create("orders")
    wrong: Any = "text"
    heard: list[tuple[Exception | None, Any]] = []
    with sync.Producer(threaded_cluster.bootstrap, max_request_size=1000) as producer:
        refused: list[tuple[concurrent.futures.Future[Any], type[Exception], str]] = [
            (producer.send("orders", wrong), TypeError, "encode it"),
            (producer.send("orders", b"v", wrong), TypeError, "encode it"),
            (producer.send("orders", bytes(1000)), RecordTooLarge, "max_request_size"),
            (producer.send("orders", b"v", headers=wrong), ConfigurationError, "headers="),
            (producer.send("orders", b"v", partition=7), UnknownTopicOrPartition, "no 7"),
            (producer.send("orders", b"v", timestamp_ms=-1), ConfigurationError, "timestamp_ms"),
            (producer.send("nope", b"v"), UnknownTopicOrPartition, "'nope' does not exist"),
        ]
        for future, kind, why in refused:
            with pytest.raises(kind, match=why):
                future.result(IN_TIME_S)
        producer.flush()  # all of it has been heard
        producer.send("orders", wrong, on_delivery=lambda *fate: heard.append(fate))
        producer.flush()
        assert [type(error) for error, _ in heard] == [TypeError]
        producer.send("orders", wrong)
        producer.send("orders", b"v", partition=7)
        with pytest.raises(FlushFailed) as caught:
            producer.flush()
        assert caught.value.failed == 2
        assert {type(error) for error in caught.value.errors} == {
            TypeError,
            UnknownTopicOrPartition,
        }
        assert producer.send("orders", b"good").result(IN_TIME_S).offset == 0
    assert p.values() == [b"good"]


def test_a_callback_has_heard_of_a_record_before_its_future_is_done(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        for _ in range(50):
            heard: list[Any] = []
            future = producer.send(
                "orders", b"v", on_delivery=lambda *fate, to=heard: to.append(fate)
            )
            assert heard == [] or future.done()
            where = future.result(IN_TIME_S)
            assert heard == [(None, where)]


def test_a_full_buffer_blocks_who_sends_until_there_is_room(
    threaded_cluster: ScriptedCluster, paused: ScriptedBroker
) -> None:
    with sync.Producer(threaded_cluster.bootstrap, buffer_memory=1000) as producer:
        producer.send_and_wait("orders", b"first")
        paused.pause()
        sent = [producer.send("orders", VALUE) for _ in range(10)]
        returned = threading.Event()

        def one_more() -> None:
            sent.append(producer.send("orders", b"late"))
            returned.set()

        thread = threading.Thread(target=one_more)
        thread.start()
        assert not returned.wait(0.2), "the buffer holds ten records, and no more"
        paused.resume()
        assert returned.wait(IN_TIME_S)
        thread.join()
        assert [f.result(IN_TIME_S).offset for f in sent] == list(range(1, 12))


def test_what_is_queued_counts_for_the_buffer(
    threaded_cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap, buffer_memory=1000) as producer:
        producer.send_and_wait("orders", b"first")
        held = HeldLoop(producer, monkeypatch)
        sent = [producer.send("orders", VALUE) for _ in range(10)]
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            late = threads.submit(producer.send, "orders", VALUE)
            with pytest.raises(TimeoutError):
                late.result(0.1)
            held.release()
            sent.append(late.result(IN_TIME_S))
        assert [f.result(IN_TIME_S).offset for f in sent] == list(range(1, 12))


def test_a_buffer_that_stays_full_is_told_by_the_future(
    threaded_cluster: ScriptedCluster, paused: ScriptedBroker
) -> None:
    with sync.Producer(
        threaded_cluster.bootstrap, buffer_memory=1000, delivery_timeout_ms=1500
    ) as producer:
        producer.send_and_wait("orders", b"first")
        paused.pause()
        sender = producer._twin._sender
        assert sender is not None
        sent = [producer.send("orders", VALUE) for _ in range(10)]
        producer._run(lambda _: setattr(sender, "buffer_memory", 1))  # expiry makes no room
        late = producer.send("orders", VALUE)
        with pytest.raises(BufferFull, match="the record was not sent"):
            late.result(IN_TIME_S)
        for future in sent:
            assert future.exception(IN_TIME_S) is not None


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts, also in tests that a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_send_has_not_handed_its_record_over(
    threaded_cluster: ScriptedCluster, paused: ScriptedBroker
) -> None:
    partition = threaded_cluster.partition("orders")
    with sync.Producer(threaded_cluster.bootstrap, buffer_memory=1000) as producer:
        producer.send_and_wait("orders", b"first")
        paused.pause()
        sent = [producer.send("orders", VALUE) for _ in range(10)]
        waits = producer._running()[0]
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            sender = producer._twin._sender
            assert sender is not None
            while not waits.run(lambda: len(sender._space)):
                pass
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            producer.send("orders", b"never")
        thread.join()
        paused.resume()
        assert [f.result(IN_TIME_S).offset for f in sent] == list(range(1, 11))
        assert producer.send("orders", b"next").result(IN_TIME_S).offset == 11
    assert b"never" not in partition.values()


def test_what_is_queued_is_delivered_before_the_producer_closes(
    threaded_cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    [p] = threaded_cluster.create("orders")
    values = numbered(3000)
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.send_and_wait("orders", b"first")
        held = HeldLoop(producer, monkeypatch)
        sent = [producer.send("orders", value) for value in values]
        threading.Timer(0.05, held.release).start()
    assert all(future.done() for future in sent)
    assert p.values() == [b"first", *values]


def test_what_is_sent_beside_a_close_is_delivered_or_refused_at_once(
    threaded_cluster: ScriptedCluster,
) -> None:
    [p] = threaded_cluster.create("orders")
    for _ in range(5):
        p.batches.clear()
        producer = sync.Producer(threaded_cluster.bootstrap)
        producer.start()
        going = threading.Barrier(4)
        sent: list[concurrent.futures.Future[Any]] = []

        def send_on(
            producer: sync.Producer = producer,
            going: threading.Barrier = going,
            sent: list[concurrent.futures.Future[Any]] = sent,
        ) -> None:
            going.wait(IN_TIME_S)
            while True:
                try:
                    sent.append(producer.send("orders", b"v"))
                except ClientClosed:
                    return

        threads = [threading.Thread(target=send_on) for _ in range(3)]
        for thread in threads:
            thread.start()
        going.wait(IN_TIME_S)
        producer.send_and_wait("orders", b"v")
        producer.stop()
        for thread in threads:
            thread.join(IN_TIME_S)
            assert not thread.is_alive()
        assert all(future.done() and future.exception() is None for future in sent)
        assert len(p.values()) == len(sent) + 1


def test_a_value_is_taken_as_it_is_when_it_is_sent(
    threaded_cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    [p] = threaded_cluster.create("orders")
    value, headers = bytearray(b"before"), [("h", b"x")]
    given: Any = headers
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.partitions_for("orders")
        held = HeldLoop(producer, monkeypatch)
        producer.send("orders", value, memoryview(value), headers=given)
        value[:] = b"beyond"
        headers.clear()
        held.release()
    [record] = p.records()
    assert (record.value, record.key, record.headers) == (b"before", b"before", (("h", b"x"),))


def test_a_handler_that_sends_may_run_within_a_send(
    threaded_cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    [p] = threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.partitions_for("orders")
        loop, _ = producer._running()
        wake = loop.call_soon

        def interrupted(function: Callable[[], object]) -> None:
            monkeypatch.setattr(loop, "call_soon", wake)
            producer.send("orders", b"of the handler")  # as a signal's handler, or a finalizer
            wake(function)

        monkeypatch.setattr(loop, "call_soon", interrupted)
        producer.send("orders", b"interrupted")
    assert p.values() == [b"of the handler", b"interrupted"]


def test_an_acknowledgement_is_a_future_like_any_other(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        for _ in range(20):
            sent = [producer.send("orders", b"v") for _ in range(30)]
            heard: list[Any] = []
            for future in sent:
                future.add_done_callback(heard.append)
            assert not sent[0].cancel(), "its record is on its way"
            done, late = concurrent.futures.wait(sent[:10], timeout=IN_TIME_S)
            assert len(done) == 10
            assert not late
            found = [f.result().offset for f in concurrent.futures.as_completed(sent, IN_TIME_S)]
            assert len(set(found)) == 30
            producer.flush()
            assert sorted(map(id, heard)) == sorted(map(id, sent)), "each called back, and once"
            assert [f.exception() for f in sent] == [None] * 30
            assert not any(f.cancelled() or f.running() for f in sent)

        async def awaited() -> list[int]:
            sent = [asyncio.wrap_future(producer.send("orders", b"v")) for _ in range(30)]
            return [metadata.offset for metadata in await asyncio.gather(*sent)]

        assert asyncio.run(awaited()) == list(range(600, 630))


def test_who_waits_for_a_record_hears_of_it_at_once(
    threaded_cluster: ScriptedCluster, paused: ScriptedBroker
) -> None:
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.send_and_wait("orders", b"first")
        paused.pause()
        future = producer.send("orders", b"v")
        with pytest.raises(TimeoutError):
            future.result(0.05)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            waits = [threads.submit(future.result, IN_TIME_S) for _ in range(8)]
            paused.resume()
            assert {wait.result(IN_TIME_S).offset for wait in waits} == {1}


INTERRUPTED = """
import gc, logging, signal, sys, threading
from strandline import sync

logging.basicConfig()
main = threading.main_thread().ident
for number in range(8):
    address = sys.argv[1] if number % 2 else "127.0.0.1:1"
    consumer = sync.Consumer("orders", bootstrap_servers=address, connect_timeout_ms=20_000)
    after_s = 0.01 + 0.02 * (number % 4)
    try:
        threading.Timer(after_s, signal.pthread_kill, (main, signal.SIGINT)).start()
        consumer.start()
        consumer.getone()
    except KeyboardInterrupt:
        pass
    consumer.stop()
    gc.collect()
print("end")
"""


def test_an_interrupted_client_leaves_no_task_behind(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, threaded_cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "end\n", done.stderr
    assert "Task was destroyed" not in done.stderr, done.stderr
    assert "Event loop is closed" not in done.stderr, done.stderr


BESIDE = """
import asyncio, sys
from strandline import Producer, sync

def come_and_go():
    for _ in range(10):
        with sync.Producer(sys.argv[1]) as producer:
            for _ in range(300):
                producer.send("orders", bytes(1000))

async def main():
    async with Producer(sys.argv[1]) as producer:
        coming_and_going = asyncio.create_task(asyncio.to_thread(come_and_go))
        while not coming_and_going.done():
            await producer.send_and_wait("others", b"v")
        await coming_and_going

asyncio.run(main())
print("end")
"""


def test_a_closed_client_leaves_nothing_to_the_loops_of_others(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    threaded_cluster.create("others")
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, threaded_cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "end\n", done.stderr
    assert "Event loop is closed" not in done.stderr, done.stderr


def test_a_call_that_waits_hears_that_another_thread_has_closed_the_client(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    consumer = sync.Consumer("orders", bootstrap_servers=threaded_cluster.bootstrap)
    consumer.start()
    loop = consumer._running()[0]
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        waits = threads.submit(loop.call, wait())
        assert begun.wait(IN_TIME_S)
        consumer.stop()
        with pytest.raises(ClientClosed, match="the consumer was closed"):
            waits.result(IN_TIME_S)
    with pytest.raises(ClientClosed, match="the consumer was closed"):
        loop.call(wait())


def test_a_partition_that_was_added_just_now_is_waited_for(
    threaded_cluster: ScriptedCluster,
) -> None:
    threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        producer.send("orders", b"0").result(120)
        add_partitions(threaded_cluster, "orders", 2)
        assert producer.send("orders", b"1", partition=1).result(120).offset == 0
        with sync.Consumer(bootstrap_servers=threaded_cluster.bootstrap) as consumer:
            consumer.assign([("orders", 1)])
            add_partitions(threaded_cluster, "orders", 3)
            consumer.assign([("orders", 2)])

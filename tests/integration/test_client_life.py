"""Where a client cannot work it says so at once: its own callback, another loop, a forked child,
tasks that somebody else has cancelled.
"""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest

from strandline import Admin, Consumer, Producer, sync
from strandline._blocking.send_queue import Acknowledgement
from strandline._producer.acknowledgement import Acknowledgement as OnLoop
from strandline.batches import Batches
from strandline.errors import ClientClosed, ClientMisused, DeliveryError, FlushFailed
from strandline.producer import hand_over_of
from strandline_proto.batch import read_header, read_records
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AT_ONCE_S = 30.0
"""Far below any deadline that the calls here have."""


# A blocking client in its own callback.


def test_a_blocking_client_refuses_to_wait_for_itself(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    with sync.Producer(threaded_cluster.bootstrap) as producer:
        unanswered = Acknowledgement(producer._running()[0])
        calls: list[Callable[[], object]] = [
            lambda: producer.send_and_wait("orders", b"b"),
            producer.flush,
            producer.stop,
            unanswered.result,
            unanswered.exception,
        ]
        refused = 0

        def values_from_its_own_thread() -> Iterator[bytes]:
            nonlocal refused
            yield b"a"
            for call in calls:
                with pytest.raises(ClientMisused, match="would wait for itself; a callback may"):
                    call()
                refused += 1
            yield b"b"

        assert producer.send_many("orders", values_from_its_own_thread()).acknowledged == 2
        assert refused == len(calls)
        again: queue.Queue[BaseException | None] = queue.Queue()

        def on_done(_: object) -> None:
            try:
                producer.flush()
            except BaseException as error:  # noqa: BLE001 - to be looked at where it counts
                again.put(error)
            else:  # acknowledged already: this is the caller's thread
                again.put(None)

        producer.send("orders", b"c").add_done_callback(on_done)
        error = again.get(timeout=AT_ONCE_S)
        assert error is None or isinstance(error, ClientMisused)
        assert producer.send("orders", b"d").result(AT_ONCE_S).offset == 3


# Tasks that somebody else has cancelled.


async def test_cancelled_background_tasks_end_every_wait() -> None:
    async with scripted_cluster(1) as cluster:
        (partition,) = cluster.create("orders")
        partition.acts.append(Act(append=True, answer=False))
        producer = Producer(cluster.bootstrap)
        consumer = Consumer("orders", bootstrap_servers=cluster.bootstrap)
        admin = Admin(cluster.bootstrap)
        for client in (producer, consumer, admin):
            await client.start()
        sent = await producer.send("orders", b"a")
        async with asyncio.TaskGroup() as group:
            waits = [
                group.create_task(outcome(call))
                for call in (
                    sent,
                    producer.flush(),
                    producer.send_many("orders", [b"b"]),
                    consumer.getmany(timeout_ms=None),
                    consumer.partitions_for_topic("nope"),
                )
            ]
            await partition.changed.wait()
            for client in (producer, consumer, admin):
                session = client._session
                assert session is not None
                assert session.tasks._root is not None
                session.tasks._root.cancel()
        errors = [wait.result() for wait in waits]
        assert isinstance(errors[0], DeliveryError)
        assert errors[0].may_have_been_written
        assert errors[1] is None, "flush has waited for what it could"
        assert isinstance(errors[2], DeliveryError)
        for error in errors[3:]:
            assert isinstance(error, ClientClosed), error
        for again in (
            producer.send("orders", b"c"),
            producer.flush(),
            consumer.getone(),
            admin.list_topics(),
        ):
            with pytest.raises(ClientClosed, match=r"cancelled from outside.*start another one"):
                await again
        async with asyncio.timeout(AT_ONCE_S):
            await asyncio.gather(producer.stop(), consumer.stop(), admin.close())


async def outcome(call: Any) -> BaseException | None:
    try:
        async with asyncio.timeout(AT_ONCE_S):
            await call
    except Exception as error:  # noqa: BLE001 - to be looked at where it counts
        return error
    return None


def test_the_end_of_the_loop_ends_a_client_that_nobody_stopped() -> None:
    left: list[Any] = []

    async def main() -> None:
        async with scripted_cluster(1) as cluster:
            (partition,) = cluster.create("orders")
            partition.acts.append(Act(append=True, answer=False))
            producer = Producer(cluster.bootstrap)
            await producer.start()
            sent = await producer.send("orders", b"a")
            left.extend((producer, sent))
            await partition.changed.wait()

    asyncio.run(main())
    assert isinstance(left[1].exception(), DeliveryError)


@pytest.mark.parametrize("victim", ["metadata", "deadlines", "identity", "produce to broker 1"])
async def test_one_cancelled_task_ends_all(victim: str) -> None:
    async with scripted_cluster(1) as cluster:
        cluster.create("orders")
        producer = Producer(cluster.bootstrap)
        await producer.start()
        await producer.send_and_wait("orders", b"a")
        [task] = [
            t for t in asyncio.all_tasks() if t.get_name() == f"strandline producer: {victim}"
        ]
        task.cancel()
        await asyncio.wait({task})
        assert producer._session is not None
        root = producer._session.tasks._root
        assert root is not None
        await asyncio.wait({root}, timeout=AT_ONCE_S)
        with pytest.raises(ClientClosed, match="cancelled from outside"):
            await producer.send("orders", b"b")
        await producer.stop()


# Another event loop.


def test_a_client_refuses_another_event_loop(threaded_cluster: ScriptedCluster) -> None:
    threaded_cluster.create("orders")
    bootstrap = threaded_cluster.bootstrap
    producer, admin = Producer(bootstrap), Admin(bootstrap)
    consumer = Consumer("orders", bootstrap_servers=bootstrap)
    runner = asyncio.new_event_loop()

    async def start() -> None:
        await producer.start()
        await consumer.start()
        await admin.start()

    async def elsewhere() -> None:
        calls: list[Callable[[], Any]] = [
            producer.start,
            lambda: producer.send("orders", b"a"),
            lambda: producer.send_many("orders", [b"a"]),
            producer.flush,
            producer.stop,
            consumer.getone,
            lambda: consumer.assign([("orders", 0)]),
            consumer.stop,
            admin.list_topics,
            admin.close,
        ]
        for call in calls:
            with pytest.raises(ClientMisused, match="belongs to the event loop in which it was"):
                await call()
        with pytest.raises(ClientMisused, match=r"use strandline\.sync"):
            consumer.seek(("orders", 0), 0)

    async def stop() -> None:
        await producer.send_and_wait("orders", b"a")
        await producer.stop()
        await consumer.stop()
        await admin.close()

    try:
        runner.run_until_complete(start())
        asyncio.run(elsewhere())
        consumer.seek(("orders", 0), 0)  # its loop stands still: nobody else can be in there
        runner.run_until_complete(stop())
    finally:
        runner.close()


# A forked child.

FORKS = """
import asyncio, contextlib, os, sys, traceback
from strandline import Producer, sync
from strandline.errors import ClientMisused

def in_child(what):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            what()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def refused(call, why):
    try:
        call()
    except ClientMisused as error:
        assert why in str(error), error
    else:
        raise AssertionError("not refused")

bootstrap = sys.argv[1]

def run_sync():
    with sync.Producer(bootstrap) as producer:
        producer.send_and_wait("orders", b"a")
        acknowledged = producer.send("orders", b"b")

        def child():
            refused(lambda: producer.send("orders", b"c"), "started before the process forked")
            refused(producer.flush, "works in the parent only")
            refused(acknowledged.result, "works in the parent only")
            refused(sync.Producer(bootstrap).start, "forked after a client had started")
            producer.stop()  # it is the parent's

        in_child(child)
        producer.send_and_wait("orders", b"d")

async def main():
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait("orders", b"e")
        pid = os.fork()
        if pid == 0:
            for call in (producer.send("orders", b"f"), producer.flush()):
                refused(lambda: call.send(None), "works in the parent only")
            with contextlib.suppress(StopIteration):
                producer.stop().send(None)  # it is the parent's
            os._exit(7)  # to unwind the loop would take events from the parent's
        while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            await asyncio.sleep(0.01)
        assert os.waitstatus_to_exitcode(ended[1]) == 7, ended
        await producer.send_and_wait("orders", b"g")

def first():
    with sync.Producer(bootstrap) as producer:
        producer.send_and_wait("orders", b"0")

def iterate():
    with sync.Consumer(
        "orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        assert next(consumer).value == b"0"
        in_child(lambda: refused(lambda: next(consumer), "works in the parent only"))
        assert next(consumer).value == b"a"

in_child(first)  # nothing of gRPC has started yet
run_sync()
iterate()
asyncio.run(main())
print("end")
"""


def test_a_forked_child_is_refused_at_once(threaded_cluster: ScriptedCluster) -> None:
    (partition,) = threaded_cluster.create("orders")
    done = subprocess.run(
        [sys.executable, "-c", FORKS, threaded_cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("end") == 1, done.stdout
    values = [
        r.value for _, data in partition.batches for r in read_records(data, 0, read_header(data))
    ]
    assert values == [b"0", b"a", b"b", b"d", b"e", b"g"]


# A producer that is being stopped.


async def test_what_is_sent_while_a_producer_stops_is_refused_and_not_cut_off() -> None:
    """Behind the flush it would be in flight, and of an unknown fate."""
    async with scripted_cluster(1) as cluster:
        (partition,) = cluster.create("orders")
        producer = Producer(cluster.bootstrap)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.brokers[1].pause()
        before = await producer.send("orders", b"before")
        waits = hand_over_of(producer).late(
            OnLoop(loop=asyncio.get_running_loop()), "orders", b"waited", None, None, None, ()
        )
        stopping = asyncio.create_task(producer.stop())
        await asyncio.sleep(0)
        with pytest.raises(ClientClosed):
            await producer.send("orders", b"beside")
        with pytest.raises(ClientClosed):
            await waits
        cluster.brokers[1].resume()
        await asyncio.wait_for(stopping, AT_ONCE_S)
        assert (await before).offset == 1
        assert partition.values() == [b"first", b"before"]


@pytest.mark.parametrize("breaks", [False, True])
async def test_an_iterable_that_is_half_sent_ends_with_the_producer(breaks: bool) -> None:
    """Nobody sends what comes behind, and its answer would never come."""
    async with scripted_cluster(1) as cluster:
        (partition,) = cluster.create("orders")
        producer = Producer(cluster.bootstrap, batch_size=1000)
        await producer.start()
        session = producer._session
        assert session is not None
        root = session.tasks._root
        assert root is not None
        stopping: list[asyncio.Task[None]] = []

        def items() -> Iterator[bytes]:
            for number in range(200):
                if number == 100 and breaks:
                    root.cancel()
                elif number == 100:
                    stopping.append(asyncio.create_task(producer.stop()))
                yield b"x" * 100

        with pytest.raises((ClientClosed, DeliveryError)) as ended:
            await asyncio.wait_for(producer.send_many("orders", items()), AT_ONCE_S)
        with nullcontext() if stopping else suppress(FlushFailed):
            await asyncio.wait_for(stopping[0] if stopping else producer.stop(), AT_ONCE_S)
        if stopping:
            [note] = ended.value.__notes__
            assert f"{len(partition.values())} records" in note, "what was taken is delivered"


async def test_what_waits_for_a_topic_hears_that_its_producer_is_stopped() -> None:
    async with scripted_cluster(1) as cluster:
        producer = Producer(cluster.bootstrap)
        await producer.start()
        late = Batches(producer)
        cluster.brokers[1].pause()
        waits = asyncio.create_task(producer.send("orders", b"a"))
        topic = asyncio.create_task(late.topic("orders"))
        await asyncio.sleep(0.01)
        await asyncio.wait_for(producer.stop(), AT_ONCE_S)
        for wait in (waits, topic):
            with pytest.raises(ClientClosed):
                await asyncio.wait_for(wait, AT_ONCE_S)


async def test_a_batch_is_refused_once_its_producer_is_stopped() -> None:
    async with scripted_cluster(1) as cluster:
        cluster.create("orders")
        producer = Producer(cluster.bootstrap)
        await producer.start()
        out = Batches(producer)
        topic = await out.topic("orders")
        await producer.stop()
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(out.send(topic, 0, [(1, None, b"a", ())], 100), AT_ONCE_S)


async def test_a_start_that_is_cut_off_at_once_is_only_cut_off() -> None:
    async with scripted_cluster(1) as cluster:
        producer = Producer(cluster.bootstrap)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await producer.start()
        await producer.start()
        await producer.stop()


# A client that is stopped while others wait for it.


async def test_calls_that_wait_hear_that_their_client_was_stopped_and_open_nothing() -> None:
    """They would go on asking over connections that nobody closes, to the end of their time."""
    async with scripted_cluster(1) as cluster:
        cluster.create("orders")
        consumer = Consumer("orders", bootstrap_servers=cluster.bootstrap, group_id="g")
        admin = Admin(cluster.bootstrap)
        await consumer.start()
        await admin.start()
        await consumer.wait_assigned(60_000)
        assert consumer._session is not None
        assert admin._session is not None
        connections = (consumer._session.connections, admin._session.connections)
        [t0] = consumer.assignment()
        cluster.brokers[1].pause()
        async with asyncio.TaskGroup() as group:
            waits = [
                group.create_task(outcome(call))
                for call in (
                    consumer.committed(t0),
                    consumer.end_offsets([t0]),
                    admin.list_topics(),
                    admin.describe_groups(["g"]),
                )
            ]
            await asyncio.sleep(0.2)
            await asyncio.gather(consumer.stop(timeout_ms=100), admin.close())
        for wait in waits:
            assert isinstance(wait.result(), ClientClosed), wait.result()
        assert [c._channels for c in connections] == [{}, {}]

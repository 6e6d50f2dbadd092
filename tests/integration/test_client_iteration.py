"""Iterating over a blocking consumer: records are lent to the thread that takes them, and count as
handed over one by one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from strandline import TopicPartition, sync
from strandline.errors import ClientClosed
from strandline_proto.batch import build_batch
from support.poll_clock import POLL_INTERVAL_MS, PollClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scripted_broker import ScriptedCluster

IN_TIME_S = 120.0
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def prepare(
    cluster: ScriptedCluster, count: int = 20, partitions: int = 1, *, batch: int = 4
) -> None:
    """`count` records in each partition."""
    cluster.create("orders", partitions)
    for p in range(partitions):
        for base in range(0, count, batch):
            values = [(None, b"v")] * batch
            assert cluster.partition("orders", p).append(build_batch(values, timestamp_ms=1)) == (
                0,
                base,
            )


def reader(cluster: ScriptedCluster, **options: Any) -> sync.Consumer:
    chosen = {"auto_offset_reset": "earliest", **options}
    return sync.Consumer("orders", bootstrap_servers=cluster.bootstrap, **chosen)


def member(cluster: ScriptedCluster, **options: Any) -> sync.Consumer:
    return reader(cluster, **{"group_id": "g", "auto_commit_interval_ms": 60_000, **options})


def steps(consumer: sync.Consumer, count: int) -> list[int]:
    return [next(consumer).offset for _ in range(count)]


def committed(cluster: ScriptedCluster) -> dict[int, int]:
    return {key[1]: at[0] for key, at in cluster.groups.group("g").offsets.items()}


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + IN_TIME_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_steps_of_an_iteration_take_what_is_there_already(
    threaded_cluster: ScriptedCluster,
) -> None:
    prepare(threaded_cluster)
    with reader(threaded_cluster) as consumer:
        assert steps(consumer, 1) == [0]
        polls = 0
        lend = consumer._ahead.poll

        def counted() -> Any:
            nonlocal polls
            polls += 1
            return lend()

        consumer._ahead = consumer._ahead._replace(poll=counted)
        assert steps(consumer, 19) == list(range(1, 20))
        assert polls == 0


def test_other_calls_see_the_position_of_who_iterates(threaded_cluster: ScriptedCluster) -> None:
    prepare(threaded_cluster)
    with reader(threaded_cluster) as consumer:
        for taken in range(1, 10):
            assert next(consumer).offset == taken - 1
            assert consumer.position(T0) == taken
        assert [r.offset for r in consumer.getmany(timeout_ms=5000, max_records=3)[T0]] == [
            9,
            10,
            11,
        ]
        assert consumer.getone().offset == 12
        assert steps(consumer, 2) == [13, 14]
        consumer.seek(T0, 3)
        assert steps(consumer, 2) == [3, 4]
        consumer.pause(T0)
        assert consumer.getmany(timeout_ms=20) == {}
        consumer.resume(T0)
        assert steps(consumer, 1) == [5]
        consumer.assign([])
        assert consumer.getmany(timeout_ms=20) == {}
        consumer.assign([T0])
        consumer.seek_to_beginning()
        assert steps(consumer, 20) == list(range(20))


def test_nothing_is_handed_out_once_the_consumer_is_closed(
    threaded_cluster: ScriptedCluster,
) -> None:
    prepare(threaded_cluster)
    consumer = reader(threaded_cluster)
    consumer.start()
    assert steps(consumer, 2) == [0, 1]
    consumer.stop()
    with pytest.raises(ClientClosed):
        next(consumer)


def test_several_threads_share_an_iteration(threaded_cluster: ScriptedCluster) -> None:
    prepare(threaded_cluster, 2000, 2)
    got: list[tuple[int, int]] = []
    with reader(threaded_cluster) as consumer:

        def take() -> None:
            for _ in range(1000):
                record = next(consumer)
                got.append((record.partition, record.offset))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(IN_TIME_S)
            assert not thread.is_alive()
    assert sorted(got) == [(p, offset) for p in (0, 1) for offset in range(2000)]


def test_auto_commit_follows_the_steps_and_leaves_out_the_record_in_work(
    threaded_cluster: ScriptedCluster,
) -> None:
    prepare(threaded_cluster)
    with member(threaded_cluster, auto_commit_interval_ms=20) as consumer:
        for taken in range(1, 8):
            assert next(consumer).offset == taken - 1
            if taken > 1:
                until(lambda at=taken - 1: committed(threaded_cluster).get(0) == at)  # type: ignore[misc]
        time.sleep(0.1)  # several intervals: never more
        assert committed(threaded_cluster) == {0: 6}
    assert committed(threaded_cluster) == {0: 6}, "nor by stop"


def test_a_commit_of_the_application_is_of_what_it_has_taken(
    threaded_cluster: ScriptedCluster,
) -> None:
    prepare(threaded_cluster)
    with member(threaded_cluster, auto_commit_interval_ms=20) as consumer:
        assert steps(consumer, 6) == list(range(6))
        consumer.commit()
        assert committed(threaded_cluster) == {0: 6}
        assert steps(consumer, 1) == [6]
        time.sleep(0.1)  # by itself it does not go back behind that
        assert committed(threaded_cluster) == {0: 6}
        consumer.commit_async().result(IN_TIME_S)
        assert committed(threaded_cluster) == {0: 7}


def test_who_iterates_slowly_stays_a_member(threaded_cluster: ScriptedCluster) -> None:
    prepare(threaded_cluster, batch=20)
    threaded_cluster.groups.interval_ms = 60_000  # a heartbeat's answer would take records back
    with member(threaded_cluster, max_poll_interval_ms=POLL_INTERVAL_MS) as consumer:
        clock = PollClock(consumer._twin)
        got = []
        for _ in range(10):
            got.append(next(consumer).offset)
            clock.advance(0.9)
            until(lambda: clock.was_read)
            assert threaded_cluster.groups.group("g").members
        assert got == list(range(10))
        clock.advance(1.1)  # a look has noted the last step
        until(lambda: not threaded_cluster.groups.group("g").members)
        assert committed(threaded_cluster) == {}
        assert next(consumer).offset == 0, "out of the group, and in again: nothing was committed"


def test_what_is_revoked_during_an_iteration_is_not_handed_out(
    threaded_cluster: ScriptedCluster,
) -> None:
    count = 2000
    prepare(threaded_cluster, count, 2)
    threaded_cluster.groups.interval_ms = 20
    with member(threaded_cluster) as one:
        assert one.wait_assigned(60_000) == {T0, T1}
        first = next(one).partition
        with member(threaded_cluster) as two:
            got: dict[int, list[int]] = {0: [], 1: []}
            got[first].append(0)
            halt = threading.Event()

            def poll() -> None:
                while not halt.is_set():
                    two.getmany(timeout_ms=10, max_records=1)

            thread = threading.Thread(target=poll)
            thread.start()
            try:
                until(lambda: len(one._ahead.records) == 0)
                while len(one.assignment()) == 2 and sum(map(len, got.values())) < 2 * count:
                    record = next(one)
                    got[record.partition].append(record.offset)
                    time.sleep(0.001)  # there are records left when the other one joins
                (kept,) = one.assignment()
                for _ in range(count - len(got[kept.partition])):
                    record = next(one)
                    got[record.partition].append(record.offset)
            finally:
                halt.set()
                thread.join()
            assert got[kept.partition] == list(range(count))
            lost = got[1 - kept.partition]
            assert lost == list(range(len(lost)))
            assert committed(threaded_cluster).get(1 - kept.partition, 0) == len(lost)

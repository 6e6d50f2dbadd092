"""Blocking consumers of a group: the same calls, and listeners on the thread that polls."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from strandline import TopicPartition, sync
from strandline.errors import ClientMisused, CommitFailed, ConfigurationError
from strandline_proto.batch import build_batch
from support.poll_clock import POLL_INTERVAL_MS, PollClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scripted_broker import ScriptedCluster

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def member(cluster: ScriptedCluster, *topics: str, **options: Any) -> sync.Consumer:
    chosen: dict[str, Any] = {"auto_offset_reset": "earliest", "group_id": "g", **options}
    return sync.Consumer(*topics, bootstrap_servers=cluster.bootstrap, **chosen)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def prepare(cluster: ScriptedCluster) -> None:
    cluster.create("orders", 2)
    for p in range(2):
        batch = build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1000)
        assert cluster.partition("orders", p).append(batch)[0] == 0


class Heard(sync.ConsumerRebalanceListener):
    def __init__(self, consumer: sync.Consumer) -> None:
        self.consumer = consumer
        self.threads: set[int] = set()
        self.revoked: set[TopicPartition] = set()
        self.assigned: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        self.threads.add(threading.get_ident())
        self.revoked |= revoked
        self.consumer.commit(dict.fromkeys(revoked, 2))
        with pytest.raises(ClientMisused, match="rebalance listener"):
            self.consumer.getmany()
        with pytest.raises(ClientMisused, match="rebalance listener"):
            self.consumer.stop()

    def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        self.threads.add(threading.get_ident())
        self.assigned |= assigned


def test_a_listener_runs_on_the_thread_that_polls_and_may_commit(
    threaded_cluster: ScriptedCluster,
) -> None:
    prepare(threaded_cluster)
    with member(threaded_cluster) as one, member(threaded_cluster) as two:
        heard = Heard(one)
        one.subscribe(["orders"], listener=heard)
        assert one.wait_assigned(60_000) == {T0, T1}
        assert one.group_metadata().group_id == "g"
        two.subscribe(["orders"])
        deadline = time.monotonic() + 20
        while not (one.assignment() and two.assignment()):
            one.getmany(timeout_ms=10)
            two.getmany(timeout_ms=10)
            assert time.monotonic() < deadline
        assert heard.threads == {threading.get_ident()}
        for tp in two.assignment() & heard.revoked:
            assert two.position(tp) == 2
            assert two.committed(tp) == 2
        [mine] = one.assignment()
        one.commit_async({mine: 1}).result(120)
        assert one.committed(mine, metadata=True) == (1, "", 0)
    assert heard.revoked == heard.assigned
    assert threaded_cluster.groups.group("g").members == {}


def test_what_a_listener_raises_comes_out_of_the_poll(threaded_cluster: ScriptedCluster) -> None:
    prepare(threaded_cluster)

    class Wrong:
        def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
            raise LookupError("revoked")

        async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
            """Of the other kind of consumer."""

    with member(threaded_cluster) as consumer:
        consumer.subscribe(["orders"], listener=Wrong())
        with pytest.raises(ConfigurationError, match="plain methods"):
            consumer.getone()
        assert consumer.getone().value == b"a"
        lost = [tp for tp in (T0, T1) if tp not in consumer.assignment()]
        assert lost == []
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()


def test_heartbeats_go_on_while_the_application_blocks(threaded_cluster: ScriptedCluster) -> None:
    prepare(threaded_cluster)
    threaded_cluster.groups.interval_ms = 20
    with member(threaded_cluster, "orders", max_poll_interval_ms=POLL_INTERVAL_MS) as consumer:
        clock = PollClock(consumer._twin)
        consumer.getone()
        before = consumer.group_metadata()
        beats = len(threaded_cluster.groups.heartbeats)
        clock.advance(0.9)
        until(lambda: clock.was_read and len(threaded_cluster.groups.heartbeats) >= beats + 3)
        clock.advance(0.2)
        until(lambda: not threaded_cluster.groups.group("g").members)
        with pytest.raises(CommitFailed):
            consumer.commit()
        assert consumer.getone().value == b"a", "it was never committed"
        assert consumer.group_metadata().member_id == before.member_id

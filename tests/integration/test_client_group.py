"""Consumers of a group against scripted brokers: who reads what, what is committed when, what the
application hears, and what becomes of it all when coordinators move, fall silent and die.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Consumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from strandline._core.membership import State
from strandline.errors import (
    ClientMisused,
    CommitFailed,
    ConfigurationError,
    GroupMaxSizeReached,
    NoOffsetForPartition,
    OffsetMetadataTooLarge,
    OperationTimedOut,
    UnsupportedFeature,
)
from strandline_proto import errors as wire
from strandline_proto.batch import build_batch
from support.poll_clock import POLL_INTERVAL_MS, PollClock
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strandline.group_types import ConsumerGroupMetadata
    from support.scripted_group import ScriptedGroup

T0, T1, T2, T3 = (TopicPartition("orders", p) for p in range(4))
ALL = {T0, T1, T2, T3}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        scripted.create("orders", 4)
        yield scripted


def write(cluster: ScriptedCluster, partition: int, *values: bytes) -> None:
    batch = build_batch([(None, v) for v in values], timestamp_ms=1000)
    assert cluster.partition("orders", partition).append(batch)[0] == 0


def member(cluster: ScriptedCluster, *topics: str, **options: object) -> Consumer:
    chosen: dict[str, object] = {
        "auto_offset_reset": "earliest",
        "group_id": "g",
        "fetch_max_wait_ms": 50,
        "auto_commit_interval_ms": 60_000,
        **options,
    }
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, **chosen)  # type: ignore[arg-type]


def group_of(cluster: ScriptedCluster) -> ScriptedGroup:
    return cluster.groups.group("g")


def committed(cluster: ScriptedCluster) -> dict[int, int]:
    return {key[1]: at[0] for key, at in group_of(cluster).offsets.items()}


async def until(true: Callable[[], bool], *polled: Consumer) -> None:
    """Wait for a condition; these poll meanwhile."""
    async with asyncio.timeout(60):
        while not true():
            for consumer in polled:
                await consumer.getmany(timeout_ms=0)
            await asyncio.sleep(0.005)


class Heard(ConsumerRebalanceListener):
    """Notes what it hears, and does what it is told."""

    def __init__(self, name: str = "", log: list[tuple[str, str, set[int]]] | None = None) -> None:
        self.name = name
        self.log = [] if log is None else log
        self.on_revoked: Any = None
        self.on_assigned: Any = None

    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        if self.on_revoked is not None:
            await self.on_revoked(revoked)
        self.log.append((self.name, "revoked", {tp.partition for tp in revoked}))

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        if self.on_assigned is not None:
            await self.on_assigned(assigned)
        self.log.append((self.name, "assigned", {tp.partition for tp in assigned}))

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        self.log.append((self.name, "lost", {tp.partition for tp in lost}))


async def test_one_member_reads_everything_and_commits_what_it_had_before_its_last_poll(
    cluster: ScriptedCluster,
) -> None:
    for p in range(4):
        write(cluster, p, b"a", b"b")
    async with member(cluster, "orders") as consumer:
        assert await consumer.wait_assigned(60_000) == ALL
        assert consumer.subscription() == {"orders"}
        seen = [await consumer.getone() for _ in range(8)]
        last = seen[-1]
    # The record that the last poll returned may be in work still: somebody gets it again.
    expected = dict.fromkeys(range(4), 2) | {last.partition: 1}
    assert committed(cluster) == expected
    async with member(cluster, "orders") as consumer:
        again = await consumer.getone()
        assert (again.partition, again.offset) == (last.partition, last.offset)
    assert group_of(cluster).members == {}, "who stops, leaves"


async def test_auto_commit_takes_what_was_handed_over_before_the_last_poll_never_more(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, *[b"v"] * 10)
    async with member(cluster, "orders", auto_commit_interval_ms=20) as consumer:
        await consumer.wait_assigned(60_000)
        first = await consumer.getmany(timeout_ms=10_000, max_records=3)
        assert len(first[T0]) == 3
        await until(lambda: len(consumer.assignment()) == 4)
        await asyncio.sleep(0.2)  # many intervals: the prefetched and the returned are not taken
        assert committed(cluster).get(0, 0) == 0
        await consumer.getmany(timeout_ms=10_000, max_records=3)
        await until(lambda: committed(cluster).get(0) == 3)
        await consumer.commit()
        assert committed(cluster)[0] == 6
        await asyncio.sleep(0.1)
        assert committed(cluster)[0] == 6, "what was committed on purpose is not taken back"
    assert committed(cluster)[0] == 6


async def test_partitions_move_to_a_new_member_after_commit_and_revocation(
    cluster: ScriptedCluster,
) -> None:
    for p in range(4):
        write(cluster, p, b"a", b"b", b"c")
    log: list[tuple[str, str, set[int]]] = []
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(member(cluster))
        one.subscribe(["orders"], listener=Heard("one", log))
        await one.wait_assigned(60_000)
        for _ in range(12):
            await one.getone()
        two = await stack.enter_async_context(member(cluster))
        two.subscribe(["orders"], listener=Heard("two", log))
        await until(lambda: any(name == "two" for name, _, _ in log), one, two)
        assert one.assignment() | two.assignment() == ALL
        assert not one.assignment() & two.assignment()
        revoked = next(w for n, what, w in log if (n, what) == ("one", "revoked"))
        assert revoked == {tp.partition for tp in two.assignment()}
        order = [(n, what) for n, what, _ in log]
        assert order.index(("one", "revoked")) < order.index(("two", "assigned"))
        assert {p: committed(cluster)[p] for p in revoked} == dict.fromkeys(revoked, 3)
        for tp in two.assignment():
            assert await two.position(tp) == 3
    assert group_of(cluster).members == {}


async def test_what_is_in_work_is_not_given_up_before_the_next_poll(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 3, b"a", b"b")
    write(cluster, 0, b"c")
    async with member(cluster, "orders") as one, member(cluster) as two:
        seen = {(await asyncio.wait_for(one.getone(), 60)).partition}
        while 3 not in seen:
            seen.add((await asyncio.wait_for(one.getone(), 60)).partition)
        mine = group_of(cluster).members[one.group_metadata().member_id]
        two.subscribe(["orders"])
        await until(lambda: bool(mine.pending), two)
        moving = {TopicPartition("orders", p) for _, p in mine.pending}
        await until(
            lambda: one._group is not None and one._group.membership.state is State.RECONCILING, two
        )
        for _ in range(20):
            await two.getmany(timeout_ms=5)
        assert one.assignment() == ALL, "the application works on a record"
        assert committed(cluster) == {}
        await until(lambda: two.assignment() == moving, one, two)
        for tp in moving:
            assert await two.position(tp) == (1 if tp.partition in seen else 0)


async def test_a_commit_under_way_is_the_owners_until_it_is_settled(
    cluster: ScriptedCluster,
) -> None:
    for p in range(4):
        write(cluster, p, b"a", b"b")
    async with (
        member(cluster, "orders", enable_auto_commit=False) as one,
        member(cluster, enable_auto_commit=False) as two,
    ):
        for _ in range(8):
            await asyncio.wait_for(one.getone(), 60)
        two.subscribe(["orders"])
        mine = group_of(cluster).members[one.group_metadata().member_id]
        await until(lambda: bool(mine.pending), two)
        cluster.groups.refuse_commits.extend([wire.CoordinatorNotAvailable.code] * 5)
        under_way = one.commit_async()
        await until(under_way.done, one, two)
        await under_way
        await until(lambda: len(two.assignment()) == 2, one, two)
        assert [await two.position(tp) for tp in two.assignment()] == [2, 2]


async def test_a_commit_within_revoked_is_still_the_members(cluster: ScriptedCluster) -> None:
    for p in range(4):
        write(cluster, p, b"a", b"b")
    heard = Heard()
    async with (
        member(cluster, enable_auto_commit=False) as one,
        member(cluster, enable_auto_commit=False) as two,
    ):

        async def commit(revoked: frozenset[TopicPartition]) -> None:
            await one.commit(dict.fromkeys(revoked, 2))
            with pytest.raises(ClientMisused, match="rebalance listener"):
                await one.getone()
            with pytest.raises(ClientMisused, match="rebalance listener"):
                await one.unsubscribe()

        heard.on_revoked = commit
        one.subscribe(["orders"], listener=heard)
        await one.wait_assigned(60_000)
        two.subscribe(["orders"])
        await until(lambda: len(two.assignment()) == 2, one, two)
        assert [await two.position(tp) for tp in sorted(two.assignment())] == [2, 2]
        heard.on_revoked = None


async def test_positions_can_be_changed_in_assigned_before_anything_is_delivered(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, b"a", b"b", b"c")
    heard = Heard()
    async with member(cluster) as consumer:

        async def seek(_: frozenset[TopicPartition]) -> None:
            await asyncio.sleep(0.05)  # long enough for what was read ahead to lie ready
            consumer.seek(T0, 2)

        heard.on_assigned = seek
        consumer.subscribe(["orders"], listener=heard)
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"c"


async def test_what_a_listener_raises_comes_out_of_the_poll_and_the_rebalance_goes_on(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, b"a")
    heard = Heard()

    async def fail(_: object) -> None:
        raise ValueError("the application's")

    heard.on_assigned = fail
    async with member(cluster) as consumer:
        consumer.subscribe(["orders"], listener=heard)
        with pytest.raises(ValueError, match="application's"):
            await asyncio.wait_for(consumer.getone(), 60)
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
        with pytest.raises(ConfigurationError, match="on_partitions_revoked"):
            consumer.subscribe(["orders"], listener=object())


async def test_a_cancelled_poll_loses_nothing_and_leaves_the_listener_alone(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, b"a")
    heard, go_on = Heard(), asyncio.Event()

    async def wait(_: object) -> None:
        await go_on.wait()

    heard.on_assigned = wait
    async with member(cluster) as consumer:
        consumer.subscribe(["orders"], listener=heard)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.getone(), 0.3)
        assert heard.log == []
        go_on.set()
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
        assert [what for _, what, _ in heard.log] == ["assigned"]


def _has_joined_anew(consumer: Consumer, before: ConsumerGroupMetadata) -> bool:
    assert consumer._group is not None
    granted = consumer._group.membership.reconciling.granted
    return consumer.group_metadata() != before and bool(granted)


async def test_a_fenced_member_hears_that_it_has_lost_everything_and_joins_anew(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, b"a", b"b")
    heard = Heard()
    async with member(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe(["orders"], listener=heard)
        await consumer.wait_assigned(60_000)
        assert (await consumer.getone()).value == b"a"
        before = consumer.group_metadata()
        cluster.groups.expire("g", before.member_id)
        # Though the partition is its own again: another member may have had it meanwhile.
        await until(lambda: _has_joined_anew(consumer, before))
        with pytest.raises(CommitFailed, match="orders:0"):
            await consumer.commit({T0: 1})
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
        assert [what for _, what, _ in heard.log] == ["assigned", "lost", "assigned"]


async def test_a_slow_application_keeps_its_membership_until_max_poll_interval(
    cluster: ScriptedCluster,
) -> None:
    cluster.groups.interval_ms = 20
    write(cluster, 0, b"a", b"b")
    heard = Heard()
    async with member(cluster, max_poll_interval_ms=POLL_INTERVAL_MS) as consumer:
        clock = PollClock(consumer)
        consumer.subscribe(["orders"], listener=heard)
        await consumer.wait_assigned(60_000)
        assert (await consumer.getone()).value == b"a"
        beats = len(cluster.groups.heartbeats)
        clock.advance(0.9)  # the application works
        await until(lambda: clock.was_read and len(cluster.groups.heartbeats) >= beats + 5)
        assert len(group_of(cluster).members) == 1
        clock.advance(0.2)
        await until(lambda: group_of(cluster).members == {})
        assert heard.log[1:] == [], "it hears of it in its next poll"
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
        assert [what for _, what, _ in heard.log] == ["assigned", "lost", "assigned"]


async def test_unsubscribe_commits_tells_and_leaves(cluster: ScriptedCluster) -> None:
    write(cluster, 0, b"a", b"b", b"c")
    heard = Heard()
    async with member(cluster) as consumer:
        consumer.subscribe(["orders"], listener=heard)
        for _ in range(3):
            await asyncio.wait_for(consumer.getone(), 60)
        await consumer.unsubscribe()
        assert [what for _, what, _ in heard.log] == ["assigned", "revoked"]
        assert committed(cluster)[0] == 2
        assert group_of(cluster).members == {}
        assert consumer.assignment() == frozenset()
        assert consumer.subscription() == frozenset()
        consumer.subscribe(["orders"])
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"c"


async def test_a_new_subscription_replaces_the_old_one(cluster: ScriptedCluster) -> None:
    cluster.create("bills", 2)
    async with member(cluster, "orders") as consumer:
        await consumer.wait_assigned(60_000)
        consumer.subscribe(["bills"])
        await until(lambda: {tp.topic for tp in consumer.assignment()} == {"bills"}, consumer)
        consumer.subscribe(pattern=".*")
        await until(lambda: consumer.subscription() == {"bills", "orders"}, consumer)
        beat = cluster.groups.heartbeats[-1].heartbeat
        consumer.subscribe(["orders"])
        await until(lambda: consumer.assignment() == ALL, consumer)
        with pytest.raises(ConfigurationError, match="unsubscribe"):
            await consumer.assign([T0])
        assert beat.member_id == consumer.group_metadata().member_id


async def test_a_static_member_keeps_its_place(cluster: ScriptedCluster) -> None:
    async with member(cluster, "orders", group_instance_id="i") as consumer:
        await consumer.wait_assigned(60_000)
        assert consumer.group_metadata().group_instance_id == "i"
    [away] = group_of(cluster).members.values()
    assert away.is_away
    async with member(cluster, "orders", group_instance_id="i") as consumer:
        assert await consumer.wait_assigned(60_000) == ALL
        async with member(cluster, "orders", group_instance_id="i") as second:
            with pytest.raises(Exception, match="as scripted") as refused:
                await asyncio.wait_for(second.getone(), 60)
            assert refused.type.__name__ == "UnreleasedInstanceId"


async def test_a_coordinator_that_moves_costs_no_rebalance(cluster: ScriptedCluster) -> None:
    write(cluster, 0, b"a", b"b", b"c")
    heard = Heard()
    async with member(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe(["orders"], listener=heard)
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"
        cluster.groups.coordinator = 2
        await consumer.commit()
        assert committed(cluster)[0] == 1
        for broker in cluster.brokers.values():
            broker.drop_streams()
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"b"
        await consumer.commit({T0: OffsetAndMetadata(2, "text", 0)})
        assert await consumer.committed(T0, metadata=True) == OffsetAndMetadata(2, "text", 0)
        assert await consumer.committed(T1) == 0
        assert [what for _, what, _ in heard.log] == ["assigned"]


async def test_a_coordinator_that_falls_silent_is_left_for_a_new_stream(
    cluster: ScriptedCluster,
) -> None:
    cluster.groups.interval_ms = 50
    async with member(cluster, "orders") as consumer:
        await consumer.wait_assigned(60_000)
        generation = cluster.groups.heartbeats[-1].stream_generation
        cluster.groups.is_mute = True
        await until(lambda: cluster.groups.heartbeats[-1].stream_generation > generation)
        cluster.groups.is_mute = False
        await consumer.commit({T0: 0})
        full = [r for r in cluster.groups.heartbeats if r.seq == 1]
        assert all(r.heartbeat.HasField("topic_partitions") for r in full)
        assert consumer.assignment() == ALL


async def test_a_coordinator_that_is_paused_is_left_when_metadata_names_another(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("__consumer_offsets", 1)
    cluster.groups.interval_ms = 60_000  # its silence would be noticed much later
    async with member(cluster, "orders") as consumer:
        await consumer.wait_assigned(60_000)
        cluster.brokers[1].pause()
        cluster.groups.coordinator = 2
        for p in range(4):
            if cluster.partition("orders", p).leader == 1:
                cluster.move_leader("orders", p, 2)
        cluster.move_leader("__consumer_offsets", 0, 2)
        async with asyncio.timeout(60):
            await consumer.commit({T0: 0})
        assert committed(cluster)[0] == 0
        cluster.brokers[1].resume()


@pytest.mark.parametrize(
    "code", [wire.CoordinatorLoadInProgress.code, wire.StaleMemberEpoch.code, 7, 15, 16]
)
async def test_what_passes_is_waited_out(cluster: ScriptedCluster, code: int) -> None:
    write(cluster, 0, b"a")
    group_of(cluster).offsets[b"orders".ljust(16, b"\0"), 0] = (1, -1, "")
    write(cluster, 0, b"b")
    cluster.groups.refuse_fetches.extend([code] * 3)
    async with member(cluster, "orders", enable_auto_commit=False) as consumer:
        record = await asyncio.wait_for(consumer.getone(), 60)
        assert record.value == b"b", "only an answer without error resets a position"
        cluster.groups.refuse_commits.extend([code] * 3)
        await consumer.commit()
        assert committed(cluster)[0] == 2


async def test_without_a_committed_offset_the_policy_decides(cluster: ScriptedCluster) -> None:
    write(cluster, 0, b"a")
    async with member(cluster, "orders", auto_offset_reset="error") as consumer:
        with pytest.raises(NoOffsetForPartition, match="orders:"):
            await asyncio.wait_for(consumer.getone(), 60)
        consumer.seek(T0, 0)
        assert (await asyncio.wait_for(consumer.getone(T0), 60)).value == b"a"


async def test_a_position_that_the_log_has_lost_is_noticed_by_its_leader_epoch(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, b"a")
    write(cluster, 0, b"b")
    p = cluster.partition("orders", 0)
    p.truncate(1)
    cluster.move_leader("orders", 0, 2)
    write(cluster, 0, b"other", b"another")
    group_of(cluster).offsets[b"orders".ljust(16, b"\0"), 0] = (2, 0, "")
    async with member(cluster, "orders", enable_auto_commit=False) as consumer:
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"other"


async def test_commits_that_are_refused_say_why(cluster: ScriptedCluster) -> None:
    async with member(cluster, "orders", request_timeout_ms=2000) as consumer:
        await consumer.wait_assigned(60_000)
        with pytest.raises(ConfigurationError, match="below 0"):
            await consumer.commit({T0: -1})
        with pytest.raises(ConfigurationError, match="not assigned"):
            await consumer.commit({("orders", 9): 1})
        with pytest.raises(OffsetMetadataTooLarge, match="orders:0"):
            await consumer.commit({T0: (0, "x" * 5000)})
        cluster.groups.refuse_commits.extend([wire.CoordinatorNotAvailable.code] * 100)
        with pytest.raises(OperationTimedOut, match="CoordinatorNotAvailable") as late:
            await consumer.commit({T0: 0})
        assert late.value.may_have_been_written
        cluster.groups.refuse_commits.clear()
        first, second = consumer.commit_async({T0: 1}), consumer.commit_async({T0: 2})
        await asyncio.gather(first, second)
        assert committed(cluster)[0] == 2


async def test_an_error_that_nothing_mends_comes_out_of_every_poll(
    cluster: ScriptedCluster,
) -> None:
    cluster.groups.refuse_beats.append(wire.GroupMaxSizeReached.code)
    async with member(cluster, "orders") as consumer:
        for _ in range(2):
            with pytest.raises(GroupMaxSizeReached, match="as scripted"):
                await asyncio.wait_for(consumer.getone(), 60)
        with pytest.raises(GroupMaxSizeReached):
            await consumer.wait_assigned(1000)
        await consumer.unsubscribe()
        consumer.subscribe(["orders"])
        assert await consumer.wait_assigned(60_000) == ALL


async def test_brokers_that_know_no_groups_are_named_at_once(cluster: ScriptedCluster) -> None:
    for broker in cluster.brokers.values():
        broker.knows_groups = False
    async with member(cluster, "orders", request_timeout_ms=60_000) as consumer:
        with pytest.raises(UnsupportedFeature, match="not scripted"):
            await asyncio.wait_for(consumer.getone(), 50)
        with pytest.raises(UnsupportedFeature, match="not scripted"):
            await asyncio.wait_for(consumer.committed(T0), 50)


async def test_assigned_by_hand_it_begins_at_and_commits_to_the_group(
    cluster: ScriptedCluster,
) -> None:
    write(cluster, 0, b"a", b"b", b"c")
    group_of(cluster).offsets[b"orders".ljust(16, b"\0"), 0] = (1, 0, "")
    async with member(cluster) as consumer:
        await consumer.assign([T0])
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"b"
        await consumer.commit()
        assert committed(cluster)[0] == 2
        with pytest.raises(ConfigurationError, match="unsubscribe"):
            consumer.subscribe(["orders"])
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"c"
        await consumer.unsubscribe()
        assert committed(cluster)[0] == 2


async def test_a_topic_that_goes_is_revoked_without_an_error(cluster: ScriptedCluster) -> None:
    cluster.create("bills", 1)
    heard = Heard()
    async with member(cluster) as consumer:
        consumer.subscribe(["orders", "bills"], listener=heard)
        await until(lambda: len(consumer.assignment()) == 5, consumer)
        cluster.delete("bills")
        cluster.groups.group("g").epoch += 1
        cluster.groups.tell("g")
        await until(lambda: len(consumer.assignment()) == 4, consumer)
        write(cluster, 0, b"a")
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"a"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"group_id": "x" * 32_768}, "at most 32767"),
        ({"group_id": "a\nb"}, "cannot be printed"),
        ({"group_id": "\ud800"}, "Unicode"),
        ({"group_id": 7}, "not a string"),
        ({"group_id": None, "group_instance_id": "i"}, "without group_id"),
        ({"group_instance_id": ""}, "group_instance_id is empty"),
        ({"max_poll_interval_ms": 0}, "below 1"),
        ({"enable_auto_commit": "yes"}, "True or False"),
        ({"auto_commit_interval_ms": -1}, "below 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], why: str) -> None:
    chosen = {"group_id": "g", **options}
    with pytest.raises(ConfigurationError, match=why):
        Consumer("orders", bootstrap_servers="h:1", **chosen)


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("session_timeout_ms", r"consumer\.session\.timeout\.ms"),
        ("heartbeat_interval_ms", r"consumer\.heartbeat\.interval\.ms"),
        ("partition_assignment_strategy", "group_remote_assignor"),
    ],
)
def test_options_of_the_classic_protocol_name_what_to_use(option: str, instead: str) -> None:
    options: dict[str, Any] = {option: 10_000, "group_id": "g"}
    with pytest.raises(UnsupportedFeature, match=f"{option}.*{instead}"):
        Consumer("orders", bootstrap_servers="h:1", **options)


async def test_subscribe_refuses_what_it_cannot_mean(cluster: ScriptedCluster) -> None:
    async with member(cluster) as consumer:
        with pytest.raises(ConfigurationError, match="one, not several"):
            consumer.subscribe("orders")
        with pytest.raises(ConfigurationError, match="topics or a pattern"):
            consumer.subscribe()
        with pytest.raises(ConfigurationError, match="topics or a pattern"):
            consumer.subscribe(["orders"], pattern="o.*")
        with pytest.raises(ConfigurationError, match="name of a topic"):
            consumer.subscribe([""])
        with pytest.raises(ConfigurationError, match="pattern"):
            consumer.subscribe(pattern="x" * 5000)
        with pytest.raises(OperationTimedOut, match="nothing was assigned"):
            await consumer.wait_assigned(10)
    async with member(cluster, "orders", group_id=None) as consumer:
        for call in (consumer.commit, consumer.wait_assigned):
            with pytest.raises(ConfigurationError, match="group_id"):
                await call()
        with pytest.raises(ConfigurationError, match="group_id"):
            consumer.subscribe(["orders"])

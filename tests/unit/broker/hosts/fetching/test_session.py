"""A follower's fetch session costs what changes, and its leader knows all the same who keeps up."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.common.fetch_messages import FetchRequest, Position, Replica
from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
from strandline_broker.hosts.fetching.long_poll import LongPoll
from strandline_broker.hosts.fetching.session import REQUESTS_AHEAD_MAX, FetchSession
from strandline_broker.hosts.fetching.session_partitions import ANSWERED_MAX, AT_ONCE
from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.storage.log.log import Log
from strandline_broker.storage.log.reader import LogReader
from strandline_proto.batch import build_batch
from strandline_proto.errors import FencedLeaderEpoch, KafkaStorageError, UnknownTopicOrPartition
from strandline_proto.ids import BrokerId
from strandline_runtime.milliseconds import monotonic_ms
from support.hand_clock import HandClock
from support.loop_turns import with_turns
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.hosts.common.fetch_messages import FetchResponse, Key
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.reader import LogRead

LAG_S = 30
KEY: Key = (TOPIC_ID, 0)


@dataclass
class Follower:
    """What one broker sends on its stream, without the stream."""

    session: FetchSession
    broker_id: int
    sent: int = 0

    def write(
        self,
        offset: int | None = None,
        *,
        max_wait_ms: int = 0,
        epoch: int = 0,
        key: Key = KEY,
        min_bytes: int = 1,
    ) -> None:
        positions = {} if offset is None else {key: Position(epoch, offset, -1, 0, 1 << 20)}
        request = FetchRequest(
            correlation_id=self.sent,
            session_id=0,
            session_epoch=self.sent,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            replica=Replica(self.broker_id, self.broker_id) if self.broker_id >= 0 else None,
            positions=positions,
        )
        self.sent += 1
        self.session.ask(request)

    async def name(self, positions: dict[Key, Position]) -> FetchResponse:
        """Several at once, and room for the records of one."""
        self.session.ask(
            FetchRequest(
                correlation_id=self.sent,
                session_id=0,
                session_epoch=self.sent,
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1,
                replica=Replica(self.broker_id, self.broker_id),
                positions=positions,
            )
        )
        self.sent += 1
        return await self.read()

    async def read(self) -> FetchResponse:
        response = await self.session.answer()
        assert response is not None
        assert response.error is None
        return response

    async def ask(
        self, offset: int | None = None, *, max_wait_ms: int = 0, epoch: int = 0, key: Key = KEY
    ) -> FetchResponse:
        self.write(offset, max_wait_ms=max_wait_ms, epoch=epoch, key=key)
        return await self.read()


@dataclass
class Led:
    node: Node
    clock: HandClock

    @property
    def leader(self) -> Leader:
        leader = self.node.partition.leader
        assert leader is not None
        return leader

    def follower(self, broker_id: int) -> Follower:
        node, throttle = self.node, LeaderThrottle(self.clock, self.node.replicas.config)
        session = FetchSession(
            self.clock,
            node.metadata,
            node.replicas,
            throttle,
            RequestTimes(self.clock),
            broker_id,
        )
        return Follower(session, broker_id)

    def append(self, index: int = 0) -> None:
        partition = self.node.replicas.find(TOPIC_ID, index)
        assert partition is not None
        check_leader(partition, None).appends.append(
            build_batch([(None, b"v")], timestamp_ms=1), acks=1, on_done=lambda _: None
        )

    def tick(self) -> list[list[int]]:
        """The ISRs that are asked for once time has passed."""
        ticks, now_ms = self.node.replicas.roles.ticks, monotonic_ms(self.clock)
        ticks.tick(now_ms)  # the first one after a pause proves nothing (I-96)
        ticks.tick(now_ms + 1)
        return self.asked()

    def asked(self) -> list[list[int]]:
        return [[int(m.broker_id) for m in asked.isr] for asked in self.node.proposals]


@asynccontextmanager
async def led(tmp_path: Path, *, isr: tuple[int, ...] = (1, 2)) -> AsyncIterator[Led]:
    """Broker 1 leads; its followers are the test's."""
    settings = {"replica_lag_time_max_ms": str(LAG_S * 1000)}
    clock = HandClock()
    async with run_node(tmp_path / "1", 1, None, clock, **settings) as node:
        await decide(state(1, epoch=0, isr=isr, replicas=(1, 2)), node)
        yield Led(node, clock)


async def test_many_partitions_are_taken_and_answered_in_turns(tmp_path: Path) -> None:
    """None is left out: what does not go into one answer is in a later one."""
    async with led(tmp_path) as at:
        follower = at.follower(2)
        position = Position(0, 0, -1, 0, 1 << 20)
        keys: list[Key] = [(TOPIC_ID, index) for index in range(1, 3 * ANSWERED_MAX)]
        first, turns = await with_turns(follower.name(dict.fromkeys(keys, position)))
        assert turns > len(keys) // AT_ONCE + ANSWERED_MAX // AT_ONCE
        answered = list(first.partitions)
        assert len(answered) == ANSWERED_MAX
        while len(answered) < len(keys):
            more, turns = await with_turns(follower.ask())
            assert 0 < len(more.partitions) <= ANSWERED_MAX
            assert turns > len(more.partitions) // AT_ONCE
            answered += more.partitions
        assert answered == keys


async def test_watermarks_of_many_partitions_come_in_several_answers(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        keys: list[Key] = [(TOPIC_ID, index) for index in range(2 * ANSWERED_MAX)]
        for number in range(1, len(keys)):
            at.node.replicas.partitions[TOPIC_ID, number] = at.node.partition
        try:
            position = Position(0, 0, -1, 0, 1 << 20)
            told = list((await follower.name(dict.fromkeys(keys, position))).partitions)
            assert len(told) == ANSWERED_MAX
            told += (await follower.ask()).partitions
            assert sorted(told) == keys
        finally:
            follower.session.close()
            for number in range(1, len(keys)):
                del at.node.replicas.partitions[TOPIC_ID, number]


async def test_a_wait_for_records_is_told_from_the_work_of_a_fetch(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        (listener,) = [follower.session._partitions]
        await follower.ask(0)
        assert not listener.is_waiting, "a request without a wait"
        follower.write(max_wait_ms=60_000)
        answer = asyncio.create_task(follower.read())
        async with asyncio.timeout(60):
            while not listener.is_waiting:  # noqa: ASYNC110 - nothing tells that it changed
                await asyncio.sleep(0)
        role = check_leader(at.node.partition, None)
        assert list(role.replica_listeners) == [listener]
        assert listener.position(at.node.partition) == 0
        at.append()
        await answer
        assert not listener.is_waiting
        total, local, remote = follower.session._phases[1]
        assert [sum(each.counts) for each in (total, local, remote)] == [2, 2, 2]
        assert total.sum_s == pytest.approx(local.sum_s + remote.sum_s)
        assert remote.sum_s > 0


async def test_errors_of_fetches_are_counted_by_partition(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        await follower.ask(0, epoch=0, key=(TOPIC_ID, 7))
        errors = follower.session._times._errors
        assert errors == {("FetchFollower", UnknownTopicOrPartition.code): 1}


async def test_a_round_in_which_nothing_happens_touches_no_partition(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        await follower.ask(0)
        at.tick()
        known = at.leader.followers[BrokerId(2)]
        for _ in range(5):
            at.clock.now_s += 0.5
            assert (await follower.ask()).partitions == {}
        assert at.leader.followers[BrokerId(2)] is known
        assert len(at.node.replicas.roles.ticks) == 0


async def test_a_follower_that_had_everything_is_no_laggard_when_a_record_comes(
    tmp_path: Path,
) -> None:
    """I-25 (P-56): its session has said so all the time, and not for each partition."""
    async with led(tmp_path) as at:
        follower = at.follower(2)
        await follower.ask(0)
        for _ in range(2 * LAG_S):
            at.clock.now_s += 1
            await follower.ask()
        at.append()
        assert at.tick() == []
        at.clock.now_s += LAG_S + 1
        assert at.tick() == [[1]], "what it asked after that does not say that it holds the record"


async def test_a_follower_that_was_silent_is_a_laggard_when_a_record_comes(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        await at.follower(2).ask(0)
        at.clock.now_s += LAG_S + 1
        assert at.tick() == [], "it holds everything (P-56)"
        at.append()
        assert at.tick() == [[1]]


async def test_a_follower_whose_stream_has_just_ended_is_no_laggard(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        await follower.ask(0)
        at.clock.now_s += LAG_S + 1
        await follower.ask()
        follower.session.close()
        at.append()
        assert at.tick() == []


async def test_a_follower_that_names_an_earlier_position_had_everything_until_then(
    tmp_path: Path,
) -> None:
    """It has cut its log to copy the end of it again."""
    async with led(tmp_path) as at:
        at.append()
        follower = at.follower(2)
        await follower.ask(1)
        at.clock.now_s += LAG_S + 1
        await follower.ask()
        await follower.ask(0)
        assert at.tick() == []


async def test_a_late_request_of_a_stream_before_sets_nobody_back_for_long(tmp_path: Path) -> None:
    """It had waited in a connection that was given up. In an idle partition nothing else would say
    where the follower is, and it would leave the ISR for good (I-25, I-88).
    """
    async with led(tmp_path) as at:
        at.append()
        follower, late = at.follower(2), at.follower(2)
        await follower.ask(0)
        await follower.ask(1)
        await late.ask(0)
        assert at.leader.followers[BrokerId(2)].log_end_offset == 0
        assert (await follower.ask()).partitions == {}
        assert at.leader.followers[BrokerId(2)].log_end_offset == 1
        at.clock.now_s += LAG_S + 1
        assert at.tick() == []


async def test_a_stream_that_says_no_more_does_not_speak_for_its_follower(tmp_path: Path) -> None:
    """The later one is alive: the follower has lost what it had, and names less."""
    async with led(tmp_path) as at:
        at.append()
        before, follower = at.follower(2), at.follower(2)
        await before.ask(0)
        await before.ask(1)
        await follower.ask(0)
        await follower.ask()
        at.tick()
        assert at.leader.followers[BrokerId(2)].log_end_offset == 0


async def test_who_has_everything_is_asked_for_as_soon_as_it_may_join(tmp_path: Path) -> None:
    """I-24: it names no position then, and no record need come."""
    async with led(tmp_path, isr=(1,)) as at, run_node(tmp_path / "2", 2) as other:
        follower = at.follower(2)
        await follower.ask(0)
        assert at.asked() == [], "no push has called broker 2 eligible yet"
        waiting = asyncio.create_task(follower.ask(max_wait_ms=20_000))
        again = state(1, epoch=0, isr=(1,), replicas=(1, 2), partition_epoch=1)
        await decide(again, at.node, known=(other,))
        await eventually(lambda: at.asked() == [[1, 2]], "its session looks again")
        waiting.cancel()


async def test_a_fetch_at_the_logs_end_reads_nothing_and_a_second_look_only_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = Log.read

    def counted(log: Log, start: int, **limits: Any) -> LogRead:
        reads.append(start)
        return read(log, start, **limits)

    monkeypatch.setattr(Log, "read", counted)
    async with led(tmp_path) as at:
        follower = at.follower(2)
        await follower.ask(0)
        assert reads == []
        known = at.leader.followers[BrokerId(2)]
        at.append()
        response = await follower.ask()
        assert len(response.partitions[KEY].records) > 0
        assert reads == [0]
        assert at.leader.followers[BrokerId(2)] is known
        await follower.ask(1)
        assert at.leader.followers[BrokerId(2)].log_end_offset == 1
        assert reads == [0]


async def test_a_follower_is_told_no_watermark_before_its_history_was_looked_at(
    tmp_path: Path,
) -> None:
    """I-13, P-14: it has cut once, parts from its leader still, and another fills the answer."""
    other: Key = (TOPIC_ID, 1)
    alone = state(1, epoch=2, isr=(1,), replicas=(1, 2), min_insync=1)
    parting, sound = Position(2, 9, 1, 0, 1), Position(2, 0, -1, 0, 1)
    async with led(tmp_path, isr=(1,)) as at:
        await decide(replace(alone, partition=1), at.node)
        at.append(0)
        await decide(alone, at.node)
        at.append(1)
        follower = at.follower(2)
        first = await follower.name({other: parting, KEY: parting})
        at.append(0)  # which is committed by that
        second = await follower.name({other: sound, KEY: parting})
    parted = {key: each.diverging for key, each in first.partitions.items()}
    assert parted == {other: (1, 0), KEY: (0, 1)}
    assert second.partitions.keys() == {other}


async def test_a_follower_that_is_ahead_of_its_leaders_news_is_served_when_that_comes(
    tmp_path: Path,
) -> None:
    """It is not refused, and need not ask again and again (P-3)."""
    async with led(tmp_path) as at:
        follower = at.follower(2)
        assert (await follower.ask(0, epoch=1)).partitions == {}
        waiting = asyncio.create_task(follower.ask(max_wait_ms=20_000))
        await decide(state(1, epoch=1, isr=(1, 2), replicas=(1, 2)), at.node)
        await eventually(
            lambda: at.leader.followers[BrokerId(2)].log_end_offset == 0, "it is looked at"
        )
        at.append()
        assert len((await waiting).partitions[KEY].records) > 0


@pytest.mark.parametrize(("reader", "again"), [(2, False), (-1, True)])
async def test_a_follower_is_refused_once_and_a_consumer_until_it_does_something(
    tmp_path: Path, reader: int, again: bool
) -> None:
    async with led(tmp_path) as at:
        asking, unknown = at.follower(reader), (TOPIC_ID, 7)
        refused = (await asking.ask(0, key=unknown)).partitions[unknown].error
        assert isinstance(refused, UnknownTopicOrPartition)
        assert (unknown in (await asking.ask()).partitions) is again


@pytest.mark.parametrize("reader", [2, -1])
async def test_a_segments_end_is_not_waited_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: int
) -> None:
    """It holds less than is asked for, and more stands in the next one."""
    monkeypatch.setattr("strandline_broker.hosts.fetching.session.WAIT_MS_MAX", 600_000)
    async with led(tmp_path) as at:
        at.append()
        at.node.partition.log.roll()
        at.append()
        await at.follower(2).ask(2)
        assert at.node.partition.high_watermark == 2
        asking = at.follower(reader)
        asking.write(0, max_wait_ms=600_000, min_bytes=1 << 20)
        first = asyncio.create_task(asking.read())
        await asyncio.wait([first], timeout=60)
        assert first.done(), "it waits for what no append brings"
        assert len((await first).partitions[KEY].records) > 0
        asking.write(1, max_wait_ms=0, min_bytes=1 << 20)
        assert len((await asking.read()).partitions[KEY].records) > 0


@pytest.mark.parametrize("asleep", [False, True])
async def test_cold_bytes_are_read_beside_the_loop_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asleep: bool
) -> None:
    """P-13. Also if whoever answers sleeps, so that the request itself begins the look."""
    warmed: list[int] = []
    warm = ReplicaManager.warm

    async def noted(manager: ReplicaManager, partition: Partition, offset: int, size: int) -> None:
        warmed.append(offset)
        await warm(manager, partition, offset, size)

    monkeypatch.setattr(ReplicaManager, "warm", noted)
    monkeypatch.setattr(LogReader, "is_hot", lambda *_: False)
    async with led(tmp_path) as at:
        at.append()
        follower = at.follower(2)
        answer = asyncio.create_task(follower.read())
        if asleep:
            await asyncio.sleep(0)
        follower.write(0)
        assert len((await answer).partitions[KEY].records) > 0
        assert warmed == [0]
        await follower.ask(1)
        assert warmed == [0], "nothing is to be read"


async def test_cold_bytes_that_are_damaged_are_refused_in_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream and its other partitions go on (I-7)."""

    async def damaged(*_: object) -> None:
        raise KafkaStorageError("offset 0 is damaged")

    monkeypatch.setattr(ReplicaManager, "warm", damaged)
    monkeypatch.setattr(LogReader, "is_hot", lambda *_: False)
    async with led(tmp_path) as at:
        at.append()
        for reader in (2, -1):
            response = await at.follower(reader).ask(0)
            assert isinstance(response.partitions[KEY].error, KafkaStorageError)


async def test_a_position_that_a_later_role_has_dropped_is_not_called_out_of_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-106 (P-13): the leadership ended, and its log began again, before the disk had a turn."""
    read_cold = ReplicaManager.read_cold
    async with led(tmp_path) as at:

        async def late(
            manager: ReplicaManager, partition: Partition, read: Callable[[], object]
        ) -> object:
            await decide(state(2, epoch=1, isr=(1, 2), replicas=(1, 2)), at.node)
            async with partition.gate:
                await partition.restart_at(5)
            return await read_cold(manager, partition, read)

        monkeypatch.setattr(ReplicaManager, "read_cold", late)
        monkeypatch.setattr(LogReader, "is_hot", lambda *_: False)
        at.append()
        response = await at.follower(-1).ask(0)
        assert isinstance(response.partitions[KEY].error, FencedLeaderEpoch)


async def test_a_request_that_finds_nothing_wakes_nobody_and_news_do_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[None] = []
    end = LongPoll.end

    def counted(poll: LongPoll) -> None:
        if poll.is_asleep:
            woken.append(None)
        end(poll)

    monkeypatch.setattr(LongPoll, "end", counted)
    async with led(tmp_path) as at:
        follower = at.follower(2)
        answer = asyncio.create_task(follower.read())
        await asyncio.sleep(0)
        follower.write(0, max_wait_ms=20_000)
        assert at.leader.followers[BrokerId(2)].log_end_offset == 0, "it was looked at at once"
        assert woken == []
        at.append()
        assert len((await answer).partitions[KEY].records) > 0
        assert len(woken) == 1
        idle = asyncio.create_task(follower.read())
        await asyncio.sleep(0)
        at.append()
        assert len(woken) == 1, "nothing was asked"
        follower.write()
        assert len((await idle).partitions[KEY].records) > 0


async def test_a_request_ends_the_wait_of_the_one_before_it(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        for asleep in (True, False):
            answer = asyncio.create_task(follower.read())
            if asleep:
                await asyncio.sleep(0)
            first = follower.sent
            follower.write(0, max_wait_ms=20_000)
            await asyncio.sleep(0)
            follower.write(max_wait_ms=20_000)
            assert (await answer).correlation_id == first
            follower.write()
            assert [(await follower.read()).correlation_id for _ in range(2)] == [
                first + 1,
                first + 2,
            ]


async def test_what_is_asked_is_answered_before_the_stream_ends(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        answer = asyncio.create_task(follower.read())
        await asyncio.sleep(0)
        follower.write(0, max_wait_ms=20_000)
        follower.session.end()
        assert (await answer).correlation_id == 0
        assert await follower.session.answer() is None
        idle = at.follower(2)
        ended = asyncio.create_task(idle.session.answer())
        await asyncio.sleep(0)
        idle.session.end()
        assert await ended is None


async def test_only_so_many_requests_wait_for_their_turn(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower = at.follower(2)
        for _ in range(REQUESTS_AHEAD_MAX):
            await follower.session.until_fewer()
            follower.write()
        room = asyncio.create_task(follower.session.until_fewer())
        await asyncio.sleep(0)
        assert not room.done()
        await follower.read()
        await asyncio.wait_for(room, 60)


async def test_a_session_at_rest_hears_of_no_deadline_and_waits_its_own(tmp_path: Path) -> None:
    async with led(tmp_path) as at:
        follower, loop = at.follower(2), asyncio.get_running_loop()
        await follower.ask(0, max_wait_ms=20)
        answer = asyncio.create_task(follower.read())
        await asyncio.sleep(0)
        begun_s = loop.time()
        follower.write(max_wait_ms=50)
        await asyncio.wait_for(answer, 60)
        assert loop.time() - begun_s >= 0.05


async def test_news_that_come_while_cold_bytes_are_read_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little for an answer was found by then, and nothing else would end its wait."""
    cold: Key = (TOPIC_ID, 1)
    warm = ReplicaManager.warm
    async with led(tmp_path) as at:
        await decide(replace(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), partition=1), at.node)
        at.append(1)

        async def appended_meanwhile(*args: Any) -> None:
            monkeypatch.setattr(LogReader, "is_hot", lambda *_: True)
            at.append(0)
            await warm(*args)

        monkeypatch.setattr(ReplicaManager, "warm", appended_meanwhile)
        monkeypatch.setattr(LogReader, "is_hot", lambda *_: False)
        follower = at.follower(2)
        await follower.ask(0)
        follower.write(0, max_wait_ms=20_000, key=cold, min_bytes=100)
        response = await asyncio.wait_for(follower.read(), 60)
        assert {len(response.partitions[key].records) > 0 for key in (KEY, cold)} == {True}


async def test_a_session_that_ends_is_not_told_any_more_whoever_has_read_on_it(
    tmp_path: Path,
) -> None:
    async with led(tmp_path) as at:
        reader = at.follower(-1)
        await reader.ask(0)
        reader.broker_id = 2
        await reader.ask(0)
        reader.session.close()
        leading = check_leader(at.node.partition, None)
        assert {**leading.consumer_listeners, **leading.replica_listeners} == {}

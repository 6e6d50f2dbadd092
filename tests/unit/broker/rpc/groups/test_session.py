"""The stream of a member: what is pushed and when, whom it believes, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.groups.commands import BeatAnswer
from strandline_broker.core.groups.consumer.current_assignment import MemberState
from strandline_broker.core.groups.effects import SessionTimer
from strandline_broker.hosts.groups.sessions import MemberStream
from strandline_broker.rpc.groups.session import GroupSessionRpc
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    NotCoordinator,
    StaleMemberEpoch,
    UnknownMemberId,
)
from strandline_proto.v1 import groups_pb2
from support.group_broker import ORDERS_ID, PARTITIONS, WAIT_S, answered, group_broker
from support.group_members import Member, first_member, served
from support.replica_nodes import eventually
from support.scripted_context import ScriptedContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from strandline_broker.core.groups.commands import Command, Reply
    from strandline_proto.v1.services_pb2_grpc import BrokerServiceAsyncStub
    from support.group_broker import GroupBroker

ALL: dict[bytes, tuple[int, ...]] = {ORDERS_ID: tuple(range(PARTITIONS))}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        yield b


@pytest.fixture
async def stub(broker: GroupBroker) -> AsyncIterator[BrokerServiceAsyncStub]:
    async with served(broker) as stub:
        yield stub


async def joined(stub: BrokerServiceAsyncStub, member_id: str, generation: int = 1) -> Member:
    member = Member(stub, member_id, generation)
    await member.beat()
    await member.hears()
    return member


async def test_who_joins_hears_what_it_owns_with_the_offsets_to_begin_at(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    await answered(broker.commit(7, partition=2))
    member = Member(stub, "m1")
    seq = await member.beat()
    said = await member.hears()
    assert (said.push, said.answers_seq, said.heartbeat.member_epoch) == (1, seq, 1)
    assert member.owned == ALL
    (topic,) = said.committed_offsets
    assert [(p.partition, p.committed_offset) for p in topic.partitions] == [
        (0, -1),
        (1, -1),
        (2, 7),
        (3, -1),
    ]


async def test_a_second_member_is_given_what_the_first_gives_up(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    first = await joined(stub, "m1")
    second = await joined(stub, "m2")
    assert second.owned == {}
    told = await first.hears()
    assert told.answers_seq == 0, "it did not ask"
    assert len(first.owned[ORDERS_ID]) == 2
    await first.beat()
    await first.hears()
    await second.hears()
    assert sorted((*first.owned[ORDERS_ID], *second.owned[ORDERS_ID])) == [0, 1, 2, 3]
    assert (first.epoch, second.epoch) == (2, 2)


async def test_nothing_is_pushed_before_it_is_committed(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1)
        member = Member(stub, "m1")
        await member.beat()
        hears = asyncio.ensure_future(member.hears())
        await eventually(lambda: b.partition.log.log_end_offset > 0, "it is in the log")
        await b.turns()
        assert not hears.done()
        b.replicate()
        assert (await hears).push == 1


async def test_what_is_sent_is_what_holds_when_it_is_sent(tmp_path: Path) -> None:
    """The grant was parked, and was taken back meanwhile: it is never seen (P-144)."""
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1)
        first = Member(stub, "m1")
        await first.beat()
        await eventually(lambda: b.partition.log.log_end_offset > 0, "m1 is in the log")
        end = b.partition.log.log_end_offset
        b.beat("m2")
        assert b.partition.log.log_end_offset > end
        b.replicate()
        said = await first.hears()
        assert said.heartbeat.member_epoch == 1
        assert len(first.owned[ORDERS_ID]) == 2, "what m2 is to have was never granted"


async def test_no_later_push_is_sent_before_it_is_committed_either(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1)
        first = Member(stub, "m1")
        await first.beat()
        await eventually(lambda: b.partition.log.log_end_offset > 0, "m1 is in the log")
        b.replicate()
        await first.hears()
        b.beat("m2")
        hears = asyncio.ensure_future(first.hears())
        for _ in range(5):  # what was sent before would be there by now
            await stub.FindCoordinator(groups_pb2.FindCoordinatorRequest(coordinator_keys=["g"]))
        assert not hears.done()
        b.replicate()
        assert len((await hears).heartbeat.assignment.topic_partitions[0].partitions) == 2


async def test_an_offset_that_is_not_committed_comes_with_no_grant(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1)
        member = Member(stub, "m1")
        await member.beat()
        await eventually(lambda: b.partition.log.log_end_offset > 0, "m1 is in the log")
        end = b.partition.log.log_end_offset
        b.commit(7, member_id="m1", epoch=1)
        assert b.partition.log.log_end_offset > end
        b.replicate(end)
        said = await member.hears()
        assert member.owned == ALL
        assert list(said.committed_offsets) == []


async def test_a_list_from_before_a_grant_frees_nothing(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    first = await joined(stub, "m1")
    await joined(stub, "m2")
    async with asyncio.timeout(60):
        await first.call.read()  # to give two up; it has not looked at it
    await first.beat(owned={}, seen=1)
    said = await first.hears()
    assert said.heartbeat.error_code == 0, "it is not fenced for crossing"
    group = broker.host.groups.table.consumer["g"]
    assert group.current("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.current("m2").assigned == {}


async def test_what_is_told_again_does_not_cross_the_acknowledgement_of_it(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    """Or each acknowledgement would be answered by what the next one crosses, and so for ever."""
    first = await joined(stub, "m1")
    second = await joined(stub, "m2")
    await first.beat(owned=ALL, seen=1)  # crosses the push that takes two away, and has it repeated
    assert (await first.hears()).push == 2
    await first.beat(seen=2)
    assert (await first.hears()).heartbeat.HasField("assignment"), "it is said again"
    async with asyncio.timeout(WAIT_S):
        while not second.owned:
            await second.hears()
    assert sorted((*first.owned[ORDERS_ID], *second.owned[ORDERS_ID])) == [0, 1, 2, 3]


async def test_an_acknowledgement_that_crosses_a_repetition_is_believed(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    first = await joined(stub, "m1")
    await joined(stub, "m2")
    await first.beat(owned=ALL, seen=1)
    assert [(await first.hears()).push for _ in range(2)] == [2, 3], "it is said again"
    seq = await first.beat(seen=2)
    while (await first.hears()).answers_seq != seq:
        pass
    assert broker.host.groups.table.consumer["g"].current("m1").state is MemberState.STABLE


async def test_a_commit_is_answered_on_the_stream(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    seq = await member.commit(5)
    said = await member.hears()
    assert (said.push, said.answers_seq, said.HasField("heartbeat")) == (0, seq, False)
    assert said.commit.topics[0].partitions[0].error_code == 0
    assert await broker.fetch() == 5
    await member.commit(6, epoch=0)
    said = await member.hears()
    assert StaleMemberEpoch.code in (
        said.commit.error_code,
        *(p.error_code for t in said.commit.topics for p in t.partitions),
    )


async def test_who_commits_is_heard_of_while_its_last_commit_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one waits for that, and its sender is none the less alive (I-179)."""
    async with group_broker(tmp_path) as b, served(b) as stub:
        member = await first_member(b, stub)
        commits: list[asyncio.Future[Reply]] = []
        heard: list[tuple[str, list[bool]]] = []
        submit = b.host.submit

        def submitted(command: Command) -> asyncio.Future[Reply]:
            commits.append(submit(command))
            return commits[-1]

        def hears(group_id: str, member_id: str) -> None:
            heard.append((member_id, [commit.done() for commit in commits]))

        monkeypatch.setattr(b.host, "submit", submitted)
        monkeypatch.setattr(b.host, "heard", hears)
        await member.commit(5)
        answer = asyncio.ensure_future(member.hears())
        await member.commit(6)
        await eventually(lambda: len(heard) == 2, "the second is read")
        assert heard == [("m1", []), ("m1", [False])], "the first hangs"
        assert not answer.done(), "it hangs"
        answer.cancel()


async def test_a_commit_that_follows_no_push_of_its_stream_is_refused(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    """It may have been on its way for long, and its member may have committed more elsewhere."""
    first = await joined(stub, "m1")
    await first.commit(9)
    await first.hears()
    late = Member(stub, "m1", generation=2)
    late.epoch = 1
    await late.beat(owned=ALL, full=True)
    await late.commit(2)
    said = await late.hears()
    while said.heartbeat.error_code == 0:
        said = await late.hears()
    assert said.heartbeat.error_code == InvalidRequest.code
    assert "after its first push" in said.heartbeat.error_message
    assert await broker.fetch() == 9


async def test_the_end_of_a_stream_changes_nothing(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    end = broker.partition.log.log_end_offset
    member.call.cancel()
    await eventually(lambda: len(broker.host.sessions) == 0, "the stream is closed")
    assert broker.partition.log.log_end_offset == end
    assert broker.host.members() == 1
    assert broker.host.groups.table.consumer["g"].members.keys() == {"m1"}


async def test_an_open_stream_keeps_no_session(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    broker.shard.on_timer(SessionTimer("g", "m1"), -1)
    said = await member.hears()
    assert said.heartbeat.error_code == UnknownMemberId.code
    await member.ends()
    assert broker.host.members() == 0


async def test_a_newer_stream_replaces_the_older_one(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    old = await joined(stub, "m1", generation=4)
    new = Member(stub, "m1", generation=5)
    await new.beat(old.epoch, owned=old.owned, full=True)
    said = await new.hears()
    assert (said.push, said.heartbeat.error_code) == (1, 0)
    await old.ends()
    await joined(stub, "m2")
    assert len((await new.hears()).heartbeat.assignment.topic_partitions[0].partitions) == 2


async def test_a_stream_that_is_not_newer_is_refused(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    old = await joined(stub, "m1", generation=4)
    late = Member(stub, "m1", generation=4)
    await late.beat(old.epoch)
    said = await late.hears()
    assert said.heartbeat.error_code == InvalidRequest.code
    assert "generation 4" in said.heartbeat.error_message
    await late.ends()
    await old.beat()
    assert (await old.hears()).heartbeat.error_code == 0


async def test_who_leaves_is_told_so_and_the_stream_ends(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    seq = await member.beat(-1)
    said = await member.hears()
    assert (said.answers_seq, said.heartbeat.member_epoch) == (seq, -1)
    await member.ends()
    assert broker.host.members() == 0


async def test_a_lost_leadership_ends_every_stream(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    await broker.follow(2)
    said = await member.hears()
    assert (said.answers_seq, said.heartbeat.error_code) == (0, NotCoordinator.code)
    await member.ends()


async def test_a_stream_is_held_while_its_shard_is_loaded(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1)
        b.commit(5)
        await b.follow(2)
        await b.lead(3)
        patient = Member(stub, "m1")
        await patient.beat()
        said = await patient.hears()
        assert said.heartbeat.error_code == CoordinatorLoadInProgress.code
        await patient.ends()
        served_now = Member(stub, "m1")
        await served_now.beat()
        b.replicate()
        await eventually(lambda: b.host.members() == 1, "it has joined")
        b.replicate()
        assert (await served_now.hears()).heartbeat.error_code == 0


async def test_a_unary_heartbeat_closes_the_stream(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    request = groups_pb2.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m1", member_epoch=1, rebalance_timeout_ms=-1
    )
    answer = await stub.ConsumerGroupHeartbeat(request)
    assert (answer.error_code, answer.member_epoch) == (0, 1)
    assert not answer.HasField("assignment")
    await member.ends()


async def test_a_stream_speaks_of_one_member(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    member = await joined(stub, "m1")
    member.member_id = "m2"
    await member.beat(0)
    said = await member.hears()
    assert said.heartbeat.error_code == InvalidRequest.code
    assert "'m1'" in said.heartbeat.error_message
    await member.ends()
    assert broker.host.members() == 1


async def test_a_member_that_takes_nothing_holds_one_mark(broker: GroupBroker) -> None:
    wakes: list[None] = []
    await answered(broker.beat("m1"))
    stream = MemberStream(
        broker.host, generation=1, group_id="g", member_id="m1", wake=lambda: wakes.append(None)
    )
    broker.host.sessions.open(stream)
    for number in range(2, 6):
        await answered(broker.beat(f"m{number}"))
    said = stream.next()
    assert said is not None
    assert isinstance(said.reply, BeatAnswer)
    assert (said.push, said.reply.assignment) == (1, {ORDERS_ID: (0, 1)}), "as it stands now"
    assert stream.next() is None
    assert len(wakes) > 1


async def test_a_heartbeat_takes_no_news_with_it(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    """It is read while a push to its member is being sent, and the news waits for its turn."""
    requests: asyncio.Queue[groups_pb2.GroupSessionRequest] = asyncio.Queue()
    member, context = Member(stub, "m1"), ScriptedContext()

    async def said() -> AsyncIterator[groups_pb2.GroupSessionRequest]:
        while True:
            yield await requests.get()

    def given() -> list[tuple[int, ...]]:
        topics = [t for w in context.written for t in w.heartbeat.assignment.topic_partitions]
        return [tuple(topic.partitions) for topic in topics]

    await answered(broker.beat("m0"))
    stream = asyncio.create_task(GroupSessionRpc(broker.shards).GroupSession(said(), context))
    requests.put_nowait(member.message())
    await eventually(lambda: len(context.written) == 1, "m1 has joined")
    context.takes.clear()
    requests.put_nowait(member.message(2, seen=1))
    await broker.turns()
    await answered(broker.beat("m0", 1, owned={ORDERS_ID: (0, 1)}))
    requests.put_nowait(member.message(2, seen=1))
    await broker.turns()
    assert given() == []
    context.takes.set()
    await eventually(lambda: given() == [(2, 3)], "m1 hears of what m0 has given up")
    stream.cancel()
    await asyncio.gather(stream, return_exceptions=True)


async def test_a_stream_that_does_not_drain_is_cut_and_its_member_stays(tmp_path: Path) -> None:
    """It says that it lives, and takes nothing of what it is told."""
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1, isr=(1,))
        b.host.context.session_s = 0.1
        member, context = Member(stub, "m1"), ScriptedContext()
        context.takes.clear()

        async def said() -> AsyncIterator[groups_pb2.GroupSessionRequest]:
            while True:
                yield member.message()
                await asyncio.sleep(0)

        async with asyncio.timeout(WAIT_S):
            await GroupSessionRpc(b.shards).GroupSession(said(), context)
        assert context.written == []
        assert len(b.host.sessions) == 0
        assert b.host.members() == 1


class FailingContext(ScriptedContext):
    """The call ends at the second message, and something happens before its handler hears of it."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    async def write(self, response: object) -> None:
        if self.written:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._meanwhile)
            raise asyncio.InvalidStateError("the call has ended")
        await super().write(response)


async def test_news_for_a_stream_that_has_just_failed_are_nobodys(
    broker: GroupBroker, stub: BrokerServiceAsyncStub
) -> None:
    """Else the shard fails, which goes on with what was committed for all its members."""
    happened = []

    def news() -> None:
        (stream,) = streams
        stream.mark()
        happened.append("news")

    member, context = Member(stub, "m1"), FailingContext(news)

    async def said() -> AsyncIterator[groups_pb2.GroupSessionRequest]:
        yield member.message()
        await eventually(lambda: context.written, "m1 has joined")
        yield member.message(1, seen=1)
        await asyncio.get_running_loop().create_future()

    streams: list[MemberStream] = []
    opens = broker.host.sessions.open

    def opened(stream: MemberStream) -> None:
        streams.append(stream)
        opens(stream)

    broker.host.sessions.open = opened  # type: ignore[method-assign]
    with pytest.RaisesGroup(asyncio.InvalidStateError):
        async with asyncio.timeout(WAIT_S):
            await GroupSessionRpc(broker.shards).GroupSession(said(), context)
    assert happened == ["news"]

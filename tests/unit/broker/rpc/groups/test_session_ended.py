"""What becomes of what a member has asked for once its stream has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import BeatAnswer
from strandline_broker.rpc.groups.session import GroupSessionRpc
from strandline_proto.errors import InvalidRequest, NotCoordinator
from support.group_broker import answered, group_broker
from support.group_members import Member, first_member, served
from support.replica_nodes import eventually
from support.scripted_context import ScriptedContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from strandline_proto.v1 import groups_pb2


async def test_a_commit_that_is_done_when_its_stream_has_ended_is_told_to_nobody(
    tmp_path: Path,
) -> None:
    """It once took the broker's process with it, where a beat came late in the same way."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    async with group_broker(tmp_path) as b, served(b) as stub:
        member = await first_member(b, stub)
        end = b.partition.log.log_end_offset
        await member.commit(5)
        await eventually(lambda: b.partition.log.log_end_offset > end, "its commit is in the log")
        member.call.cancel()
        await eventually(lambda: len(b.host.sessions) == 0, "its stream has ended")
        b.replicate()
        await b.turns()
    assert complaints == []


async def test_a_commit_that_waits_for_its_turn_as_its_stream_is_replaced_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-177: the one before it is committed in the moment in which a newer stream comes."""
    async with group_broker(tmp_path) as b, served(b) as stub:
        member = await first_member(b, stub)
        heard: list[str] = []
        monkeypatch.setattr(b.host, "heard", lambda group_id, member_id: heard.append(member_id))
        for offset in (5, 6):
            await member.commit(offset)
        await eventually(lambda: heard == ["m1", "m1"], "the second waits for the first")
        [stream] = b.host.sessions._streams.values()
        end = b.partition.log.log_end_offset
        b.replicate()
        stream.supersede()
        await b.turns()
        assert b.partition.log.log_end_offset == end
        assert await b.fetch() == 5


async def test_news_in_the_moment_of_its_end_do_not_break_a_stream(tmp_path: Path) -> None:
    """The shard goes, and another stream of the member has just taken its place."""
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1, isr=(1,))
        member, context = Member(stub, "m1"), ScriptedContext()

        async def said() -> AsyncIterator[groups_pb2.GroupSessionRequest]:
            yield member.message()
            await asyncio.Event().wait()

        ended = asyncio.create_task(GroupSessionRpc(b.shards).GroupSession(said(), context))
        await eventually(lambda: len(context.written) == 1, "it has joined")
        [stream] = b.host.sessions._streams.values()
        gone = NotCoordinator("as scripted")
        for _ in range(10):
            stream.end(gone)
            await asyncio.sleep(0)
        await ended
        assert [w.heartbeat.error_code for w in context.written] == [0, gone.code]


async def test_what_an_older_stream_said_counts_for_nothing_once_a_newer_one_has_ended(
    tmp_path: Path,
) -> None:
    """It was held on its way, and says of a member that owns everything that it owns nothing."""
    async with group_broker(tmp_path) as b, served(b) as stub:
        await b.lead(1, isr=(1,))
        member = Member(stub, "m1", generation=2)
        await member.beat()
        await member.hears()
        member.call.cancel()
        await eventually(lambda: len(b.host.sessions) == 0, "its stream has ended")
        late = Member(stub, "m1", generation=1)
        await late.beat()
        said = await late.hears()
        assert said.heartbeat.error_code == InvalidRequest.code
        joined = await answered(b.beat("m2"))
        assert isinstance(joined, BeatAnswer)
        assert joined.assignment == {}, "m1 has given up nothing"
        await answered(b.beat("m1", -1))
        again = Member(stub, "m1", generation=1)
        await again.beat()
        assert (await again.hears()).heartbeat.error_code == 0, (
            "of a member that left nothing stays"
        )

"""The path of a heartbeat through a shard of groups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import BeatAnswer, ConsumerBeat
from strandline_broker.hosts.coordination.shard_host import ShardHost
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_broker.hosts.groups.sessions import MemberStream, StreamBeat
from strandline_broker.hosts.serving.groups import GroupsService
from support.group_broker import answered, group_broker

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from strandline_broker.core.groups.commands import Reply

BEAT = ConsumerBeat(group_id="g", member_id="m1", member_epoch=1)


class Entries:
    """Counts the calls of a shard's host from outside of it, and the waits that it begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.waits: list[str] = []
        self._depth = 0
        for name, method in vars(ShardHost).items():
            if callable(method) and not name.startswith("_"):
                monkeypatch.setattr(ShardHost, name, self._counted(name, method))
        for name in ("call_later", "create_future"):
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, name, self._waiting(name, getattr(loop, name)))

    def _counted(self, name: str, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                self.calls.append(name)
            self._depth += 1
            try:
                return method(*args, **kwargs)
            finally:
                self._depth -= 1

        return call

    def _waiting(self, name: str, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.waits.append(name)
            return method(*args, **kwargs)

        return call


async def test_a_heartbeat_on_a_stream_enters_the_shard_once_and_begins_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        host = b.host
        await answered(b.beat("m1"))
        stream = MemberStream(host, generation=1, group_id="g", member_id="m1", wake=lambda: None)
        host.sessions.open(stream)
        last: list[Reply] = []
        entries = Entries(monkeypatch)
        host.ask(BEAT, StreamBeat(host, stream, 7, last.append))
        said = stream.next()
        assert said is not None
        assert isinstance(said.reply, BeatAnswer)
        assert (said.answers_seq, said.reply.member_epoch, last) == (7, 1, [])
        assert (entries.calls, entries.waits) == (["ask"], [])


async def test_a_heartbeat_without_a_stream_enters_the_shard_once_and_begins_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.beat("m1"))
        service = GroupsService(b.shards)
        entries = Entries(monkeypatch)
        reply = await service.beat(BEAT)
        assert isinstance(reply, BeatAnswer)
        assert reply.member_epoch == 1
        assert (entries.calls, entries.waits) == (["ask"], [])


async def test_an_uncommitted_heartbeat_on_a_stream_waits_in_its_slot_without_a_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        joined = b.beat("m1")
        host, wakes = b.host, [0]

        def wake() -> None:
            wakes[0] += 1

        stream = MemberStream(host, generation=1, group_id="g", member_id="m1", wake=wake)
        host.sessions.open(stream)
        parked: list[Asked[Reply]] = []
        monkeypatch.setattr(Asked, "parked", parked.append)
        host.ask(BEAT, StreamBeat(host, stream, 7, lambda reply: None))
        assert (stream.next(), wakes, parked) == (None, [1], [])
        b.replicate()
        assert wakes == [2]
        said = stream.next()
        assert said is not None
        assert said.answers_seq == 7
        await answered(joined)

"""The coordinators' runtime under an application that has nothing of groups: named counters."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest

from strandline_broker.core.coordination.decision import Decision, Record
from strandline_broker.hosts.coordination.registry import Shards
from strandline_broker.hosts.coordination.shard_code import ShardCode
from strandline_broker.hosts.coordination.shard_context import LoadSettings
from strandline_broker.hosts.coordination.shard_host import ShardHost
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    NotCoordinator,
    RecordTooLarge,
    WireError,
)
from support.group_broker import WAIT_S, group_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
    from pathlib import Path

    from strandline_broker.core.coordination.application import Application
    from strandline_broker.core.coordination.decision import Entity
    from strandline_proto.ids import Offset
    from support.group_broker import GroupBroker


class Add(NamedTuple):
    """Adds to a counter; the answer is its value. Nothing is added for 0, which only reads."""

    name: str
    number: int


class Counts:
    """The state: an `int` for each name."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def replay(self, offset: Offset, record: Record) -> None:
        self.values[record.key] = record.value

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        return record.key.encode(), struct.pack(">i", record.value)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return None if value is None else Record(key.decode(), struct.unpack(">i", value)[0])

    def entities(self, records: Iterable[Record]) -> set[Entity]:
        return {record.key for record in records}


class Counters:
    def __init__(self, shard: ShardHost[Counters]) -> None:
        self.shard = shard
        self.state = Counts()
        self.effects: list[str] = []

    def decide(self, command: Add) -> Decision[int, str]:
        value = self.state.values.get(command.name, 0) + command.number
        records = (Record(command.name, value),) if command.number else ()
        return Decision(records, value, (f"{command.name}={value}",), about=command.name)

    def only_reads(self, command: Add) -> bool:
        return command.number == 0

    def is_undone(self, command: Add) -> bool:
        return True

    def too_large(self, what: str) -> WireError:
        return RecordTooLarge(what)

    def refused(self, command: Add) -> None: ...

    def appended(self, records: Sequence[Record]) -> None: ...

    def carry_out(self, command: Add, effects: Iterable[str]) -> None:
        self.effects += effects

    def on_timer(self, key: Hashable, epoch: int) -> Add:
        return Add(str(key), epoch)

    def loaded(self, took_s: float) -> None: ...

    def serves(self) -> None:
        self.effects.append("serves")

    def dropped(self, error: WireError) -> None:
        self.state = Counts()


class Counting:
    """The counters' side of the registry."""

    noun = "counter"
    code = ShardCode(lambda: None)
    shards: Callable[[], list[Counters]]

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def check_name(self, name: str) -> None: ...

    def loads(self) -> LoadSettings:
        return LoadSettings(1 << 20, (), "")

    def new(self, shard: ShardHost[Counters]) -> Counters:
        return Counters(shard)

    def topics_changed(self) -> None: ...

    def tasks(self) -> Iterable[tuple[str, Coroutine[None, None, None]]]:
        return ()


def counters(b: GroupBroker) -> ShardHost[Counters]:
    """A shard of counters over the test's log, which is empty or has only their records."""
    host = ShardHost(b.shard.context, b.partition, Counters)
    is_one: Application[Add] = host.application
    assert is_one is host.application
    return host


def ask(host: ShardHost[Counters], command: Add) -> Asked[int]:
    asked: Asked[int] = Asked(host, WAIT_S)
    host.ask(command, asked)
    return asked


async def test_an_answer_waits_for_its_records_and_a_read_for_those_of_its_entity(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1)
        host = counters(b)
        host.elected(1, 0)
        added, read, other = (ask(host, Add(*each)) for each in (("a", 2), ("a", 0), ("b", 0)))
        assert (added.is_answered, read.is_answered) == (False, False)
        assert (other.is_answered, other.reply) == (True, 0)
        b.replicate()
        host.committed(b.partition.high_watermark)
        assert (await added.answered(), await read.answered()) == (2, 2)
        assert host.application.effects == ["serves", "a=2", "a=2", "b=0"]


async def test_the_state_is_the_fold_of_the_log(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        host = counters(b)
        host.elected(1, 0)
        for number in (2, 3):
            ask(host, Add("a", number))
        host.resigned(1)
        assert host.application.state.values == {}
        with pytest.raises(NotCoordinator):
            host.run(Add("a", 1))
        host.elected(1, 2)
        lost = ask(host, Add("a", 1))
        assert isinstance(lost.reply, NotCoordinator), "an epoch has one leadership"
        again = counters(b)
        again.elected(1, b.partition.log.log_end_offset)
        await again.settled(WAIT_S)
        assert again.application.state.values == {"a": 5}


async def test_a_timer_is_a_command_of_the_application(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        host = counters(b)
        host.elected(1, 0)
        host.on_timer("a", 7)
        assert host.application.state.values == {"a": 7}


async def test_a_decision_beyond_a_batch_is_refused_as_the_application_says(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        host = counters(b)
        host.elected(1, 0)
        asked = ask(host, Add("a" * (b.partition.max_message_bytes + 1), 1))
        assert isinstance(asked.reply, RecordTooLarge)
        assert host.application.state.values == {}


async def test_a_registry_serves_any_application_of_its_own_topic(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        runtime = b.shard.context.runtime
        other = Shards(runtime, 1, b.metadata, Counting("__counters"))
        other.elected(b.partition, 1, 0)
        with pytest.raises(CoordinatorNotAvailable, match="__counters is not made yet"):
            other.of("a")
        shards = Shards(runtime, 1, b.metadata, Counting(b.partition.log.topic))
        running = asyncio.ensure_future(shards.run(b.replicas.dirs))
        await b.turns()
        with pytest.raises(NotCoordinator, match="does not coordinate counter 'a'"):
            shards.of("a")
        shards.elected(b.partition, 1, 0)
        assert shards.of("a").shard.run(Add("a", 3)) == 3
        assert [found.state.values for found in shards.applications()] == [{"a": 3}]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_answer_at_once_costs_neither_future_nor_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        host = counters(b)
        host.elected(1, 0)
        asked: Asked[int] = Asked(host, WAIT_S)
        made: list[str] = []
        monkeypatch.setattr(Asked, "parked", lambda self: made.append("timer"))
        monkeypatch.setattr(Asked, "answer", property(lambda self: made.append("future")))
        host.ask(Add("a", 0), asked)
        assert await asked.answered() == 0
        assert made == []

"""The limits that Kafka connections share: their number, and the bytes of their requests."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from strandline_broker.kafka.limits import (
    CHUNK_BYTES,
    ConnectionLimits,
    Held,
    Limits,
    RequestMemory,
)
from strandline_broker.kafka.request import CloseConnection
from strandline_broker.kafka.versions import BY_KEY, Api
from strandline_broker.kafka.wire import MalformedRequest
from support.kafka_frames import METADATA, PRODUCE, OneConnection, frame


def limits(connections: int = 9, per_ip: int = 9, descriptors: int = 9) -> ConnectionLimits:
    return ConnectionLimits(connections=connections, per_ip=per_ip, descriptors=descriptors)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (limits(connections=2), "2 connections are open, as many as max.connections allows"),
        (limits(per_ip=2), "a has 2 connections, as many as max.connections.per.ip allows"),
        (limits(descriptors=2), "take 2 file descriptors, their whole share"),
    ],
)
def test_a_connection_above_a_limit_is_refused_with_the_key(
    found: ConnectionLimits, why: str
) -> None:
    assert [found.admit("a"), found.admit("a")] == [None, None]
    refused = found.admit("a")
    assert refused is not None
    assert why in refused
    assert found.open == 2
    found.release("a")
    assert found.admit("a") is None


def test_metrics_show_what_of_the_limits_is_used() -> None:
    registry = CollectorRegistry()
    shared = Limits(limits(), RequestMemory(100))
    shared.report(registry)
    shared.connections.admit("a")
    held = shared.memory.hold()
    held.add(7)
    assert registry.get_sample_value("strandline_kafka_connections") == 1
    assert registry.get_sample_value("strandline_kafka_request_bytes") == 7
    held.release()
    assert registry.get_sample_value("strandline_kafka_request_bytes") == 0


def test_the_limit_of_an_address_is_its_own() -> None:
    found = limits(per_ip=1)
    assert [found.admit(host) for host in ("a", "b", "c")] == [None] * 3
    assert found.admit("b") is not None


def test_a_connection_that_is_passed_on_takes_two_descriptors() -> None:
    found = limits(descriptors=3)
    assert [found.admit("a"), found.admit_onward(), found.admit("a")] == [None] * 3
    assert found.admit_onward() is not None
    assert found.admit("b") is not None
    found.release_onward()
    assert found.admit("b") is None


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, name in ((PRODUCE, "Produce"), (METADATA, "Metadata")):
        monkeypatch.setitem(BY_KEY, key, Api(key, name, 0, 8, 100))


LIMIT = 4 * CHUNK_BYTES
LARGE = bytes(3 * CHUNK_BYTES)


class Crowd:
    """Connections that share one memory."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self.memory = RequestMemory(LIMIT)
        self.members: list[OneConnection] = []

    def member(self) -> OneConnection:
        self.members.append(OneConnection(self._group, self.memory))
        return self.members[-1]


@pytest.fixture
async def crowd() -> AsyncIterator[Crowd]:
    async with asyncio.TaskGroup() as group:
        found = Crowd(group)
        yield found
        for member in found.members:
            await member.end()
    assert found.memory.used == 0


async def test_the_bytes_of_a_request_are_held_until_its_answer_leaves(crowd: Crowd) -> None:
    one = crowd.member()
    await one.send(frame(PRODUCE, 1, body=LARGE), frame(PRODUCE, 2))
    assert crowd.memory.used == len(frame(PRODUCE, 1, body=LARGE) + frame(PRODUCE, 2)) - 8
    await one.finish(2)
    assert one.answered() == []
    await one.finish(1)
    assert crowd.memory.used == 0


async def test_a_declared_length_holds_nothing(crowd: Crowd) -> None:
    for _ in range(50):
        await crowd.member().send(frame(PRODUCE, 1, body=LARGE)[:4])
    assert crowd.memory.used == 0
    one = crowd.member()
    await one.send(frame(PRODUCE, 1, body=LARGE))
    assert one.handlers.begun == [1]


async def test_a_request_that_must_not_be_large_is_refused_before_it_is_read(crowd: Crowd) -> None:
    one = crowd.member()
    data = frame(METADATA, 1, body=bytes(2 << 20))
    for at in range(6):
        await one.send(data[at : at + 1])
    assert isinstance(one.ended_with, MalformedRequest)
    assert "Metadata has 2097163 bytes; a request without records has at most 1048576" in str(
        one.ended_with
    )


async def test_at_the_limit_no_connection_reads_on_until_an_answer_leaves(crowd: Crowd) -> None:
    one, two, three = crowd.member(), crowd.member(), crowd.member()
    await one.send(frame(PRODUCE, 1, body=LARGE))
    await two.send(frame(PRODUCE, 2, body=LARGE))
    await three.send(frame(PRODUCE, 3))
    assert two.handlers.begun == three.handlers.begun == []
    assert LIMIT <= crowd.memory.used < LIMIT + CHUNK_BYTES
    await one.finish(1)
    assert two.handlers.begun == [2]
    assert three.handlers.begun == [3]


async def test_requests_that_fill_the_memory_by_halves_come_whole_one_after_the_other(
    crowd: Crowd,
) -> None:
    """No request is complete that could give bytes back."""
    members = [crowd.member() for _ in range(4)]
    whole = frame(PRODUCE, 1, body=LARGE)
    half = len(whole) // 2
    for member in members:
        await member.send(whole[:half])
    assert crowd.memory.used >= LIMIT
    for member in members:
        await member.send(whole[half:])
    begun = [member for member in members if member.handlers.begun]
    assert len(begun) == 1
    assert crowd.memory.used < LIMIT + len(whole) + len(members) * CHUNK_BYTES
    while begun:
        await begun[0].finish(1)
        begun = [m for m in members if m.handlers.begun and not m.answered()]
    assert [member.answered() for member in members] == [[1]] * 4


async def test_a_connection_that_ends_gives_back_the_bytes_of_its_half_request(
    crowd: Crowd,
) -> None:
    one, two = crowd.member(), crowd.member()
    await one.send(frame(PRODUCE, 1, body=bytes(2 * LIMIT))[:LIMIT])
    await two.send(frame(PRODUCE, 2, body=LARGE))
    await one.end()
    assert two.handlers.begun == [2]
    await two.finish(2)
    assert crowd.memory.used == 0


async def test_a_connection_that_ends_while_it_waits_for_room_leaves_no_trace(
    crowd: Crowd,
) -> None:
    one, two, three = crowd.member(), crowd.member(), crowd.member()
    await one.send(frame(PRODUCE, 1, body=bytes(LIMIT)))
    await two.send(frame(PRODUCE, 2))
    await three.send(frame(PRODUCE, 3))
    two.served.cancel()
    await two.settle()
    await one.finish(1)
    assert three.handlers.begun == [3]
    assert two.handlers.begun == []


async def waiting(memory: RequestMemory) -> tuple[Held, asyncio.Task[None]]:
    """A request that waits for room."""
    held = memory.hold()
    task = asyncio.create_task(held.room())
    await asyncio.sleep(0)
    return held, task


async def test_the_next_is_read_to_its_end_if_the_one_that_was_to_be_read_ends() -> None:
    memory = RequestMemory(LIMIT)
    filling = memory.hold()
    filling.add(2 * LIMIT)
    first, first_task = await waiting(memory)
    _, second_task = await waiting(memory)
    await asyncio.wait_for(first_task, 60)  # no request is complete, so that it need not wait
    assert not second_task.done()
    first.add(CHUNK_BYTES)
    first.release()
    await asyncio.wait_for(second_task, 60)
    assert memory.used == 2 * LIMIT


async def test_a_request_that_has_ended_takes_no_room_from_those_behind_it() -> None:
    memory = RequestMemory(LIMIT)
    complete, rest = memory.hold(), memory.hold()
    complete.add(CHUNK_BYTES)
    rest.add(LIMIT - CHUNK_BYTES)
    complete.complete()
    rest.complete()
    _, ended = await waiting(memory)
    _, behind = await waiting(memory)
    ended.cancel()
    await asyncio.gather(ended, return_exceptions=True)
    complete.release()  # room for one chunk
    await asyncio.wait_for(behind, 60)


async def test_a_request_that_stops_arriving_ends_its_connection(crowd: Crowd) -> None:
    one = crowd.member()
    await one.send(frame(PRODUCE, 1, body=LARGE)[:1000])
    now_s = asyncio.get_running_loop().time()
    one.connection.end_if_silent(now_s + 29, 1.0)
    await one.settle()
    assert one.ended_with is None
    one.connection.end_if_silent(now_s + 31, 1.0)
    await one.settle()
    assert isinstance(one.ended_with, CloseConnection)
    assert "nothing more for 30 s" in str(one.ended_with)
    assert crowd.memory.used == 0


async def test_a_request_that_comes_slowly_is_not_cut(crowd: Crowd) -> None:
    one = crowd.member()
    data = frame(PRODUCE, 1, body=bytes(100))
    for number in range(len(data)):
        await one.send(data[number : number + 1])
        one.connection.end_if_silent(asyncio.get_running_loop().time() + 29, 1e9)
    await one.settle()
    assert one.handlers.begun == [1]


async def test_a_connection_without_a_request_under_way_is_ended_when_it_is_idle(
    crowd: Crowd,
) -> None:
    one, two = crowd.member(), crowd.member()
    await one.send(frame(METADATA, 1))
    await two.send(frame(METADATA, 1))
    await one.finish(1)
    later_s = asyncio.get_running_loop().time() + 600
    for each in (one, two):
        each.connection.end_if_silent(later_s, 600.0)
        await each.settle()
    assert isinstance(one.ended_with, ConnectionAbortedError)
    assert str(one.ended_with) == "idle for 600 s"
    assert two.ended_with is None

"""One connection of a Kafka client: the order of its requests and answers, and its end."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from strandline_broker.kafka import connection as connection_module
from strandline_broker.kafka.request import CloseConnection, Request
from strandline_broker.kafka.versions import BY_KEY, Api
from strandline_broker.kafka.wire import MalformedRequest
from support.kafka_frames import FETCH, METADATA, PRODUCE, OneConnection, frame


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, name in ((PRODUCE, "Produce"), (FETCH, "Fetch"), (METADATA, "Metadata")):
        monkeypatch.setitem(BY_KEY, key, Api(key, name, 0, 8, 100))


@pytest.fixture
async def one() -> AsyncIterator[OneConnection]:
    async with asyncio.TaskGroup() as group:
        found = OneConnection(group)
        yield found
        found.stream.is_readable.set()
        await found.end()


async def test_produce_requests_are_appended_as_they_arrive(one: OneConnection) -> None:
    await one.send(frame(PRODUCE, 1), frame(PRODUCE, 2), frame(PRODUCE, 3))
    assert one.handlers.begun == [1, 2, 3]


async def test_answers_leave_in_the_order_of_the_requests(one: OneConnection) -> None:
    await one.send(frame(PRODUCE, 1), frame(PRODUCE, 2), frame(PRODUCE, 3))
    await one.finish(3)
    await one.finish(2)
    assert (one.answered(), one.timed) == ([], [])
    await one.finish(1)
    assert one.answered() == [1, 2, 3]
    assert [each.split()[0] for each in one.timed] == ["Produce"] * 3


async def test_a_produce_request_waits_for_the_appends_before_it(one: OneConnection) -> None:
    """P-37. A large or compressed batch is checked on a thread before its append."""
    is_checked, append = asyncio.Event(), one.handlers.append

    async def slow(request: Request, answer: Callable[[list[bytes] | None], None]) -> None:
        if request.header.correlation_id == 1:
            await is_checked.wait()
        await append(request, answer)

    one.handlers.append = slow  # type: ignore[method-assign]
    await one.send(frame(PRODUCE, 1), frame(PRODUCE, 2))
    begun = list(one.handlers.begun)
    is_checked.set()
    await one.settle()
    assert (begun, one.handlers.begun) == ([], [1, 2])


async def test_a_request_without_an_answer_leaves_no_gap(one: OneConnection) -> None:
    await one.send(frame(PRODUCE, 1), frame(PRODUCE, 2), frame(PRODUCE, 3))
    await one.finish(3)
    await one.finish(1)
    await one.finish(2, None)
    assert one.answered() == [1, 3]


async def test_another_request_begins_when_all_before_it_are_answered(one: OneConnection) -> None:
    await one.send(frame(PRODUCE, 1), frame(PRODUCE, 2), frame(METADATA, 3))
    await one.finish(2)
    assert one.handlers.begun == [1, 2]
    await one.finish(1)
    assert one.handlers.begun == [1, 2, 3]
    await one.finish(3)
    assert one.answered() == [1, 2, 3]


async def test_a_produce_request_waits_for_an_earlier_request_of_another_kind(
    one: OneConnection,
) -> None:
    await one.send(frame(METADATA, 1), frame(PRODUCE, 2))
    assert one.handlers.begun == [1]
    await one.finish(1)
    assert one.handlers.begun == [1, 2]


async def test_the_next_request_ends_the_wait_of_an_earlier_fetch(one: OneConnection) -> None:
    await one.send(frame(FETCH, 1))
    hurried = []
    one.handlers.requests[1].on_hurry = lambda: hurried.append(1)
    await one.send(frame(FETCH, 2))
    assert hurried == [1]
    assert one.handlers.requests[1].is_hurried
    assert one.handlers.begun == [1]
    await one.finish(1)
    assert one.handlers.begun == [1, 2]
    assert not one.handlers.requests[2].is_hurried


async def test_a_fetch_that_comes_before_a_further_request_starts_hurried(
    one: OneConnection,
) -> None:
    """The third request has arrived while the second still waits for its turn."""
    await one.send(frame(METADATA, 1), frame(FETCH, 2))
    await one.finish(1)
    assert one.handlers.begun == [1, 2]


async def test_what_waits_is_dropped_with_the_connection(one: OneConnection) -> None:
    ended = []
    await one.send(frame(PRODUCE, 1))
    one.handlers.requests[1].on_end = lambda: ended.append(1)
    await one.end()
    assert ended == [1]
    assert one.served.done()


async def test_a_request_under_way_is_cancelled_with_the_connection(one: OneConnection) -> None:
    await one.send(frame(METADATA, 1))
    await one.end()
    assert one.handlers.cancelled == [1]


async def test_a_failed_request_ends_the_connection_with_its_reason(one: OneConnection) -> None:
    await one.send(frame(METADATA, 1))
    one.handlers.fail(1, CloseConnection("because"))
    await one.settle()
    assert str(one.ended_with) == "because"
    assert one.stream.is_aborted


async def test_a_failure_reaches_the_connection_while_the_next_request_waits(
    one: OneConnection,
) -> None:
    await one.send(frame(METADATA, 1), frame(METADATA, 2))
    one.handlers.fail(1, CloseConnection("because"))
    await one.settle()
    assert str(one.ended_with) == "because"
    assert one.handlers.begun == [1]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (frame(99, 1), "requests of key 99 are not served"),
        (frame(METADATA, 1, version=9), "served in the versions 0 to 8, the request has version 9"),
        (frame(METADATA, 1, body=bytes(1 << 20)), "has 1048587 bytes"),
        (b"\x00\x00\x00\x01\x00", "2 bytes are due at byte 0, and 1 are left"),
    ],
)
async def test_a_request_that_is_none_ends_the_connection(
    one: OneConnection, data: bytes, why: str
) -> None:
    await one.send(data)
    assert isinstance(one.ended_with, MalformedRequest)
    assert why in str(one.ended_with)
    assert one.handlers.begun == []


async def test_no_further_request_is_read_from_a_client_that_leaves_its_answers_unread(
    one: OneConnection,
) -> None:
    await one.send(frame(METADATA, 1))
    one.stream.is_readable.clear()
    await one.finish(1)
    await one.send(frame(PRODUCE, 2), frame(PRODUCE, 3))
    assert one.handlers.begun == [1, 2]
    one.stream.is_readable.set()
    await one.settle()
    assert one.handlers.begun == [1, 2, 3]


async def test_a_client_that_leaves_its_answers_unread_is_cut(
    one: OneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "UNREAD_S", 0.01)
    await one.send(frame(METADATA, 1))
    one.stream.is_readable.clear()
    await one.finish(1)
    await one.served
    assert isinstance(one.ended_with, CloseConnection)
    assert "has not read its answers" in str(one.ended_with)

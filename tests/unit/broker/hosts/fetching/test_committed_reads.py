"""Reads of committed records: their end, the wait for it, and the aborted transactions (I-80,
I-152, P-122).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.common.fetch_messages import FetchRequest, FetchResponse, Position
from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
from strandline_broker.hosts.fetching.session import FetchSession
from strandline_broker.hosts.serving.fetch import SessionlessFetch, Wanted
from strandline_broker.hosts.serving.fetch_range import FetchRangeService
from strandline_broker.hosts.serving.offsets import LATEST, MAX_TIMESTAMP, OffsetsService
from strandline_broker.rpc.records.fetch_codec import response_from_wire, response_to_wire
from strandline_proto.batch import iter_headers
from strandline_proto.errors import NONE, OffsetNotAvailable, UnsupportedVersion
from strandline_proto.hot_messages import FetchRangeRequest, FetchRangeResponse
from support.open_transaction import end, write
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.hosts.common.fetch_messages import FetchedPartition, Key

A, B = 7, 8
KEY: Key = (TOPIC_ID, 0)
WAIT_S = 20.0
COMMITTED = Isolation.READ_COMMITTED


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """Broker 1 leads; broker 2 is in sync and commits what the test says."""
    async with run_node(tmp_path / "1", 1) as node, asyncio.timeout(WAIT_S):
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), node)
        yield node


def commit(node: Node, offset: int | None = None) -> None:
    """Broker 2 has copied everything, or all below `offset`."""
    partition = node.partition
    role, at = partition.role, partition.log.log_end_offset if offset is None else offset
    assert role is not None
    role.on_follower_fetch(  # type: ignore[attr-defined]
        Position(0, at, -1, 0, 1 << 20), broker_id=2, broker_epoch=2
    )


def wanted(start: int, *, level: int = 1, wait_ms: int = 0, min_bytes: int = 1) -> Wanted:
    position = Position(-1, start, -1, 0, 1 << 20)
    return Wanted(wait_ms, min_bytes, 1 << 20, level, [(KEY, position)])


async def fetched(node: Node, asked: Wanted) -> FetchedPartition:
    (found,) = await SessionlessFetch(
        node.metadata, node.replicas, asked, is_hurried=False
    ).answer()
    return found


def offsets(records: object) -> list[int]:
    return [header.base_offset for _, header in iter_headers(records)]  # type: ignore[arg-type]


async def ranged(
    node: Node, stop: int, *, level: int = 1, size: int = 0
) -> list[FetchRangeResponse]:
    request = FetchRangeRequest(TOPIC_ID, 0, -1, 0, stop, level, size)
    return [each async for each in FetchRangeService(node.replicas, node.metadata).read(request)]


async def test_records_of_an_open_transaction_are_not_read(node: Node) -> None:
    write(node.partition, A)
    commit(node)
    found = await fetched(node, wanted(0))
    assert (bytes(found.records), found.offsets) == (b"", (2, 0, 0))
    assert offsets((await fetched(node, wanted(0, level=0))).records) == [0]


async def test_aborted_transactions_are_named_beside_their_records(node: Node) -> None:
    write(node.partition, A)
    write(node.partition, B)
    end(node.partition, A)
    commit(node)
    assert (await fetched(node, wanted(0))).offsets.last_stable == 2
    found = await fetched(node, wanted(0))
    assert (offsets(found.records), found.aborted) == ([0], ((A, 0),))
    end(node.partition, B)
    commit(node)
    assert (await fetched(node, wanted(0))).aborted == ((A, 0), (B, 2))
    assert (await fetched(node, wanted(5))).aborted == ((B, 2),)
    assert (await fetched(node, wanted(0, level=0))).aborted == ()


async def test_a_marker_ends_the_wait_once_it_is_committed(node: Node) -> None:
    """The records and the list are read again after the wait (P-122)."""
    write(node.partition, A)
    commit(node)
    task = asyncio.create_task(fetched(node, wanted(0, wait_ms=15_000)))
    await asyncio.sleep(0)
    write(node.partition, B)
    end(node.partition, A)
    await asyncio.sleep(0)
    assert not task.done()
    commit(node, 4)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done(), "the marker at 4 is not committed (P-115)"
    commit(node)
    found = await task
    assert (offsets(found.records), found.aborted, found.offsets) == ([0], ((A, 0),), (5, 2, 0))


async def test_what_is_too_little_is_read_again_with_its_list(node: Node) -> None:
    """P-122: an abort during the wait is in the list of the answer."""
    write(node.partition, A)
    end(node.partition, A)
    commit(node)
    asked = wanted(0, wait_ms=15_000, min_bytes=300)
    task = asyncio.create_task(fetched(node, asked))
    await asyncio.sleep(0)
    write(node.partition, B, b"x" * 300)
    end(node.partition, B)
    commit(node)
    found = await task
    assert (offsets(found.records), found.aborted) == ([0, 2, 3, 4], ((A, 0), (B, 3)))


def session_of(node: Node) -> FetchSession:
    clock = node.runtime.clock
    throttle = LeaderThrottle(clock, node.replicas.config)
    return FetchSession(
        clock, node.metadata, node.replicas, throttle, RequestTimes(clock), node.broker_id
    )


async def asked(session: FetchSession, number: int, wait_ms: int) -> FetchResponse:
    session.ask(
        FetchRequest(
            correlation_id=number,
            session_id=0,
            session_epoch=number,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            positions={KEY: Position(0, 0, -1, 0, 1 << 20)} if number == 0 else {},
        )
    )
    found = await session.answer()
    assert found is not None
    return found


async def test_a_session_waits_for_the_marker_too_and_its_answer_names_the_aborted(
    node: Node,
) -> None:
    write(node.partition, A)
    commit(node)
    session = session_of(node)
    (first,) = (await asked(session, 0, 0)).partitions.values()
    assert (bytes(first.records), first.offsets) == (b"", (2, 0, 0))
    task = asyncio.create_task(asked(session, 1, 15_000))
    await eventually(lambda: session._partitions.is_waiting, "the request waits")
    end(node.partition, A)
    commit(node)
    answer = await task
    (found,) = answer.partitions.values()
    assert (offsets(found.records), found.aborted) == ([0, 2], ((A, 0),))
    wire = response_to_wire(FetchResponse(1, 1, partitions={KEY: found}))
    (again,) = response_from_wire(wire).partitions.values()
    assert list(again.aborted) == [(A, 0)]


async def test_a_range_ends_at_the_last_stable_offset(node: Node) -> None:
    write(node.partition, A)
    end(node.partition, A)
    write(node.partition, B)
    commit(node)
    (refused,) = await ranged(node, 5)
    assert refused.error_code == OffsetNotAvailable.code
    assert "5 is past the last stable offset 3" in refused.error_message
    assert (refused.high_watermark, refused.last_stable_offset) == (5, 3)
    (found,) = await ranged(node, 3)
    assert (found.error_code, offsets(found.records)) == (NONE, [0, 2])
    assert (found.aborted_transactions, found.last_stable_offset) == ([(A, 0)], 3)
    (plain,) = await ranged(node, 5, level=0)
    assert (plain.error_code, plain.aborted_transactions) == (NONE, [])


async def test_each_message_of_a_range_names_the_aborted_of_its_records(node: Node) -> None:
    write(node.partition, A)
    end(node.partition, A)
    write(node.partition, B)
    end(node.partition, B)
    commit(node)
    messages = await ranged(node, 6, size=1)
    lists = [(each.base_offset, each.aborted_transactions) for each in messages]
    assert lists == [(0, [(A, 0)]), (2, [(A, 0)]), (3, [(B, 3)]), (5, [(B, 3)])]
    assert (await ranged(node, 1))[0].aborted_transactions == [(A, 0)]


async def test_an_unknown_isolation_level_is_refused(node: Node) -> None:
    (refused,) = await ranged(node, 0, level=2)
    assert refused.error_code == UnsupportedVersion.code
    with pytest.raises(UnsupportedVersion):
        await fetched(node, wanted(0, level=2))


async def test_the_latest_offset_of_committed_records_is_the_last_stable_one(node: Node) -> None:
    service = OffsetsService(node.replicas)
    write(node.partition, A)
    commit(node)
    for level, latest, largest in ((COMMITTED, 0, -1), (Isolation.READ_UNCOMMITTED, 2, 0)):
        found = await service.find(KEY, LATEST, current_leader_epoch=None, isolation=level)
        assert found.offset == latest
        found = await service.find(KEY, MAX_TIMESTAMP, current_leader_epoch=None, isolation=level)
        assert found.offset == largest

"""A range is read one message ahead of what is sent, and what was read ahead is sent only if it is
still so.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.fetch_range import FetchRangeService
from strandline_broker.rpc.records.fetch_range import FetchRangeRpc
from strandline_proto.batch import build_batch
from strandline_proto.errors import NONE, FencedLeaderEpoch, OffsetOutOfRange
from strandline_proto.hot_messages import FetchRangeRequest
from strandline_proto.v1 import fetch_pb2
from support.replica_nodes import TOPIC_ID, Node, decide, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition

MESSAGES = 5


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Future[object]]:
    """The reads that were begun."""
    reads: list[asyncio.Future[object]] = []
    read_cold = ReplicaManager.read_cold

    def noted(
        manager: ReplicaManager, partition: Partition, read: Callable[[], object]
    ) -> asyncio.Future[object]:
        reads.append(read_cold(manager, partition, read))
        return reads[-1]

    monkeypatch.setattr(ReplicaManager, "read_cold", noted)
    return reads


@asynccontextmanager
async def led(tmp_path: Path) -> AsyncIterator[tuple[Node, AsyncIterator[bytes]]]:
    """A leader alone, and a range of one batch for each message."""
    async with run_node(tmp_path / "1", 1) as node:
        alone = state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1)
        await decide(alone, node)
        for _ in range(MESSAGES):
            check_leader(node.partition, 0).appends.append(
                build_batch([(None, b"v")], timestamp_ms=1), acks=1, on_done=lambda _: None
            )
        request = FetchRangeRequest(
            topic_id=TOPIC_ID,
            partition=0,
            current_leader_epoch=0,
            start_offset=0,
            stop_offset=MESSAGES,
            max_message_bytes=1,
        )
        yield (
            node,
            FetchRangeRpc(FetchRangeService(node.replicas, node.metadata)).FetchRange(
                request, None
            ),
        )


async def following(messages: AsyncIterator[bytes]) -> fetch_pb2.FetchRangeResponse:
    return fetch_pb2.FetchRangeResponse.FromString(await anext(messages))


async def test_the_next_message_is_read_while_one_is_sent_and_no_other(
    tmp_path: Path, begun: list[asyncio.Future[object]]
) -> None:
    async with led(tmp_path) as (_, messages):
        for number in range(MESSAGES):
            message = await following(messages)
            assert (message.base_offset, message.next_offset) == (number, number + 1)
            assert len(begun) == min(number + 2, MESSAGES)
        with pytest.raises(StopAsyncIteration):
            await anext(messages)


async def test_what_was_read_ahead_is_not_sent_once_the_leadership_has_ended(
    tmp_path: Path, begun: list[asyncio.Future[object]]
) -> None:
    """P-13."""
    async with led(tmp_path) as (node, messages):
        assert (await following(messages)).error_code == NONE
        await begun[1]
        await decide(state(2, epoch=1, isr=(2,), replicas=(1, 2), min_insync=1), node)
        refused = await following(messages)
        assert refused.error_code == FencedLeaderEpoch.code
        assert (refused.next_offset, refused.records) == (1, b"")


async def test_what_a_later_role_has_dropped_is_not_called_out_of_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-106 (P-13): a reader would take it for lost, and the next leader has it."""
    read_cold = ReplicaManager.read_cold
    async with led(tmp_path) as (node, messages):

        async def late(
            manager: ReplicaManager, partition: Partition, read: Callable[[], object]
        ) -> object:
            await decide(state(2, epoch=1, isr=(2,), replicas=(1, 2), min_insync=1), node)
            async with partition.gate:
                await partition.restart_at(MESSAGES)
            return await read_cold(manager, partition, read)

        def begin(*args: Any) -> asyncio.Future[object]:
            return asyncio.ensure_future(late(*args))

        monkeypatch.setattr(ReplicaManager, "read_cold", begin)
        assert (await following(messages)).error_code == FencedLeaderEpoch.code


async def test_what_was_read_ahead_is_not_sent_once_it_is_deleted(
    tmp_path: Path, begun: list[asyncio.Future[object]]
) -> None:
    """I-74."""
    async with led(tmp_path) as (node, messages):
        assert (await following(messages)).error_code == NONE
        await begun[1]
        node.partition.raise_log_start(3)
        refused = await following(messages)
        assert refused.error_code == OffsetOutOfRange.code
        assert (refused.log_start_offset, refused.records) == (3, b"")


async def test_what_nobody_waits_for_any_more_is_let_go(
    tmp_path: Path, begun: list[asyncio.Future[object]]
) -> None:
    async with led(tmp_path) as (_, messages):
        await following(messages)
        await messages.aclose()  # type: ignore[attr-defined] # it is a generator
        assert begun[1].done()

"""What was read ahead of a position is void when the position is moved, and never otherwise."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from strandline import TopicPartition
from strandline._consumer.fetcher import STORAGE_PATIENCE_MS, Fetcher, Wanted
from strandline._core.fetch_session import FetchTarget
from strandline._core.position import LATEST, Phase, Position
from strandline._net.offsets import EpochEnd
from strandline.errors import InvalidRequest
from strandline_proto.batch import build_batch, prefix
from strandline_proto.errors import (
    NONE,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
)

if TYPE_CHECKING:
    from strandline._core.cluster_view import PartitionKey
    from strandline._net.offsets import Offsets
    from strandline._net.session import Session
    from strandline.errors import StrandlineError

ID = b"i" * 16


class LateOffsets:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[dict[PartitionKey, EpochEnd]] = asyncio.Future()
        self.failures: dict[PartitionKey, StrandlineError] = {}

    async def epoch_ends(self, epochs: Any, timeout_s: float) -> Any:
        return await self.answer, self.failures

    list_once = epoch_ends


def fetcher_of(position: Position) -> Fetcher:
    view = SimpleNamespace(leader=lambda topic_id, partition: None)
    cluster = SimpleNamespace(view=view, watchers=[], request_refresh=lambda: None)
    session = SimpleNamespace(
        connections=None, cluster=cluster, runtime=None, tasks=None, on_broken=[]
    )
    fetcher = Fetcher(
        cast("Session", session),
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        partition_max_bytes=1 << 20,
        buffer_bytes=1 << 20,
        request_timeout_s=1.0,
    )
    fetcher.assign({position.key: position})
    return fetcher


def new_position(offset: int, epoch: int = -1) -> Position:
    position = Position(TopicPartition("t", 0), ID, None)
    position.seek(offset, epoch)
    return position


def answer(position: Position, **result: Any) -> tuple[dict[PartitionKey, Wanted], Any]:
    """The leader's, to a fetch from where the position is."""
    target = FetchTarget(position.fetch_offset, 0, position.fetch_epoch, 1 << 20)
    fields = {
        "topic_id": ID,
        "partition": 0,
        "error_code": NONE,
        "current_leader": None,
        "diverging_epoch": None,
        "high_watermark": 9,
        "last_stable_offset": 9,
        "aborted_transactions": (),
        "log_start_offset": 0,
        "records": b"",
    }
    response = SimpleNamespace(node_endpoints=[], partitions=[SimpleNamespace(**fields | result)])
    return {position.key: Wanted(target, position.generation)}, response


def read_ahead(fetcher: Fetcher, position: Position) -> None:
    """Three records come, which nobody has taken yet."""
    batch = build_batch([(None, b"v")] * 3, timestamp_ms=1)
    records = prefix(position.fetch_offset, len(batch) - 12, 0) + batch[16:]
    fetcher.on_response(*answer(position, records=records))
    assert len(fetcher.buffers[position.key]) == 1


def end_at(position: Position, end_offset: int) -> dict[PartitionKey, EpochEnd]:
    return {position.key: EpochEnd(0, 0, end_offset)}


async def validating(fetcher: Fetcher) -> tuple[LateOffsets, asyncio.Task[bool]]:
    """A question is under way."""
    offsets = LateOffsets()
    fetcher.offsets = cast("Offsets", offsets)
    asked = asyncio.create_task(fetcher._validate())
    await asyncio.sleep(0)
    return offsets, asked


async def test_a_late_answer_about_where_it_was_does_not_void_what_came_since() -> None:
    position = new_position(100, 0)
    fetcher = fetcher_of(position)
    offsets, asked = await validating(fetcher)
    position.seek(0, -1)
    fetcher.moved(position)
    read_ahead(fetcher, position)
    offsets.answer.set_result(end_at(position, 50))
    await asked
    assert (position.offset, position.fetch_offset) == (0, 3)
    assert fetcher.take(position.key) is not None


@pytest.mark.parametrize("looks_up", [False, True])
@pytest.mark.parametrize("is_sought", [False, True])
async def test_a_late_refusal_concerns_the_question_and_not_where_the_position_is_since(
    looks_up: bool, is_sought: bool
) -> None:
    position = new_position(100, 0)
    fetcher = fetcher_of(position)
    offsets = LateOffsets()
    fetcher.offsets = cast("Offsets", offsets)
    if looks_up:
        position.reset(LATEST)
    asked = asyncio.create_task(fetcher._look_up() if looks_up else fetcher._validate())
    await asyncio.sleep(0)
    if is_sought:
        position.seek(5, -1)
        fetcher.moved(position)
    offsets.failures[position.key] = InvalidRequest("as scripted")
    offsets.answer.set_result({})
    assert await asked
    assert position.phase is (Phase.FETCHING if is_sought else Phase.FAILED)


async def test_an_answer_about_an_assignment_that_has_ended_does_not_void_the_next_one() -> None:
    before, position = new_position(100, 0), new_position(0)
    fetcher = fetcher_of(before)
    offsets, asked = await validating(fetcher)
    fetcher.assign({})
    fetcher.assign({position.key: position})
    read_ahead(fetcher, position)
    offsets.answer.set_result(end_at(before, 50))
    await asked
    assert before.phase is Phase.FAILED
    assert fetcher.take(position.key) is not None


async def test_an_assignment_begins_without_the_failures_of_the_one_before() -> None:
    before, position, now_s = new_position(0), new_position(0), 0.0
    fetcher = fetcher_of(before)
    clock = SimpleNamespace(monotonic=lambda: now_s)
    fetcher._runtime = cast("Any", SimpleNamespace(clock=clock, rng=Random(1)))
    failed: dict[str, Any] = {"error_code": KafkaStorageError.code, "error_message": ""}
    fetcher.on_response(*answer(before, **failed))
    retry = fetcher._retries[before.key]
    fetcher.assign({})
    assert retry.cancelled()
    assert not fetcher._retries
    assert not fetcher._backoffs
    now_s = STORAGE_PATIENCE_MS / 1000 + 1
    fetcher.assign({position.key: position})
    fetcher.on_response(*answer(position, **failed))
    assert position.phase is Phase.FETCHING, "its leader has said so for the first time"
    fetcher.assign({})


async def test_no_timer_of_a_fetch_that_failed_outlives_its_consumer() -> None:
    position = new_position(0)
    fetcher = fetcher_of(position)
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    fetcher._runtime = cast("Any", SimpleNamespace(clock=clock, rng=Random(1)))
    fetcher.on_response(*answer(position, error_code=NotLeaderOrFollower.code, error_message=""))
    retry = fetcher._retries[position.key]
    navigating = asyncio.create_task(fetcher.navigate())
    await asyncio.sleep(0)
    navigating.cancel()
    await asyncio.wait([navigating])
    assert retry.cancelled()


async def test_what_failed_is_asked_for_again_though_its_timer_is_early() -> None:
    position, now_ms = new_position(0), 0.0
    fetcher = fetcher_of(position)
    clock = SimpleNamespace(monotonic=lambda: now_ms / 1000)
    fetcher._runtime = cast("Any", SimpleNamespace(clock=clock, rng=Random(1)))
    fetcher.on_response(*answer(position, error_code=NotLeaderOrFollower.code, error_message=""))
    now_ms = position.retry_at_ms - 1.0  # uvloop rounds to milliseconds
    fetcher.cluster.view.leader = lambda *_: (1, 0)  # type: ignore[method-assign]
    woken = asyncio.Event()
    fetcher._streams[1] = cast("Any", SimpleNamespace(wake=woken.set))
    assert fetcher.wanted(1) == ({}, False)
    await asyncio.wait([asyncio.create_task(woken.wait())], timeout=60)
    assert woken.is_set(), "the stream is not woken"
    assert position.key in fetcher.wanted(1)[0], "it is not asked for again"


async def test_what_is_not_heard_while_a_new_leader_is_asked_voids_nothing() -> None:
    for result in (
        {"diverging_epoch": SimpleNamespace(epoch=0, end_offset=1)},
        {"error_code": OffsetOutOfRange.code},
    ):
        position = new_position(0)
        position.on_leader(0)
        fetcher = fetcher_of(position)
        read_ahead(fetcher, position)
        position.on_leader(1)
        assert position.phase is Phase.VALIDATING
        fetcher.on_response(*answer(position, **result))
        assert position.fetch_offset == 3
        assert fetcher.take(position.key) is not None


async def test_an_answer_that_moves_the_position_voids_what_was_read_ahead() -> None:
    position = new_position(0)
    position.on_leader(0)
    fetcher = fetcher_of(position)
    read_ahead(fetcher, position)
    position.on_leader(1)
    offsets, asked = await validating(fetcher)
    offsets.answer.set_result(end_at(position, 2))
    await asked
    assert position.fetch_offset == 0
    assert fetcher.take(position.key) is None

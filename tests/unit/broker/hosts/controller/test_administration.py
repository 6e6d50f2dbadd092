"""What people ask of the controller, when one request is many decisions."""

import asyncio
import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.reassignment import ReassignmentResult, Wish
from strandline_broker.core.controller.topics.internal_topics import InternalTopic, exists
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from strandline_broker.hosts.controller import administration
from strandline_broker.hosts.controller.administration import MOVES_PER_BATCH, Administration
from strandline_proto.errors import InvalidRequest, ThrottlingQuotaExceeded
from strandline_proto.ids import BrokerId
from support.controller_cluster import B1, B2, B3, Cluster
from support.scripted_pipeline import ScriptedPipeline

B4 = BrokerId(4)
MANY = 2 * MOVES_PER_BATCH + 50
OFFSETS = InternalTopic(CONSUMER_OFFSETS, 4, replication_factor=3, segment_bytes=1 << 20)
TRANSACTIONS = InternalTopic(TRANSACTION_STATE, 2, replication_factor=3, segment_bytes=1 << 20)


def reassign(room: int) -> tuple[list[ReassignmentResult], list[int]]:
    """Every partition of a topic to other brokers, and the first of them once more."""
    cluster = Cluster([B1, B2, B3, B4])
    cluster.topic("t", *([(B1, B2, B3)] * MANY))
    wishes = [Wish("t", index, (B2, B3, B4)) for index in range(MANY)]
    wishes.append(replace(wishes[0], target=None))
    pipeline = ScriptedPipeline(cluster, room)
    admin = Administration(
        cast("Any", None), cast("Any", None), cluster.state, cast("Any", pipeline), LogEnds()
    )
    outcomes = asyncio.run(admin.reassign(wishes))
    assert [outcome.wish for outcome in outcomes] == wishes
    return outcomes, pipeline.sizes


def test_many_moves_are_several_decisions_of_one_request() -> None:
    outcomes, sizes = reassign(room=10)
    assert sizes == [MOVES_PER_BATCH, MOVES_PER_BATCH, 50]
    assert [o for o in outcomes if o.error is not None] == outcomes[-1:]
    assert isinstance(outcomes[-1].error, InvalidRequest)


def test_moves_that_are_not_taken_any_more_say_so_each() -> None:
    outcomes, sizes = reassign(room=1)
    assert sizes == [MOVES_PER_BATCH]
    begun, others = outcomes[:MOVES_PER_BATCH], outcomes[MOVES_PER_BATCH:]
    assert all(outcome.error is None for outcome in begun)
    assert all(isinstance(outcome.error, ThrottlingQuotaExceeded) for outcome in others)


def test_the_internal_topics_are_made_when_the_brokers_for_them_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(administration, "LOOK_S", 0.0)
    monkeypatch.setattr(administration, "AFTER_FIRST_ANSWERS_S", 0.0)
    asyncio.run(make_internal_topics())


def administration_of(cluster: Cluster, pipeline: ScriptedPipeline) -> Administration:
    settings = SimpleNamespace(internal_topics=(OFFSETS, TRANSACTIONS))
    ids = (bytes([number] * 16) for number in itertools.count())
    runtime = SimpleNamespace(random_id=lambda: next(ids), log=structlog.get_logger())
    return Administration(
        cast("Any", runtime),
        cast("Any", settings),
        cluster.state,
        cast("Any", pipeline),
        LogEnds(),
    )


async def make_internal_topics() -> None:
    cluster = Cluster([B1, B2])
    pipeline = ScriptedPipeline(cluster, room=0)
    admin = administration_of(cluster, pipeline)
    async with asyncio.timeout(60):
        making = asyncio.create_task(admin.make_internal_topics())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not exists(cluster.state, OFFSETS)
        cluster.up(B3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not exists(cluster.state, OFFSETS), "refused: too many decisions wait"
        pipeline.room = 2
        await making
    assert pipeline.sizes == [1 + len(OFFSETS.configs) + 4, 1 + len(TRANSACTIONS.configs) + 2]
    await admin.make_internal_topics()
    assert exists(cluster.state, OFFSETS)
    assert exists(cluster.state, TRANSACTIONS)


def test_a_refused_offsets_topic_is_tried_again_and_does_not_end_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I-88: its brokers may have no room for more replicas until one has a greater limit."""
    monkeypatch.setattr(administration, "AFTER_FIRST_ANSWERS_S", 0.0)
    monkeypatch.setattr(administration, "AFTER_REFUSAL_S", 0.0)
    asyncio.run(make_internal_topics_without_room())


async def make_internal_topics_without_room() -> None:
    cluster = Cluster([B1, B2])
    cluster.up(B3, replicas_max=OFFSETS.partitions - 1)
    admin = administration_of(cluster, ScriptedPipeline(cluster, room=10))
    async with asyncio.timeout(60):
        making = asyncio.create_task(admin.make_internal_topics())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not making.done()
        assert not exists(cluster.state, OFFSETS)
        cluster.up(B3, replicas_max=OFFSETS.partitions + TRANSACTIONS.partitions)
        await making
    assert exists(cluster.state, OFFSETS)

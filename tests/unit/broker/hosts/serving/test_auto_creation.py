"""Creation of topics by requests for metadata: the bound, the wait for leaders, and refusals."""

from __future__ import annotations

import asyncio

import pytest

from strandline_broker.core.controller.topics.topics import NewTopic
from strandline_broker.hosts.serving import auto_creation
from strandline_broker.hosts.serving.auto_creation import UNDER_WAY_MAX
from strandline_proto.errors import (
    InvalidReplicationFactor,
    NotController,
    PolicyViolation,
    TopicAlreadyExists,
)
from strandline_proto.ids import NO_LEADER
from support.creating_controller import CreatingController

LEADER_NOT_AVAILABLE = 5


@pytest.fixture
async def controller() -> CreatingController:
    return CreatingController()


async def test_a_topic_is_created_with_the_defaults_of_the_controller(
    controller: CreatingController,
) -> None:
    assert await controller.creation.create(["orders", "orders", "more"]) == {}
    assert controller.asked == [
        [NewTopic("orders", -1, -1, (), ()), NewTopic("more", -1, -1, (), ())]
    ]


async def test_the_answer_waits_for_a_leader(
    controller: CreatingController, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.leader = NO_LEADER
    asking = asyncio.create_task(controller.creation.create(["orders"]))
    await controller.was_asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asking.done()
    controller.leader = 2
    controller.publish("orders")
    assert await asking == {}
    controller.leader = NO_LEADER
    monkeypatch.setattr(auto_creation, "LIMIT_S", 0.01)
    assert await controller.creation.create(["more"]) == {"more": LEADER_NOT_AVAILABLE}


async def test_a_topic_that_is_being_created_is_only_waited_for(
    controller: CreatingController,
) -> None:
    controller.may_decide.clear()
    first = asyncio.create_task(controller.creation.create(["orders"]))
    await asyncio.sleep(0)
    second = asyncio.create_task(controller.creation.create(["orders"]))
    await asyncio.sleep(0)
    controller.may_decide.set()
    assert await first == await second == {}
    assert len(controller.asked) == 1


async def test_topics_above_the_bound_are_left_for_the_next_request(
    controller: CreatingController,
) -> None:
    names = [f"topic-{number}" for number in range(UNDER_WAY_MAX + 5)]
    codes = await controller.creation.create(names)
    assert codes == dict.fromkeys(names[UNDER_WAY_MAX:], LEADER_NOT_AVAILABLE)
    assert await controller.creation.create(codes) == {}
    assert [len(wishes) for wishes in controller.asked] == [UNDER_WAY_MAX, 5]


async def test_a_refusal_that_may_pass_is_retriable_for_the_client(
    controller: CreatingController,
) -> None:
    controller.refusals = {
        "few": InvalidReplicationFactor("2 brokers live"),
        "policy": PolicyViolation("no"),
    }
    codes = await controller.creation.create(["few", "policy", "fine"])
    assert codes == {"few": LEADER_NOT_AVAILABLE, "policy": PolicyViolation.code}
    controller.failure = NotController("no controller")
    assert await controller.creation.create(["more"]) == {"more": LEADER_NOT_AVAILABLE}


async def test_a_topic_that_exists_by_now_is_no_refusal(controller: CreatingController) -> None:
    controller.refusals = {"orders": TopicAlreadyExists("exists")}
    asking = asyncio.create_task(controller.creation.create(["orders"]))
    await controller.was_asked.wait()
    controller.publish("orders")
    assert await asking == {}


async def test_a_request_that_is_cancelled_leaves_nothing_under_way(
    controller: CreatingController,
) -> None:
    controller.may_decide.clear()
    asking = asyncio.create_task(controller.creation.create(["orders"]))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    controller.may_decide.set()
    assert await controller.creation.create(["orders"]) == {}
    assert len(controller.asked) == 2

"""Creation of topics by requests for metadata: the bound, the wait for leaders, and refusals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.controller.topics.topics import CreatedTopic, NewTopic
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.serving import auto_creation
from strandline_broker.hosts.serving.applied_views import AppliedViews
from strandline_broker.hosts.serving.auto_creation import UNDER_WAY_MAX, AutoCreation
from strandline_proto.errors import (
    InvalidReplicationFactor,
    NotController,
    PolicyViolation,
    TopicAlreadyExists,
    WireError,
)
from strandline_proto.ids import NO_LEADER
from strandline_runtime.real import real_runtime
from support.envelopes import applied, envelope, partition, topic, topic_id

if TYPE_CHECKING:
    from collections.abc import Sequence

LEADER_NOT_AVAILABLE = 5


class Controller:
    """A controller that decides when the test lets it."""

    def __init__(self) -> None:
        self.metadata = MetadataCache(cluster_id="cluster")
        self.views = AppliedViews(self.metadata)
        applied(self.metadata, envelope(0, full=True))
        self.asked: list[list[NewTopic]] = []
        self.was_asked = asyncio.Event()
        self.may_decide = asyncio.Event()
        self.may_decide.set()
        self.refusals: dict[str, WireError] = {}
        self.failure: WireError | None = None
        self.leader = 1
        self.creation = AutoCreation(real_runtime("broker-1"), self.views, self.create)

    async def create(
        self, wishes: Sequence[NewTopic], *, validate_only: bool, limit_s: float
    ) -> list[CreatedTopic | WireError]:
        self.asked.append(list(wishes))
        self.was_asked.set()
        await self.may_decide.wait()
        if self.failure is not None:
            raise self.failure
        made = [wish.name for wish in wishes if wish.name not in self.refusals]
        self.publish(*made)
        return [
            self.refusals.get(wish.name) or CreatedTopic(wish.name, topic_id(1), 1, 3)
            for wish in wishes
        ]

    def publish(self, *names: str) -> None:
        offset = self.metadata.applied_offset + 1
        known = len(self.metadata.view.topics_by_id)
        topics = tuple(
            topic(name, known + number, partition(0, leader=self.leader, leader_epoch=offset))
            for number, name in enumerate(names)
        )
        applied(self.metadata, envelope(offset, topics=topics))
        self.views.published()


@pytest.fixture
async def controller() -> Controller:
    return Controller()


async def test_a_topic_is_created_with_the_defaults_of_the_controller(
    controller: Controller,
) -> None:
    assert await controller.creation.create(["orders", "orders", "more"]) == {}
    assert controller.asked == [
        [NewTopic("orders", -1, -1, (), ()), NewTopic("more", -1, -1, (), ())]
    ]


async def test_the_answer_waits_for_a_leader(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
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


async def test_a_topic_that_is_being_created_is_only_waited_for(controller: Controller) -> None:
    controller.may_decide.clear()
    first = asyncio.create_task(controller.creation.create(["orders"]))
    await asyncio.sleep(0)
    second = asyncio.create_task(controller.creation.create(["orders"]))
    await asyncio.sleep(0)
    controller.may_decide.set()
    assert await first == await second == {}
    assert len(controller.asked) == 1


async def test_topics_above_the_bound_are_left_for_the_next_request(
    controller: Controller,
) -> None:
    names = [f"topic-{number}" for number in range(UNDER_WAY_MAX + 5)]
    codes = await controller.creation.create(names)
    assert codes == dict.fromkeys(names[UNDER_WAY_MAX:], LEADER_NOT_AVAILABLE)
    assert await controller.creation.create(codes) == {}
    assert [len(wishes) for wishes in controller.asked] == [UNDER_WAY_MAX, 5]


async def test_a_refusal_that_may_pass_is_retriable_for_the_client(
    controller: Controller,
) -> None:
    controller.refusals = {
        "few": InvalidReplicationFactor("2 brokers live"),
        "policy": PolicyViolation("no"),
    }
    codes = await controller.creation.create(["few", "policy", "fine"])
    assert codes == {"few": LEADER_NOT_AVAILABLE, "policy": PolicyViolation.code}
    controller.failure = NotController("no controller")
    assert await controller.creation.create(["more"]) == {"more": LEADER_NOT_AVAILABLE}


async def test_a_topic_that_exists_by_now_is_no_refusal(controller: Controller) -> None:
    controller.refusals = {"orders": TopicAlreadyExists("exists")}
    asking = asyncio.create_task(controller.creation.create(["orders"]))
    await controller.was_asked.wait()
    controller.publish("orders")
    assert await asking == {}


async def test_a_request_that_is_cancelled_leaves_nothing_under_way(
    controller: Controller,
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

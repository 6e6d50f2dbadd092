"""A controller that creates the topics that clients ask for, when the test lets it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline_broker.core.controller.topics.topics import CreatedTopic
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.serving.applied_views import AppliedViews
from strandline_broker.hosts.serving.auto_creation import AutoCreation
from strandline_runtime.real import real_runtime
from support.envelopes import applied, envelope, live_broker, partition, topic, topic_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.controller.topics.topics import NewTopic
    from strandline_proto.errors import WireError


class CreatingController:
    def __init__(self) -> None:
        self.metadata = MetadataCache(cluster_id="cluster")
        self.views = AppliedViews(self.metadata)
        brokers = (live_broker(1), live_broker(2))
        applied(self.metadata, envelope(0, full=True, live_brokers=brokers))
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

"""Administrators' requests at the controller, each one decision in the pipeline.

The rules that may refuse a request are in core. This module only chooses the decision.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.controller.brokers.decommission import (
    decide_decommission,
    decide_unregister,
)
from strandline_broker.core.controller.partitions.leadership import (
    decide_elect_leaders,
    wishes_where_needed,
)
from strandline_broker.core.controller.partitions.reassignment import (
    ReassignmentResult,
    check_count,
    decide_reassignments,
)
from strandline_broker.core.controller.topics.added_partitions import decide_create_partitions
from strandline_broker.core.controller.topics.configs import decide_alter_configs
from strandline_broker.core.controller.topics.internal_topics import (
    InternalTopic,
    can_be_made,
    decide_internal_topic,
    exists,
)
from strandline_broker.core.controller.topics.topics import (
    decide_create_topic,
    decide_delete_topic,
)
from strandline_broker.hosts.controller.pipeline import NOT_NOW
from strandline_proto.errors import ThrottlingQuotaExceeded, WireError
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_broker.core.controller.partitions.leadership import (
        ElectionResult,
        ElectionType,
        ElectionWish,
    )
    from strandline_broker.core.controller.partitions.log_ends import LogEnds
    from strandline_broker.core.controller.partitions.reassignment import Wish
    from strandline_broker.core.controller.topics.added_partitions import MorePartitions
    from strandline_broker.core.controller.topics.configs import Alteration
    from strandline_broker.core.controller.topics.topics import CreatedTopic, DeletedTopic, NewTopic
    from strandline_broker.hosts.controller.pipeline import Pipeline
    from strandline_broker.hosts.controller.settings import ControllerSettings
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime

ELECTIONS_PER_BATCH: Final = 500
"""Partitions elected in one decision; so many delay neither other decisions nor the event loop."""
LOOK_S: Final = 0.1
"""Time between two checks for enough brokers to hold an internal topic, while it does not exist."""
AFTER_FIRST_ANSWERS_S: Final = 0.3
AFTER_REFUSAL_S: Final = 10.0
"""Time until the next try after a refusal, which an operator has to resolve."""
MOVES_PER_BATCH: Final = 100
"""Partitions reassigned in one decision. A new assignment takes the event loop 0.2 ms, ten times as
long as an election.
"""


class Administration:
    def __init__(
        self,
        runtime: Runtime,
        settings: ControllerSettings,
        state: ControllerState,
        pipeline: Pipeline,
        ends: LogEnds,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._state = state
        self._pipeline = pipeline
        self._ends = ends

    async def create_topic(self, wish: NewTopic, *, validate_only: bool) -> CreatedTopic:
        return await self._pipeline.submit(
            partial(
                decide_create_topic,
                self._state,
                wish,
                defaults=self._settings.topic_defaults,
                topic_id=TopicId(self._runtime.random_id()),
                validate_only=validate_only,
            )
        )

    async def make_internal_topics(self) -> None:
        """Create the coordinators' topics in the background, one after the other: the first answers
        of a new cluster come before them.
        """
        for wanted in self._settings.internal_topics:
            await self._make(wanted)

    async def _make(self, wanted: InternalTopic) -> None:
        while not exists(self._state, wanted):
            if not can_be_made(self._state, wanted):
                await asyncio.sleep(LOOK_S)
                continue
            await asyncio.sleep(AFTER_FIRST_ANSWERS_S)
            decide = partial(
                decide_internal_topic,
                self._state,
                wanted,
                topic_id=TopicId(self._runtime.random_id()),
            )
            try:
                made = await self._pipeline.submit(decide)
            except ThrottlingQuotaExceeded:
                continue
            except WireError as refused:
                # For example, brokers lack room: no reason to end, and it may pass.
                self._runtime.log.warning(
                    "an internal topic is not made", topic=wanted.name, why=str(refused)
                )
                await asyncio.sleep(AFTER_REFUSAL_S)
                continue
            if made is not None:
                self._runtime.log.info("topic made", topic=made.name)

    async def create_partitions(self, wish: MorePartitions, *, validate_only: bool) -> int:
        """Returns the number of partitions that the topic had before."""
        return await self._pipeline.submit(
            partial(decide_create_partitions, self._state, wish, validate_only=validate_only)
        )

    async def delete_topic(self, *, name: str, topic_id: bytes) -> DeletedTopic:
        return await self._pipeline.submit(
            partial(decide_delete_topic, self._state, name=name, topic_id=topic_id)
        )

    async def alter_configs(
        self, kind: int, name: str, alterations: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        await self._pipeline.submit(
            partial(
                decide_alter_configs,
                self._state,
                kind=kind,
                name=name,
                alterations=alterations,
                keys=self._settings.server_keys,
                validate_only=validate_only,
            )
        )

    async def elect_leaders(
        self, kind: ElectionType, wishes: Sequence[ElectionWish] | None
    ) -> list[ElectionResult]:
        """Elect leaders for the requested partitions. Without wishes: every partition that its
        preferred leader does not lead or, for an unclean election, every partition without a
        leader.

        Elections of one batch stand even if a later batch is refused.
        """
        if wishes is None:
            wishes = wishes_where_needed(self._state, kind)
        results: list[ElectionResult] = []
        for first in range(0, len(wishes), ELECTIONS_PER_BATCH):
            batch = wishes[first : first + ELECTIONS_PER_BATCH]
            elected = await self._pipeline.submit(
                partial(decide_elect_leaders, self._state, kind, batch, self._ends)
            )
            results += elected
        return results

    async def reassign(self, wishes: Sequence[Wish]) -> list[ReassignmentResult]:
        """Start reassignments. Those of one batch stand even if a later batch is refused; every
        wish that was not decided then gets the error.
        """
        check_count(wishes)
        results: list[ReassignmentResult] = []
        for first in range(0, len(wishes), MOVES_PER_BATCH):
            batch, earlier = wishes[first : first + MOVES_PER_BATCH], wishes[:first]
            try:
                judged = await self._pipeline.submit(
                    partial(decide_reassignments, self._state, batch, earlier)
                )
            except NOT_NOW as full:
                return [*results, *(ReassignmentResult(wish, full) for wish in wishes[first:])]
            results += judged
        return results

    async def decommission(self, broker_id: BrokerId, *, undo: bool) -> None:
        await self._pipeline.submit(partial(decide_decommission, self._state, broker_id, undo=undo))

    async def unregister(self, broker_id: BrokerId) -> None:
        await self._pipeline.submit(partial(decide_unregister, self._state, broker_id))

"""Creation of the topics that a client's request for metadata names (auto.create.topics.enable).

The controller creates the topic with its own num.partitions and default.replication.factor. The
answer waits until the topic's partitions have leaders, for a second at most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from strandline_broker.core.controller.topics.topics import NewTopic
from strandline_proto.errors import (
    InvalidTopic,
    LeaderNotAvailable,
    PolicyViolation,
    TopicAlreadyExists,
    WireError,
)
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.core.controller.topics.topics import CreatedTopic
    from strandline_broker.core.metadata_cache import MetadataView
    from strandline_broker.hosts.serving.applied_views import AppliedViews
    from strandline_runtime.runtime import Runtime

LIMIT_S: Final = 1.0
UNDER_WAY_MAX: Final = 100
"""Limit of topics that are being created at a time; a client asks again for further ones."""
COMPLAINT_S: Final = 10.0
"""Time between two log lines about topics that the controller has refused."""
_PERMANENT: Final = (InvalidTopic, PolicyViolation)
"""Errors that a client gets as they are. Any other may pass, so that the client has to retry."""


class CreateTopics(Protocol):
    """A request to the controller."""

    async def __call__(
        self, wishes: Sequence[NewTopic], *, validate_only: bool, limit_s: float
    ) -> list[CreatedTopic | WireError]: ...


class AutoCreation:
    def __init__(self, runtime: Runtime, views: AppliedViews, create: CreateTopics) -> None:
        self._runtime = runtime
        self._views = views
        self._create = create
        self._under_way: set[str] = set()
        self._quiet_until_s = 0.0

    async def create(self, names: Iterable[str]) -> dict[str, int]:
        """Creates the topics. Returns the error code of each one that has no leader yet.

        A topic that another request is creating is only waited for.
        """
        codes = dict.fromkeys(names, LeaderNotAvailable.code)
        wanted: list[str] = []
        awaited: list[str] = []
        room = UNDER_WAY_MAX - len(self._under_way)
        for name in codes:
            if name in self._under_way:
                awaited.append(name)
            elif len(wanted) < room:
                wanted.append(name)
        try:
            async with asyncio.timeout(LIMIT_S):
                refused = await self._created(wanted) if wanted else {}
                codes |= refused
                left = [name for name in (*wanted, *awaited) if name not in refused]
                if await self._views.until(lambda view: _have_leaders(view, left), LIMIT_S):
                    for name in left:
                        del codes[name]
        except TimeoutError:
            pass
        return codes

    async def _created(self, names: list[str]) -> dict[str, int]:
        """Returns the codes of the topics that do not come into being now."""
        self._under_way.update(names)
        try:
            wishes = [NewTopic(name, -1, -1, (), ()) for name in names]
            results = await self._create(wishes, validate_only=False, limit_s=LIMIT_S)
        except WireError as error:
            self._complain(names[0], error)
            return dict.fromkeys(names, LeaderNotAvailable.code)
        finally:
            self._under_way.difference_update(names)
        refused = {}
        for name, result in zip(names, results, strict=True):
            if isinstance(result, WireError) and not isinstance(result, TopicAlreadyExists):
                self._complain(name, result)
                is_permanent = isinstance(result, _PERMANENT)
                refused[name] = result.code if is_permanent else LeaderNotAvailable.code
        return refused

    def _complain(self, name: str, why: WireError) -> None:
        now_s = self._runtime.clock.monotonic()
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + COMPLAINT_S
            self._runtime.log.warning(
                "a topic that a client asked for was not created", topic=name, why=str(why)
            )


def _have_leaders(view: MetadataView, names: Iterable[str]) -> bool:
    for name in names:
        topic = view.topic_named(name)
        if topic is None or any(p.leader == NO_LEADER for p in topic.partitions.values()):
            return False
    return True

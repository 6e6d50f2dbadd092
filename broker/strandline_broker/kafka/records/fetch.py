"""Fetch: consumers' reads, without sessions (KIP-227).

Each request names all partitions of its consumer, and each answer has session id 0, which tells a
client to send full requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.serving.fetch import SessionlessFetch
from strandline_broker.hosts.serving.replicas import node_on
from strandline_broker.kafka.records.fetch_answer import SESSIONS, fetch_answer
from strandline_broker.kafka.records.fetch_request import CONSUMER, parse_fetch
from strandline_broker.kafka.request import by_hand
from strandline_proto.errors import (
    NONE,
    FetchSessionIdNotFound,
    InconsistentClusterId,
    UnsupportedVersion,
)
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.hosts.common.fetch_messages import FetchedPartition
    from strandline_broker.kafka.records.fetch_request import ParsedFetch
    from strandline_broker.kafka.records.leader_hints import Address
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services
    from strandline_broker.kafka.wire import Buffers

FULL_EPOCHS: Final = (0, -1)
"""Session epochs of a request that names all of its partitions."""
CLUSTER_AUTHORIZATION_FAILED: Final = 31
READ_COMMITTED: Final = 1


class FetchCalls:
    """The Fetch requests of one listener."""

    def __init__(self, services: Services, listener: str) -> None:
        self._metadata = services.metadata
        self._replicas = services.replicas
        self._listener = listener

    @by_hand
    async def Fetch(self, request: Request) -> Buffers:
        version = request.version
        parsed = await parse_fetch(request.body, version, self._metadata.view.ids_by_name)
        code = self._refused(parsed)
        if code != NONE:
            topics = [] if version >= SESSIONS else parsed.topics
            if version >= SESSIONS:
                request.errors.append(code)
            return await self._answer(request, parsed._replace(topics=topics), (), code)
        is_known = all(topic.topic_id for topic in parsed.topics)
        fetch = SessionlessFetch(
            self._metadata,
            self._replicas,
            parsed.wanted,
            is_hurried=request.is_hurried or not is_known,
        )
        request.on_hurry = fetch.hurry
        found = await fetch.answer()
        request.waits_since_s = fetch.waits_since_s
        return await self._answer(request, parsed, found, NONE)

    def _refused(self, parsed: ParsedFetch) -> int:
        """Returns the error for the whole request; 0 if it is served."""
        if parsed.replica_id != CONSUMER:
            return CLUSTER_AUTHORIZATION_FAILED
        if parsed.cluster_id and parsed.cluster_id != self._metadata.cluster_id:
            return InconsistentClusterId.code
        if parsed.session_epoch not in FULL_EPOCHS:
            return FetchSessionIdNotFound.code
        if parsed.wanted.isolation_level not in (0, READ_COMMITTED):
            return UnsupportedVersion.code
        return NONE

    async def _answer(
        self, request: Request, parsed: ParsedFetch, found: Iterable[FetchedPartition], code: int
    ) -> Buffers:
        return await fetch_answer(
            request.version,
            parsed.topics,
            iter(found),
            code=code,
            committed=parsed.wanted.isolation_level == READ_COMMITTED,
            nodes=self._nodes,
            errors=request.errors,
        )

    def _nodes(self, broker_ids: Iterable[int]) -> Sequence[Address]:
        view = self._metadata.view
        found = [node_on(view, BrokerId(each), self._listener) for each in broker_ids]
        return [node for node in found if node is not None]

"""ElectLeaders on the wire, at the controller; brokers forward it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.partitions.leadership import (
    ElectionResult,
    ElectionType,
    ElectionWish,
    election_type,
    wishes_of_topic,
)
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.rpc.controller.answers import limit_s, refuse, wait_applied
from strandline_proto.errors import InvalidRequest, WireError
from strandline_proto.ids import NO_LEADER, BrokerId
from strandline_proto.v1 import elections_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.controller.controller import Controller

PARTITIONS_MAX: Final = 10_000
"""Limit of partitions named in one request, because the event loop translates them."""


class ElectionsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def ElectLeaders(
        self, request: elections_pb2.ElectLeadersRequest, context: Any
    ) -> elections_pb2.ElectLeadersResponse:
        response = elections_pb2.ElectLeadersResponse()
        try:
            kind = election_type(request.election_type)
            wishes, unknown = self._wishes(kind, request)
            async with asyncio.timeout(limit_s(request.timeout_ms)):
                results = await self._controller.administration.elect_leaders(kind, wishes)
        except (WireError, TimeoutError) as error:
            refuse(response, error)
            return response
        async for result in in_turns([*unknown, *results]):
            told = response.results.add(
                topic=result.topic, partition=result.partition, leader=result.leader
            )
            if result.error is not None:
                refuse(told, result.error)
        if any(result.error is None for result in results):
            await wait_applied(response, self._controller, request.timeout_ms)
        response.metadata_offset = self._controller.state.last_offset
        return response

    def _wishes(
        self, kind: ElectionType, request: elections_pb2.ElectLeadersRequest
    ) -> tuple[list[ElectionWish] | None, list[ElectionResult]]:
        """The requested partitions (None: all that need an election), and an answer for each
        unknown topic.
        """
        designated = kind is ElectionType.DESIGNATED
        if not request.topics:
            if designated:
                raise InvalidRequest("a designated election names its partitions and their leaders")
            return None, []
        wishes: list[ElectionWish] = []
        unknown: list[ElectionResult] = []
        for topic in request.topics:
            wishes += [
                ElectionWish(topic.name, p.partition, BrokerId(p.leader)) for p in topic.partitions
            ]
            if not topic.partitions:
                if designated:
                    raise InvalidRequest(f"topic {topic.name}: no partition is named")
                try:
                    wishes += wishes_of_topic(self._controller.state, topic.name)
                except WireError as error:
                    unknown.append(ElectionResult(topic.name, -1, NO_LEADER, error))
        if len(wishes) > PARTITIONS_MAX:
            raise InvalidRequest(
                f"{len(wishes)} partitions in one request, {PARTITIONS_MAX} are possible: send "
                "several"
            )
        return wishes, unknown

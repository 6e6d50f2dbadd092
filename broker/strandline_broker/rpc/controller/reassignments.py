"""Reassignments and the decommission of brokers, on the wire; brokers forward these calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.partitions.reassignment import ReassignmentResult, Wish
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.rpc.controller.answers import limit_s, refuse
from strandline_proto.errors import UnknownTopicOrPartition, WireError
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import reassignment_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.controller.log.state import PartitionRegistration, Topic
    from strandline_broker.hosts.controller.controller import Controller

TOPICS_AT_ONCE: Final = 100
"""Topics that are searched between two yields to other calls."""


class ReassignmentsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._administration = controller.administration

    async def AlterPartitionReassignments(
        self, request: reassignment_pb2.AlterPartitionReassignmentsRequest, context: Any
    ) -> reassignment_pb2.AlterPartitionReassignmentsResponse:
        response = reassignment_pb2.AlterPartitionReassignmentsResponse()
        try:
            async with asyncio.timeout(limit_s(request.timeout_ms)):
                results = await self._administration.reassign(list(_wishes(request)))
        except (WireError, TimeoutError) as error:
            refuse(response, error)
            return response
        async for result in in_turns(results):
            _add(response, result)
        response.metadata_offset = self._controller.state.last_offset
        return response

    async def ListPartitionReassignments(
        self, request: reassignment_pb2.ListPartitionReassignmentsRequest, context: Any
    ) -> reassignment_pb2.ListPartitionReassignmentsResponse:
        response = reassignment_pb2.ListPartitionReassignmentsResponse()
        state = self._controller.state
        asked: dict[str, set[int]] = {}
        for named in request.topics:
            asked.setdefault(named.name, set()).update(named.partitions)
        whole = {named.name for named in request.topics if not named.partitions}
        for name in asked:
            if name not in state.topic_ids:
                refuse(response, UnknownTopicOrPartition(f"no topic is called {name!r}"))
                return response
        async for topic in in_turns(list(state.topics.values()), TOPICS_AT_ONCE):
            if not asked or topic.name in asked:
                _list(
                    response, topic, set() if topic.name in whole else asked.get(topic.name, set())
                )
        return response

    async def DecommissionBroker(
        self, request: reassignment_pb2.DecommissionBrokerRequest, context: Any
    ) -> reassignment_pb2.DecommissionBrokerResponse:
        response = reassignment_pb2.DecommissionBrokerResponse()
        try:
            async with asyncio.timeout(limit_s(request.timeout_ms)):
                await self._administration.decommission(
                    BrokerId(request.broker_id), undo=request.undo
                )
        except (WireError, TimeoutError) as error:
            refuse(response, error)
        return response

    async def UnregisterBroker(
        self, request: reassignment_pb2.UnregisterBrokerRequest, context: Any
    ) -> reassignment_pb2.UnregisterBrokerResponse:
        response = reassignment_pb2.UnregisterBrokerResponse()
        try:
            async with asyncio.timeout(limit_s(request.timeout_ms)):
                await self._administration.unregister(BrokerId(request.broker_id))
        except (WireError, TimeoutError) as error:
            refuse(response, error)
        return response


def _wishes(request: reassignment_pb2.AlterPartitionReassignmentsRequest) -> Iterable[Wish]:
    for topic in request.topics:
        for partition in topic.partitions:
            target = None
            if partition.HasField("target"):
                target = tuple(BrokerId(b) for b in partition.target.replicas)
            yield Wish(topic.name, partition.partition_index, target)


def _add(
    response: reassignment_pb2.AlterPartitionReassignmentsResponse, decided: ReassignmentResult
) -> None:
    wish, error = decided.wish, decided.error
    if not response.topics or response.topics[-1].name != wish.topic:
        response.topics.add(name=wish.topic)
    result = response.topics[-1].partitions.add(partition_index=wish.partition)
    if error is not None:
        refuse(result, error)


def _list(
    response: reassignment_pb2.ListPartitionReassignmentsResponse, topic: Topic, only: set[int]
) -> None:
    """The moves of a topic; `only` those of these partitions, if any are named."""
    ongoing = [
        _ongoing(p)
        for p in topic.partitions.values()
        if p.original != () and (not only or p.index in only)
    ]
    if ongoing:
        response.topics.add(name=topic.name, topic_id=topic.topic_id, partitions=ongoing)


def _ongoing(partition: PartitionRegistration) -> reassignment_pb2.OngoingPartitionReassignment:
    return reassignment_pb2.OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
        original_replicas=partition.original,
        isr=partition.isr,
        leader=partition.leader,
    )

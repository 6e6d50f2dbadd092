"""Requests that the controller decides: the one file of this package that builds protobuf.

Each method returns once this broker has applied the result, or when the time for it is over: the
decision is durable then and reaches the broker later. A method raises the WireError of a request
that no controller has decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import grpc

from strandline_broker.core.controller.partitions.leadership import ElectionResult
from strandline_broker.core.controller.partitions.reassignment import ReassignmentResult, Wish
from strandline_broker.core.controller.topics.topics import CreatedTopic, DeletedTopic
from strandline_broker.hosts.serving.turns import in_turns
from strandline_proto.errors import from_code
from strandline_proto.ids import BrokerId, TopicId
from strandline_proto.v1 import (
    common_pb2,
    elections_pb2,
    metadata_pb2,
    partitions_pb2,
    reassignment_pb2,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from strandline_broker.core.controller.partitions.leadership import ElectionWish
    from strandline_broker.core.controller.topics.added_partitions import MorePartitions
    from strandline_broker.core.controller.topics.topics import NewTopic
    from strandline_broker.hosts.serving.administration import ConfigChange
    from strandline_broker.hosts.serving.applied_views import AppliedViews
    from strandline_broker.hosts.serving.metadata import TopicRef
    from strandline_proto.errors import WireError


class ToController(Protocol):
    """A broker's connection to the controller."""

    @property
    def stub(self) -> Any:
        """The calls of the controller's service."""
        ...

    def failure(self, error: Any) -> WireError:
        """Returns the error for a client whose request could not be forwarded."""
        ...


class Move(NamedTuple):
    """A reassignment under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    original: tuple[int, ...]


class Forward:
    def __init__(self, controller: ToController, views: AppliedViews) -> None:
        self._controller = controller
        self._views = views

    async def create_topics(
        self, wishes: Sequence[NewTopic], *, validate_only: bool, limit_s: float
    ) -> list[CreatedTopic | WireError]:
        """Returns the result for each wish, in order."""
        request = metadata_pb2.CreateTopicsRequest(
            topics=[_new_topic(wish) for wish in wishes],
            timeout_ms=_milliseconds(limit_s),
            validate_only=validate_only,
        )
        answer = await self._decided(self._controller.stub.CreateTopics, request, limit_s)
        return [
            _error(each)
            or CreatedTopic(
                each.name, TopicId(each.topic_id), each.partitions, each.replication_factor
            )
            for each in answer.topics
        ]

    async def delete_topics(
        self, refs: Sequence[TopicRef], *, limit_s: float
    ) -> list[DeletedTopic | WireError]:
        """Returns the result for each topic, in order."""
        request = metadata_pb2.DeleteTopicsRequest(
            topics=[metadata_pb2.TopicRef(**ref._asdict()) for ref in refs],
            timeout_ms=_milliseconds(limit_s),
        )
        answer = await self._decided(self._controller.stub.DeleteTopics, request, limit_s)
        return [
            _error(each) or DeletedTopic(each.name, TopicId(each.topic_id))
            for each in answer.topics
        ]

    async def create_partitions(
        self, wishes: Sequence[MorePartitions], *, validate_only: bool, limit_s: float
    ) -> list[WireError | None]:
        """Returns the error for each wish, in order."""
        request = partitions_pb2.CreatePartitionsRequest(
            topics=[_more_partitions(wish) for wish in wishes],
            timeout_ms=_milliseconds(limit_s),
            validate_only=validate_only,
        )
        answer = await self._decided(self._controller.stub.CreatePartitions, request, limit_s)
        return [_error(each) for each in answer.results]

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool, limit_s: float
    ) -> list[WireError | None]:
        """Returns the error for each change, in order."""
        request = metadata_pb2.IncrementalAlterConfigsRequest(
            resources=[_resource(change) for change in changes],
            timeout_ms=_milliseconds(limit_s),
            validate_only=validate_only,
        )
        call = self._controller.stub.IncrementalAlterConfigs
        answer = await self._decided(call, request, limit_s)
        return [_error(each) for each in answer.results]

    async def elect_leaders(
        self, kind: int, wishes: Sequence[ElectionWish] | None, *, limit_s: float
    ) -> list[ElectionResult]:
        """Returns the results. `wishes`: None for every partition that needs the election."""
        request = elections_pb2.ElectLeadersRequest(
            election_type=kind, timeout_ms=_milliseconds(limit_s)
        )
        by_topic: dict[str, elections_pb2.ElectLeadersTopic] = {}
        for wish in wishes or ():
            if wish.topic not in by_topic:
                by_topic[wish.topic] = request.topics.add(name=wish.topic)
            by_topic[wish.topic].partitions.add(partition=wish.partition)
        answer = await self._decided(self._controller.stub.ElectLeaders, request, limit_s)
        return [
            ElectionResult(each.topic, each.partition, BrokerId(each.leader), _error(each))
            for each in answer.results
        ]

    async def reassign(self, wishes: Sequence[Wish], *, limit_s: float) -> list[ReassignmentResult]:
        """Returns the result for each wish, in order."""
        request = reassignment_pb2.AlterPartitionReassignmentsRequest(
            timeout_ms=_milliseconds(limit_s)
        )
        for wish in wishes:
            if not request.topics or request.topics[-1].name != wish.topic:
                request.topics.add(name=wish.topic)
            partition = request.topics[-1].partitions.add(partition_index=wish.partition)
            if wish.target is not None:
                target = reassignment_pb2.ReassignTarget(replicas=wish.target)
                partition.target.CopyFrom(target)
        call = self._controller.stub.AlterPartitionReassignments
        answer = await self._decided(call, request, limit_s)
        errors = (_error(each) for topic in answer.topics for each in topic.partitions)
        return [ReassignmentResult(*pair) for pair in zip(wishes, errors, strict=True)]

    async def reassignments(self, *, limit_s: float) -> list[Move]:
        """Returns all reassignments under way."""
        request = reassignment_pb2.ListPartitionReassignmentsRequest(
            timeout_ms=_milliseconds(limit_s)
        )
        answer = await self._call(
            self._controller.stub.ListPartitionReassignments, request, limit_s
        )
        found: list[Move] = []
        async for topic in in_turns(answer.topics, every=100):
            found += [
                Move(
                    topic.name,
                    each.partition_index,
                    tuple(each.replicas),
                    tuple(each.adding_replicas),
                    tuple(each.removing_replicas),
                    tuple(each.original_replicas),
                )
                for each in topic.partitions
            ]
        return found

    async def _decided(
        self, call: Callable[..., Awaitable[Any]], request: Any, limit_s: float
    ) -> Any:
        """Returns the controller's answer once its result is applied here."""
        answer = await self._call(call, request, limit_s)
        await self._views.until_offset(answer.metadata_offset, limit_s)
        return answer

    async def _call(self, call: Callable[..., Awaitable[Any]], request: Any, limit_s: float) -> Any:
        try:
            answer = await call(request, timeout=limit_s)
        except grpc.RpcError as error:
            raise self._controller.failure(error) from error
        whole = _error(answer)
        if whole is not None:
            raise whole
        return answer


def _milliseconds(limit_s: float) -> int:
    return max(int(limit_s * 1000), 1)


def _error(part: Any) -> WireError | None:
    """Returns the error of an answer, or of its part."""
    return None if part.error_code == 0 else from_code(part.error_code, part.error_message)


def _new_topic(wish: NewTopic) -> metadata_pb2.NewTopic:
    return metadata_pb2.NewTopic(
        name=wish.name,
        partitions=wish.partitions,
        replication_factor=wish.replication_factor,
        assignments=[
            metadata_pb2.ReplicaAssignment(partition=index, broker_ids=brokers)
            for index, brokers in wish.assignments
        ],
        configs=[common_pb2.ConfigEntry(name=n, value=v) for n, v in wish.configs],
    )


def _more_partitions(wish: MorePartitions) -> partitions_pb2.NewPartitions:
    return partitions_pb2.NewPartitions(
        name=wish.topic,
        count=wish.count,
        assignments=[
            partitions_pb2.NewPartitionReplicas(broker_ids=brokers) for brokers in wish.assignments
        ],
    )


def _resource(change: ConfigChange) -> metadata_pb2.AlterConfigResource:
    return metadata_pb2.AlterConfigResource(
        type=change.resource_type,
        name=change.name,
        configs=[
            metadata_pb2.AlterConfigEntry(name=each.key, operation=each.operation, value=each.value)
            for each in change.alterations
        ],
    )

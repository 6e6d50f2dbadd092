"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.controller.partitions.reassignment import Wish
from strandline_broker.hosts.serving.administration import (
    decide_each,
    named_once,
    refused_factors,
    timeout_s,
)
from strandline_broker.kafka.cluster.errors import error_fields
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import NONE, WireError
from strandline_proto.ids import BrokerId

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.kafka.cluster.forward import Forward, Move
    from strandline_broker.kafka.request import Request


class ReassignmentsCalls:
    def __init__(self, forward: Forward, metadata: MetadataCache) -> None:
        self._forward = forward
        self._metadata = metadata

    async def AlterPartitionReassignments(self, request: Request, message: Any) -> Any:
        limit_s = timeout_s(message.timeout_ms)

        async def decide(wishes: list[Wish]) -> list[WireError | None]:
            results = await self._forward.reassign(wishes, limit_s=limit_s)
            return [each.error for each in results]

        answer = answer_of("AlterPartitionReassignments")
        keeps_factor = not message.allow_replication_factor_change
        found = answer(
            allow_replication_factor_change=not keeps_factor, **error_fields(None), responses=[]
        )
        wishes = named_once(
            ((topic.name, each.partition_index), _wish(topic.name, each))
            for topic in message.topics
            for each in topic.partitions
        )
        if keeps_factor:
            try:
                moves = await self._forward.reassignments(limit_s=limit_s)
            except WireError as error:
                return answer(
                    allow_replication_factor_change=False, **error_fields(error), responses=[]
                )
            wishes = refused_factors(
                wishes, self._metadata.view, {(m.topic, m.partition): m.original for m in moves}
            )
        topics: dict[str, Any] = {}
        for (name, partition), result in (await decide_each(wishes, decide)).items():
            if name not in topics:
                topics[name] = answer.ReassignableTopicResponse(name=name, partitions=[])
            topics[name].partitions.append(
                answer.ReassignableTopicResponse.ReassignablePartitionResponse(
                    partition_index=partition, **error_fields(result)
                )
            )
        found.responses = list(topics.values())
        return found

    async def ListPartitionReassignments(self, request: Request, message: Any) -> Any:
        answer = answer_of("ListPartitionReassignments")
        wanted: set[tuple[str, int]] | None = None
        if message.topics is not None:
            wanted = {(t.name, index) for t in message.topics for index in t.partition_indexes}
        moves: list[Move] = []
        try:
            if wanted is None or wanted:
                moves = await self._forward.reassignments(limit_s=timeout_s(message.timeout_ms))
        except WireError as error:
            return answer(**error_fields(error), topics=[])
        topics: dict[str, Any] = {}
        for move in moves:
            if wanted is not None and (move.topic, move.partition) not in wanted:
                continue
            if move.topic not in topics:
                topics[move.topic] = answer.OngoingTopicReassignment(name=move.topic, partitions=[])
            topics[move.topic].partitions.append(
                answer.OngoingTopicReassignment.OngoingPartitionReassignment(
                    partition_index=move.partition,
                    replicas=list(move.replicas),
                    adding_replicas=list(move.adding),
                    removing_replicas=list(move.removing),
                )
            )
        return answer(error_code=NONE, error_message=None, topics=list(topics.values()))


def _wish(topic: str, asked: Any) -> Wish:
    """A null target cancels the reassignment under way."""
    target = asked.replicas
    return Wish(
        topic,
        asked.partition_index,
        None if target is None else tuple(map(BrokerId, target)),
    )

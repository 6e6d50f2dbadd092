"""ElectLeaders: preferred and unclean elections on request (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.partitions.leadership import ElectionType, ElectionWish
from strandline_broker.hosts.serving.administration import timeout_s
from strandline_broker.kafka.cluster.errors import error_fields
from strandline_broker.kafka.codec import answer_of
from strandline_proto.errors import NONE, ElectionNotNeeded, InvalidRequest, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.controller.partitions.leadership import ElectionResult
    from strandline_broker.kafka.cluster.forward import Forward
    from strandline_broker.kafka.request import Request

NAMES_TYPE: Final = 1
"""First version with a type and with an error of the whole request; version 0 is preferred."""
_TYPES: Final = (ElectionType.PREFERRED, ElectionType.UNCLEAN)


class ElectionsCalls:
    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    async def ElectLeaders(self, request: Request, message: Any) -> Any:
        kind = message.election_type if request.version >= NAMES_TYPE else ElectionType.PREFERRED
        wishes = None
        if message.topic_partitions is not None:
            wishes = [
                ElectionWish(topic.topic, partition)
                for topic in message.topic_partitions
                for partition in topic.partitions
            ]
        try:
            results = await self._elected(kind, wishes, timeout_s(message.timeout_ms))
        except WireError as error:
            refused = [(each.topic, each.partition, error) for each in wishes or ()]
            return _answer(error.code, refused)
        if wishes is None:
            results = [each for each in results if not isinstance(each.error, ElectionNotNeeded)]
        return _answer(NONE, [(each.topic, each.partition, each.error) for each in results])

    async def _elected(
        self, kind: int, wishes: list[ElectionWish] | None, limit_s: float
    ) -> list[ElectionResult]:
        if kind not in _TYPES:
            raise InvalidRequest(f"election type {kind} is unknown: 0 is preferred, 1 is unclean")
        if wishes is not None and not wishes:
            return []  # the controller would take it for all partitions
        return await self._forward.elect_leaders(kind, wishes, limit_s=limit_s)


def _answer(error_code: int, results: Iterable[tuple[str, int, WireError | None]]) -> Any:
    answer = answer_of("ElectLeaders")
    topics: dict[str, Any] = {}
    for topic, partition, error in results:
        if topic not in topics:
            topics[topic] = answer.ReplicaElectionResult(topic=topic, partition_result=[])
        topics[topic].partition_result.append(
            answer.ReplicaElectionResult.PartitionResult(
                partition_id=partition, **error_fields(error)
            )
        )
    return answer(error_code=error_code, replica_election_results=list(topics.values()))

"""Elections on the wire: what is asked for, and what the answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline._admin.descriptions import check
from strandline._net.arguments import mapping, partitions_or_topics
from strandline.errors import from_code
from strandline.types import ElectionResult, TopicPartition
from strandline_proto.errors import NONE
from strandline_proto.v1 import elections_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strandline.types import ElectionType

_DESIGNATED: Final = 100


def election(
    kind: ElectionType, partitions: Iterable[tuple[str, int] | str] | None, timeout_s: float
) -> elections_pb2.ElectLeadersRequest | None:
    """The request; None if there is nothing to ask for. A topic's name stands for all of it."""
    request = _request(kind, timeout_s)
    if partitions is None:
        return request
    named: dict[str, elections_pb2.ElectLeadersTopic] = {}
    for wanted in partitions_or_topics("partitions", partitions):
        if isinstance(wanted, str):
            request.topics.add(name=wanted)
            continue
        topic, partition = wanted
        if topic not in named:
            named[topic] = request.topics.add(name=topic)
        named[topic].partitions.add(partition=partition)
    return request if request.topics else None


def moves(
    leaders: Mapping[tuple[str, int], int], timeout_s: float
) -> elections_pb2.ElectLeadersRequest | None:
    request = _request(_DESIGNATED, timeout_s)
    for (topic, partition), leader in mapping("leaders", leaders).items():
        request.topics.add(name=topic).partitions.add(partition=partition, leader=leader)
    return request if request.topics else None


def _request(kind: int, timeout_s: float) -> elections_pb2.ElectLeadersRequest:
    return elections_pb2.ElectLeadersRequest(election_type=kind, timeout_ms=int(timeout_s * 1000))


def results(answer: elections_pb2.ElectLeadersResponse) -> list[ElectionResult]:
    check(answer)
    return [
        ElectionResult(
            TopicPartition(result.topic, result.partition),
            result.leader,
            None
            if result.error_code == NONE
            else from_code(result.error_code, result.error_message),
        )
        for result in answer.results
    ]

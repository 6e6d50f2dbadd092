"""Calls about topics and their partitions on the wire: requests and answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline._net.answers import check
from strandline._net.arguments import mapping, partitions_or_topics
from strandline._net.leaders import Answers, Leaders, Question
from strandline.errors import BrokerUnreachable, UnknownTopicOrPartition, from_code
from strandline.types import ElectionResult, NewPartitions, TopicPartition
from strandline_proto.errors import NONE
from strandline_proto.v1 import delete_records_pb2, elections_pb2, partitions_pb2, truncations_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._net.session import Session
    from strandline.types import ElectionType
    from strandline_proto.v1 import metadata_pb2


def more_partitions(
    wanted: Mapping[str, NewPartitions | int], *, timeout_s: float, validate_only: bool
) -> partitions_pb2.CreatePartitionsRequest:
    """The request that grows these topics."""
    request = partitions_pb2.CreatePartitionsRequest(
        timeout_ms=int(timeout_s * 1000), validate_only=validate_only
    )
    for name, given in mapping("wanted", wanted).items():
        new = NewPartitions(given) if isinstance(given, int) else given
        topic = request.topics.add(name=name, count=new.total_count)
        for brokers in new.new_assignments or ():
            topic.assignments.add(broker_ids=list(brokers))
    return request


def partitions_before(
    request: partitions_pb2.CreatePartitionsRequest,
    answer: partitions_pb2.CreatePartitionsResponse,
) -> dict[str, int]:
    """The number of partitions each topic had. Raises the first error of the answer."""
    check(answer)
    found = {}
    for result in answer.results:
        check(result)
        found[result.name] = result.partitions_before
    for topic in request.topics:
        if topic.name not in found:
            raise BrokerUnreachable(f"the answer says nothing about topic {topic.name!r}")
    return found


UNHEARD_OF_S: Final = 5.0
"""Seconds until a broker knows a topic that another broker has announced."""
PAUSE_S: Final = 0.05


class CreatedTopics:
    """Names of topics that this client has created and not deleted."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def add(self, name: str) -> None:
        self._names.add(name)

    def forget(self, name: str) -> None:
        self._names.discard(name)

    async def described(
        self,
        ask: Callable[[Callable[[Any], Any], Any], Awaitable[Any]],
        request: metadata_pb2.MetadataRequest,
        timeout_s: float,
    ) -> Any:
        """Any broker's metadata answer that has the topics of this client.

        A broker may not know a new topic yet; the request is then repeated.
        """
        clock = asyncio.get_running_loop().time
        until_s = clock() + min(UNHEARD_OF_S, timeout_s)
        while True:
            answer = await ask(lambda stub: stub.Metadata, request)
            unknown = {
                t.name for t in answer.topics if t.error_code == UnknownTopicOrPartition.code
            }
            if not unknown & self._names:
                return answer
            if clock() >= until_s:  # another client has deleted it
                self._names -= unknown
                return answer
            await asyncio.sleep(PAUSE_S)


ATTEMPT_S: Final = 5.0
GRACE_S: Final = 1.0
"""Seconds that a leader may take to answer beyond its own wait."""


async def delete_below(
    session: Session, wanted: Mapping[PartitionKey, int], timeout_s: float
) -> dict[PartitionKey, int]:
    """Deletes records, and returns the low watermark of each partition.

    No live in-sync replica then holds a record below the wanted offset. Raises as
    Leaders.until_answered does.
    """
    leaders = Leaders(session)

    async def ask(missing: Mapping[PartitionKey, int], left_s: float) -> Answers[int]:
        wait_s = min(ATTEMPT_S, left_s)

        def request(epochs: Mapping[PartitionKey, int]) -> delete_records_pb2.DeleteRecordsRequest:
            request = delete_records_pb2.DeleteRecordsRequest(timeout_ms=int(wait_s * 1000))
            for topic_id, partition in epochs:
                request.topics.add(topic_id=topic_id).partitions.add(
                    partition=partition, offset=missing[topic_id, partition]
                )
            return request

        return await leaders.ask(
            missing,
            Question(
                lambda stub: stub.DeleteRecords,
                request,
                delete_records_pb2.DeleteRecordsResponse,
                lambda result, epoch: result.low_watermark,
                wait_s + GRACE_S,
            ),
        )

    late = "the records of {} were not known to be deleted on every replica"
    return await leaders.until_answered(wanted, ask, timeout_s, late)


_DESIGNATED: Final = 100


def election(
    kind: ElectionType, partitions: Iterable[tuple[str, int] | str] | None, timeout_s: float
) -> elections_pb2.ElectLeadersRequest | None:
    """The request; None if it is empty. A topic's name stands for all its partitions."""
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
    """The request that makes these replicas leaders; None if it is empty."""
    request = _request(_DESIGNATED, timeout_s)
    for (topic, partition), leader in mapping("leaders", leaders).items():
        request.topics.add(name=topic).partitions.add(partition=partition, leader=leader)
    return request if request.topics else None


def _request(kind: int, timeout_s: float) -> elections_pb2.ElectLeadersRequest:
    return elections_pb2.ElectLeadersRequest(election_type=kind, timeout_ms=int(timeout_s * 1000))


def results(answer: elections_pb2.ElectLeadersResponse) -> list[ElectionResult]:
    """The outcome for each partition. Raises the error of the whole answer."""
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


async def allow_truncation(
    session: Session, partition: tuple[str, int], broker: int, offset: int, timeout_s: float
) -> None:
    """Permits one replica to truncate; see Admin.allow_truncation."""
    name, number = partition
    topic = await session.cluster.topic(name, timeout_s)
    await session.cluster.refresh(timeout_s)
    address = session.cluster.address_of(broker)
    if address is None:
        live = ", ".join(map(str, sorted(session.cluster.view.brokers))) or "none"
        raise BrokerUnreachable(f"broker {broker} is not among the live brokers ({live})")
    answer = await session.connections.call(
        address,
        lambda stub: stub.AllowTruncation,
        truncations_pb2.AllowTruncationRequest(
            topic_id=topic.topic_id, partition=number, offset=offset
        ),
        timeout_s=timeout_s,
        returns=truncations_pb2.AllowTruncationResponse,
    )
    check(answer)

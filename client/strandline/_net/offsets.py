"""Asks leaders about offsets: ends of logs, offsets for times, ends of epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._net.leaders import Answers, Leaders, Question
from strandline.errors import StrandlineError, TopicRecreated, UnknownTopicOrPartition
from strandline_proto.v1 import fetch_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._net.cluster import Cluster
    from strandline._net.session import Session

ATTEMPT_S: Final = 2.0
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Isolation levels: the end of the log is the high watermark, or the last stable offset."""


class Listed(NamedTuple):
    """A leader's answer; `offset` is -1 if no record matches."""

    offset: int
    timestamp: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The end of a leader epoch in the leader's log."""

    asked_in: int
    """Leader epoch of the question."""
    epoch: int
    end_offset: int


class Offsets:
    """Questions to the leaders of partitions."""

    def __init__(self, session: Session, isolation_level: int = READ_UNCOMMITTED) -> None:
        self._leaders = Leaders(session)
        self._isolation_level = isolation_level

    async def listed(
        self, wanted: Mapping[PartitionKey, int], timeout_s: float
    ) -> dict[PartitionKey, Listed]:
        """Looks up the offset for each timestamp (-1 latest, -2 earliest).

        Raises as Leaders.until_answered does.
        """
        late = "offsets of {} did not come"
        return await self._leaders.until_answered(wanted, self.list_once, timeout_s, late)

    async def list_once(
        self, wanted: Mapping[PartitionKey, int], timeout_s: float
    ) -> Answers[Listed]:
        """Looks up the offset for each timestamp, in one try."""

        def request(epochs: Mapping[PartitionKey, int]) -> fetch_pb2.ListOffsetsRequest:
            request = fetch_pb2.ListOffsetsRequest(
                replica_id=-1, isolation_level=self._isolation_level
            )
            for (topic_id, partition), epoch in epochs.items():
                request.topics.add(topic_id=topic_id).partitions.add(
                    partition=partition,
                    current_leader_epoch=epoch,
                    timestamp=wanted[topic_id, partition],
                )
            return request

        return await self._leaders.ask(
            wanted,
            Question(
                lambda stub: stub.ListOffsets,
                request,
                fetch_pb2.ListOffsetsResponse,
                lambda p, epoch: Listed(p.offset, p.timestamp, p.leader_epoch),
                min(ATTEMPT_S, timeout_s),
            ),
        )

    async def epoch_ends(
        self, wanted: Mapping[PartitionKey, int], timeout_s: float
    ) -> Answers[EpochEnd]:
        """Looks up the end of each epoch in the leader's log (KIP-101), in one try."""

        def request(epochs: Mapping[PartitionKey, int]) -> fetch_pb2.OffsetsForLeaderEpochRequest:
            request = fetch_pb2.OffsetsForLeaderEpochRequest(replica_id=-1)
            for (topic_id, partition), epoch in epochs.items():
                request.topics.add(topic_id=topic_id).partitions.add(
                    partition=partition,
                    current_leader_epoch=epoch,
                    leader_epoch=wanted[topic_id, partition],
                )
            return request

        return await self._leaders.ask(
            wanted,
            Question(
                lambda stub: stub.OffsetsForLeaderEpoch,
                request,
                fetch_pb2.OffsetsForLeaderEpochResponse,
                lambda p, epoch: EpochEnd(epoch, p.leader_epoch, p.end_offset),
                min(ATTEMPT_S, timeout_s),
            ),
        )


def why_gone(cluster: Cluster, topic: str) -> StrandlineError:
    """The error of a topic whose name has another id now, or none."""
    if topic in cluster.view.topics:
        return TopicRecreated(
            f"topic {topic!r} was deleted and created again; offsets in the old one mean nothing "
            "in the new one: assign it again to read it"
        )
    return UnknownTopicOrPartition(f"topic {topic!r} was deleted")

"""Asks leaders to delete records by offset, until they have or the deadline comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline._net.leaders import Answers, Leaders, Question
from strandline_proto.v1 import delete_records_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline._core.cluster_view import PartitionKey
    from strandline._net.session import Session

ATTEMPT_S: Final = 5.0
GRACE_S: Final = 1.0
"""How much longer than its own wait a leader may take to answer."""


async def delete_below(
    session: Session, wanted: Mapping[PartitionKey, int], timeout_s: float
) -> dict[PartitionKey, int]:
    """The low watermark of each partition once no live replica in sync holds a record below the
    wanted offset. Raises as Leaders.until_answered does.
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

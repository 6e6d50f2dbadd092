"""TxnOffsetCommit: from version 3 on with the sender's member and generation (KIP-447), from 5 on
of a producer that does not add the group's partition itself (KIP-890).
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.coordination.decision import Producer
from strandline_broker.core.groups.commands import PartitionCommit, TopicRef, TxnOffsetCommit
from strandline_broker.hosts.groups.txn_commits import ADDED_BY_CLIENT, ADDS_ITSELF
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.bounds import check_topics
from strandline_broker.kafka.groups.errors import code_of
from strandline_proto.errors import (
    NONE,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidTxnState,
    TransactionAbortable,
    WireError,
)
from strandline_proto.ids import ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strandline_broker.hosts.groups.txn_commits import TxnCommits
    from strandline_broker.kafka.request import Request

LOADING_SINCE: Final = 2
"""First version whose clients survive CoordinatorLoadInProgress (KAFKA-7296)."""
ABORTABLE_SINCE: Final = 4
"""First version that knows TransactionAbortable."""
ADDS_PARTITION_SINCE: Final = 5


class TxnOffsetCommitCalls:
    def __init__(self, commits: TxnCommits) -> None:
        self._commits = commits
        self._committed = answer_of("TxnOffsetCommit")

    async def TxnOffsetCommit(self, request: Request, message: Any) -> Any:
        check_topics(message.topics, (topic.partitions for topic in message.topics))
        version = request.version
        errors: Iterator[WireError | None]
        try:
            reply = await self._commits.commit(
                _command(message),
                message.transactional_id,
                transaction_version=(
                    ADDS_ITSELF if version >= ADDS_PARTITION_SINCE else ADDED_BY_CLIENT
                ),
            )
        except WireError as error:
            errors = repeat(error)
            request.errors.append(_code_of(error, version))
        else:
            errors = iter(reply.errors)
            request.errors += {_code_of(each, version) for each in reply.errors} - {NONE}
        return self._committed(topics=list(self._results(message.topics, errors, version)))

    def _results(
        self, topics: Iterable[Any], errors: Iterator[WireError | None], version: int
    ) -> Iterator[Any]:
        new = self._committed.TxnOffsetCommitResponseTopic
        for topic in topics:
            yield new(
                name=topic.name,
                partitions=[
                    new.TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=_code_of(next(errors), version),
                    )
                    for each in topic.partitions
                ],
            )


def _code_of(error: WireError | None, version: int) -> int:
    if isinstance(error, CoordinatorLoadInProgress) and version < LOADING_SINCE:
        return CoordinatorNotAvailable.code
    if isinstance(error, TransactionAbortable) and version < ABORTABLE_SINCE:
        return InvalidTxnState.code
    return code_of(error)


def _command(message: Any) -> TxnOffsetCommit:
    return TxnOffsetCommit(
        group_id=message.group_id,
        producer=Producer(ProducerId(message.producer_id), ProducerEpoch(message.producer_epoch)),
        member_id=message.member_id,
        member_epoch=message.generation_id,
        instance_id=message.group_instance_id,
        partitions=tuple(
            PartitionCommit(
                TopicRef(None, topic.name),
                asked.partition_index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
            )
            for topic in message.topics
            for asked in topic.partitions
        ),
    )

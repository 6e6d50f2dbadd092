"""The answer to a Produce request, written by hand."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from strandline_broker.kafka.records.leader_hints import HINTED, endpoints_tag, leader_tag
from strandline_broker.kafka.versions import BY_NAME, NEVER
from strandline_broker.kafka.wire import Writer
from strandline_proto.errors import (
    NONE,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    ThrottlingQuotaExceeded,
    TransactionAbortable,
    UnknownProducerId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.kafka.records.produce_request import ProduceTopic
    from strandline_broker.kafka.wire import Buffers
    from strandline_proto.hot_messages import ProduceResponse, ProduceResult

LOG_START: Final = 5
MESSAGES: Final = 8
"""First version whose answers explain an error."""
HINTS: Final = 10
"""First version whose answers name the current leader."""
TOPIC_IDS: Final = 13
ABORTABLE: Final = 11
"""First version with TransactionAbortable."""
ADDS_PARTITIONS: Final = 12
"""First version whose transactional batches add their partitions to the transaction (KIP-890)."""
REPEAT: Final = NotEnoughReplicas
"""The error for a producer that must repeat its batch. Each client repeats a batch for this error,
and not each does for UnknownProducerId, or for the errors of a transaction's coordinator.
"""
_NAMED: Final = {
    UnknownProducerId.code: (REPEAT.code, NEVER),
    CoordinatorLoadInProgress.code: (REPEAT.code, NEVER),
    CoordinatorNotAvailable.code: (REPEAT.code, NEVER),
    NotCoordinator.code: (REPEAT.code, NEVER),
    NetworkException.code: (REPEAT.code, NEVER),
    ThrottlingQuotaExceeded.code: (REPEAT.code, NEVER),
    ConcurrentTransactions.code: (REPEAT.code, ADDS_PARTITIONS),
    ProducerFenced.code: (InvalidProducerEpoch.code, NEVER),
    TransactionAbortable.code: (InvalidTxnState.code, ABORTABLE),
    UnknownTopicId.code: (UnknownTopicOrPartition.code, TOPIC_IDS),
}
"""Error -> (the error that Kafka's clients get in its place, first version that gets the error
itself).
"""
_API: Final = BY_NAME["Produce"]
_RESULT: Final = Struct(">ihqq")
"""Partition, error code, base offset and time of the append."""


def produce_answer(
    version: int, topics: Sequence[ProduceTopic], response: ProduceResponse, errors: list[int]
) -> Buffers:
    """The answer. `response` has the outcomes of the batches that were to be appended, in order.
    `errors` gets the codes of the answer's errors.
    """
    out = Writer(compact=_API.is_flexible(version))
    appended = iter(response.partitions)
    hinted: set[int] = set()
    out.length(len(topics))
    for topic in topics:
        if version >= TOPIC_IDS:
            out.raw(topic.topic_id)
        else:
            out.string(topic.name)
        out.length(len(topic.outcomes))
        for outcome in topic.outcomes:
            result = next(appended) if outcome is None else outcome
            code = _write_result(out, version, result, hinted)
            if code != NONE:
                errors.append(code)
        out.no_tags()
    out.int32(0)  # throttle time
    nodes = [each for each in response.node_endpoints if each.node_id in hinted]
    if nodes:
        out.tags([(0, endpoints_tag(nodes))])
    else:
        out.no_tags()
    return out.buffers()


def _named(code: int, version: int) -> int:
    """Returns the error as clients of this version know it."""
    instead = _NAMED.get(code)
    return code if instead is None or version >= instead[1] else instead[0]


def _write_result(out: Writer, version: int, result: ProduceResult, hinted: set[int]) -> int:
    """Returns the code of the result as this version names it."""
    code, base_offset = result.error_code, result.base_offset
    append_time, log_start = result.log_append_time_ms, result.log_start_offset
    if not result.appended:
        base_offset = append_time = log_start = -1
    if code != NONE:
        code = _named(code, version)
    out.raw(_RESULT.pack(result.partition, code, base_offset, append_time))
    if version >= LOG_START:
        out.int64(log_start)
    if version >= MESSAGES:
        out.length(len(result.record_errors))
        for place, message in result.record_errors:
            out.int32(place)
            out.string(message)
            out.no_tags()
        out.string(result.error_message or None)
    leader = result.current_leader
    if version >= HINTS and leader is not None and code in HINTED:
        hinted.add(leader.leader_id)
        out.tags([(0, leader_tag(leader))])
    else:
        out.no_tags()
    return code

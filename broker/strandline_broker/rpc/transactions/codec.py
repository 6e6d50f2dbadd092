"""Partitions and markers of transactions, to and from the wire.

Partitions go by topic. Results stand in the order of the request, and are found by topic id and
partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite
from strandline_proto.errors import NONE, NetworkException, WireError, from_code
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId
from strandline_proto.v1 import transactions_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.transactions.broker_calls import PartitionsToAdd, Results

    Topics = Iterable[transactions_pb2.TxnTopic]
    TopicResults = Iterable[transactions_pb2.TxnTopicResult]


def topics_to_wire(partitions: Iterable[Key]) -> list[transactions_pb2.TxnTopic]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    return [
        transactions_pb2.TxnTopic(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic.items()
    ]


def partitions_from_wire(topics: Topics) -> list[Key]:
    """The partitions in the order of the request."""
    return [(topic.topic_id, index) for topic in topics for index in topic.partitions]


def results_to_wire(
    topics: Topics, errors: Iterable[WireError | None]
) -> Iterable[transactions_pb2.TxnTopicResult]:
    """The results of `partitions_from_wire(topics)`, whose errors are these."""
    of_each = iter(errors)
    for topic in topics:
        result = transactions_pb2.TxnTopicResult(topic_id=topic.topic_id)
        for index in topic.partitions:
            told, error = result.partitions.add(partition=index), next(of_each)
            if error is not None:
                told.error_code, told.error_message = error.code, str(error)
        yield result


def results_from_wire(partitions: Sequence[Key], topics: TopicResults) -> list[WireError | None]:
    """The result of each of the partitions. One that the answer lacks counts as not answered."""
    found = {
        (topic.topic_id, each.partition): each for topic in topics for each in topic.partitions
    }
    results: list[WireError | None] = []
    for topic_id, index in partitions:
        each = found.get((topic_id, index))
        if each is None:
            results.append(NetworkException(f"the answer lacks partition {index}"))
        elif each.error_code == NONE:
            results.append(None)
        else:
            results.append(from_code(each.error_code, each.error_message))
    return results


def additions_to_wire(
    transactions: Iterable[PartitionsToAdd],
) -> transactions_pb2.AddPartitionsToTxnRequest:
    return transactions_pb2.AddPartitionsToTxnRequest(
        transactions=map(_addition_to_wire, transactions)
    )


def added_from_wire(
    transactions: Sequence[PartitionsToAdd], answer: transactions_pb2.AddPartitionsToTxnResponse
) -> Results:
    check_length(len(answer.results), len(transactions))
    results: Results = []
    for asked, each in zip(transactions, answer.results, strict=True):
        if each.error_code != NONE:
            error = from_code(each.error_code, each.error_message)
            results.append([error] * len(asked.partitions))
        else:
            results.append(results_from_wire(asked.partitions, each.topics))
    return results


def written_from_wire(
    markers: Sequence[MarkerToWrite], answer: transactions_pb2.WriteTxnMarkersResponse
) -> Results:
    check_length(len(answer.markers), len(markers))
    return [
        results_from_wire(asked.partitions, each.topics)
        for asked, each in zip(markers, answer.markers, strict=True)
    ]


def check_length(answered: int, asked: int) -> None:
    if answered != asked:
        raise NetworkException(f"a broker gave {answered} results for {asked} elements")


def _addition_to_wire(
    asked: PartitionsToAdd,
) -> transactions_pb2.AddPartitionsToTxnTransaction:
    return transactions_pb2.AddPartitionsToTxnTransaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        verify_only=asked.verify_only,
        topics=topics_to_wire(asked.partitions),
    )


def marker_to_wire(asked: MarkerToWrite) -> transactions_pb2.TxnMarker:
    marker = asked.marker
    return transactions_pb2.TxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        topics=topics_to_wire(asked.partitions),
    )


def marker_from_wire(asked: transactions_pb2.TxnMarker) -> MarkerToWrite:
    marker = EndMarker(
        ProducerId(asked.producer_id),
        ProducerEpoch(asked.producer_epoch),
        asked.committed,
        LeaderEpoch(asked.coordinator_epoch),
        asked.transaction_version,
    )
    return MarkerToWrite(marker, partitions_from_wire(asked.topics))

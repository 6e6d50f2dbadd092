"""The open transactions that hang: no coordinator will end them (KIP-664)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline import TopicPartition
    from strandline.transaction_types import ProducerDescription, TransactionDescription

    Open = tuple[TopicPartition, ProducerDescription]


@dataclass(frozen=True, slots=True)
class Hanging:
    """A transaction that is open in a partition, and ongoing at no coordinator."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_timestamp_ms: int
    transactional_id: str | None


def suspects(
    producers: "Mapping[TopicPartition, Sequence[ProducerDescription]]", older_ms: int
) -> "list[Open]":
    """The open transactions whose last record is older than this time."""
    return [
        (tp, each)
        for tp, known in producers.items()
        for each in known
        if each.transaction_start_offset is not None and each.last_timestamp_ms < older_ms
    ]


def hanging_in(
    open_ones: "Sequence[Open]",
    listed: Mapping[int, str],
    described: "Mapping[str, TransactionDescription]",
) -> list[Hanging]:
    """Returns the open transactions that no coordinator has.

    `listed` has the transactional ids by producer id.
    """
    found = []
    for tp, producer in open_ones:
        transactional_id = listed.get(producer.producer_id)
        known = None if transactional_id is None else described.get(transactional_id)
        is_same = known is not None and known.producer_id == producer.producer_id
        if known is not None and is_same and tp in known.partitions:
            continue  # its coordinator ends it
        start = producer.transaction_start_offset
        assert start is not None
        found.append(
            Hanging(
                tp.topic,
                tp.partition,
                start,
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.last_timestamp_ms,
                transactional_id,
            )
        )
    return found

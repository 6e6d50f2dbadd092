"""The values that an administrator's calls about transactions take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline.types import TopicPartition

TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One entry of `Admin.list_transactions`."""

    transactional_id: str
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit` or `CompleteAbort`."""
    producer_id: int
    coordinator: int
    """Id of the broker that listed the transaction."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, as its coordinator describes it."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    """Start of the open transaction, in milliseconds since 1970; None if none is open."""
    partitions: frozenset[TopicPartition]
    """Partitions of the open transaction."""
    coordinator: int


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer that a partition remembers, as the partition's leader describes it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """Sequence of the last record; -1 if there is none."""
    last_timestamp_ms: int
    """-1 if there is no record."""
    coordinator_epoch: int | None
    """Of the last end marker; None if there is none."""
    transaction_start_offset: int | None
    """First offset of the open transaction; None if none is open."""

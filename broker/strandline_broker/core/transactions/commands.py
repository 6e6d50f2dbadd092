"""The commands, answers and effects of transactional ids.

A refusal is an answer: a `WireError`. `PARKED` and `NO_PRODUCER_ID_LEFT` are for the host: it asks
again when the transaction has ended, or when it has more producer ids.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from strandline_broker.core.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    Transaction,
    TxnPartition,
)
from strandline_proto.errors import WireError
from strandline_proto.ids import NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXPIRED_AT_ONCE_MAX: Final = 1_000
"""Ids that one decision removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The surroundings of a decision."""

    wall_ms: int
    take_producer_id: Callable[[], ProducerId | None]
    """Returns a producer id that no producer has; None: there is none at hand (I-170)."""
    is_sure: bool = True
    """True: no other broker leads because the controller took this one for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    transactional_id: str
    timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    """The id that the producer has; -1: it is new."""
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @property
    def is_new(self) -> bool:
        return self.producer_id == NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class AddPartitions:
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TxnPartition, ...]
    version: int
    """Version of the client's transactions: 2 if a partition's leader adds it (KIP-890)."""
    waits: bool = False
    """True: the answer waits while the transaction before is being completed; False: it is 51."""


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TxnPartition, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    version: int


@dataclass(frozen=True, slots=True)
class MarkersDone:
    """The markers of these partitions are committed, or the partitions are deleted."""

    transactional_id: str
    prepared_at: Offset
    """Offset of the decision that the markers carry out."""
    partitions: tuple[TxnPartition, ...]


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """Aborts the transaction if it is past its timeout."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ExpireIds:
    """Removes those of the ids that were not used for long."""

    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """Asks for the values of all ids."""


OfOneId: TypeAlias = (
    InitProducer
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | MarkersDone
    | AbortTimedOut
    | DescribeTransaction
)
Command: TypeAlias = OfOneId | ExpireIds | ListTransactions

# Answers


class Producer(NamedTuple):
    """The id and epoch that a producer uses from now on."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class PartitionsAdded(NamedTuple):
    """The result for each partition of a request, in its order; None: it takes part."""

    errors: tuple[WireError | None, ...]


class Described(NamedTuple):
    transactional_id: str
    transaction: Transaction


class Listed(NamedTuple):
    transactions: Mapping[str, Transaction]


class Later(enum.Enum):
    PARKED = "the transaction ends first"
    NO_PRODUCER_ID_LEFT = "the broker needs more producer ids first"


PARKED: Final = Later.PARKED
NO_PRODUCER_ID_LEFT: Final = Later.NO_PRODUCER_ID_LEFT

Reply: TypeAlias = Producer | PartitionsAdded | Described | Listed | Later | WireError | None

# Effects


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Send the markers of the decided transaction once the decision is committed (I-164)."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction is completed: ask parked calls again."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """The coordinator itself has decided to abort."""

    transactional_id: str
    why: str


Effect: TypeAlias = SendMarkers | Ended | Aborted

"""The decision of a coordinator's shard: records for the log, and the effects and answer that
follow.

A shard's host carries a decision out in one step without `await`. It encodes the records into one
batch, replays them, appends the batch, carries out the effects, and parks the answer. The answer is
not sent before everything in it is committed (I-104).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from strandline_broker.core.replication.verification import Guard
    from strandline_proto.ids import ProducerEpoch, ProducerId

Entity: TypeAlias = Hashable
"""The object that an answer waits for; the application chooses its name. Groups have a group's id,
or (group id, member id).
"""

Answer = TypeVar("Answer", covariant=True)
Effect = TypeVar("Effect", covariant=True)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a coordinator's log; without a value a tombstone. Only the application knows
    the types of keys and values.
    """

    key: Any
    value: Any


class Producer(NamedTuple):
    """The producer whose transaction a batch belongs to."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    guard: Guard | None = None
    """The guard of the question to the transaction's coordinator (I-158); None: the transaction was
    open in this partition before.
    """


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer, Effect]):
    """One atomic batch, possibly empty, with its immediate effects and the answer after its
    commit.
    """

    records: tuple[Record, ...]
    answer: Answer
    """The answer; it may be an error, which may mention state that is not committed yet."""
    effects: tuple[Effect, ...] = ()
    about: Entity | None = None
    """The entity whose last record must be committed before the answer is sent, if there are no
    records; None stands for the whole shard. With records the answer waits for these.
    """
    producer: Producer | None = None
    """The producer whose open transaction the records belong to; None: to no transaction."""

"""What a coordinator's shard decides: records for the log, and what follows once they are in it.

A shard's host carries a decision out in one step without `await`: it encodes the records into one
batch, replays them, appends the batch, carries out the effects, and parks the answer. Nobody hears
the answer before everything it tells of is committed (I-104).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from strandline_broker.core.coordination.codec import GroupKey, GroupValue

Entity: TypeAlias = str | tuple[str, str]
"""What is waited for: a group by its id, or one of its members by (group id, member id)."""

Answer = TypeVar("Answer", covariant=True)
Effect = TypeVar("Effect", covariant=True)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a coordinator's log, as the codec knows it; without a value a tombstone."""

    key: GroupKey
    value: GroupValue | None


@dataclass(frozen=True, slots=True)
class Decision(Generic[Answer, Effect]):
    """One atomic batch, possibly empty, what is done at once, and what is said once it is true."""

    records: tuple[Record, ...]
    answer: Answer
    """An error is an answer too: it may tell of what is not committed yet."""
    effects: tuple[Effect, ...] = ()
    about: Entity | None = None
    """Without records: whose last record must be committed before the answer leaves; None stands
    for the whole shard. With records the answer waits for these.
    """

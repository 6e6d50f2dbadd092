"""The decision of a coordinator's shard: records for the log, and the effects and answer that
follow.

A shard's host carries a decision out in one step without `await`. It encodes the records into one
batch, replays them, appends the batch, carries out the effects, and parks the answer. The answer is
not sent before everything in it is committed (I-104).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from strandline_broker.core.groups.records.codec import GroupKey, GroupValue

Entity: TypeAlias = str | tuple[str, str]
"""The object that an answer waits for: a group by its id, or a member by (group id, member id)."""

Answer = TypeVar("Answer", covariant=True)
Effect = TypeVar("Effect", covariant=True)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a coordinator's log, as the codec knows it; without a value a tombstone."""

    key: GroupKey
    value: GroupValue | None


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

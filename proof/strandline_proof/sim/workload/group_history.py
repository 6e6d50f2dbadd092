"""What the members of groups, and who administers them, saw happen: one event after the other, in
the order of simulated time, for oracles that judge it later.

Whoever acts writes down what it asks before it asks, and what it was told when it was told. A
question that ended without an answer that says which (a timeout, a crash) stays open: it may have
been carried out, then or later.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EVENTS_MAX: Final = 200_000
"""Many times what a run brings: more is a member that spins."""

Partition = tuple[str, int]
"""A topic's name and the number of one of its partitions."""


class Committed(NamedTuple):
    """What is committed of one partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """It is a member, or one anew: from `start()` or after it was lost."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """`on_partitions_assigned` was called: from here on it owns them."""

    partitions: frozenset[Partition]
    member_epoch: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """`on_partitions_revoked` has ended: from here on it does not own them."""

    partitions: frozenset[Partition]
    member_epoch: int


@dataclass(frozen=True, slots=True)
class Lost:
    """`on_partitions_lost` was called: they may long be another's."""

    partitions: frozenset[Partition]
    member_epoch: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A poll handed over a record."""

    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class CommitAsked:
    operation: int
    offsets: Mapping[Partition, Committed]
    member_id: str
    """Empty for who is no member."""
    member_epoch: int
    by_itself: bool = False
    """Whether this is what auto-commit is to have committed by now, which nobody hears about."""


@dataclass(frozen=True, slots=True)
class CommitAcknowledged:
    operation: int


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """It was not carried out, and never will be."""

    operation: int
    error: str


@dataclass(frozen=True, slots=True)
class CommitUnknown:
    """Nobody has said in time; it may be carried out later."""

    operation: int
    error: str


@dataclass(frozen=True, slots=True)
class OffsetsAsked:
    """It asks what its group has committed."""

    operation: int
    group: str
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class OffsetsTold:
    operation: int
    offsets: Mapping[Partition, Committed | None]
    """None where the answer says that nothing is committed."""


@dataclass(frozen=True, slots=True)
class Left:
    """`stop()` has returned."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """Its process is dead."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Its process does not run."""


@dataclass(frozen=True, slots=True)
class Resumed:
    pass


@dataclass(frozen=True, slots=True)
class AdminAsked:
    """An administrator wants something of a group: `what` is the method of Admin."""

    operation: int
    what: str
    group: str
    offsets: Mapping[Partition, Committed | None] = field(default_factory=dict)
    """What they are to be, None for what is to be forgotten."""
    members: frozenset[str] = frozenset()
    """Who is to go, by member id."""


@dataclass(frozen=True, slots=True)
class AdminAcknowledged:
    operation: int


@dataclass(frozen=True, slots=True)
class AdminRefused:
    """It was not carried out, and never will be."""

    operation: int
    error: str


@dataclass(frozen=True, slots=True)
class AdminUnknown:
    operation: int
    error: str


GroupEvent = (
    Joined
    | Assigned
    | Revoked
    | Lost
    | Delivered
    | CommitAsked
    | CommitAcknowledged
    | CommitRefused
    | CommitUnknown
    | OffsetsAsked
    | OffsetsTold
    | Left
    | Crashed
    | Paused
    | Resumed
    | AdminAsked
    | AdminAcknowledged
    | AdminRefused
    | AdminUnknown
)


class Told(NamedTuple):
    at_s: float
    who: str
    """One life of one actor: a process that was started again is another."""
    event: GroupEvent


class GroupHistory:
    """Append-only; `now_s` is the simulated time."""

    def __init__(self, now_s: Callable[[], float], bound: int = EVENTS_MAX) -> None:
        self.told: list[Told] = []
        self.on_told: Callable[[Told], None] = lambda told: None
        self._now_s = now_s
        self._bound = bound
        self._operations = itertools.count(1)

    def new_operation(self) -> int:
        """A number for a question, by which its answer names it."""
        return next(self._operations)

    def add(self, who: str, event: GroupEvent) -> None:
        assert len(self.told) < self._bound, f"{who}: {self._bound} events, and one more: {event}"
        told = Told(self._now_s(), who, event)
        self.told.append(told)
        self.on_told(told)

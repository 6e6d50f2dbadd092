"""Events that members of groups and their administrators saw, in the order of simulated time, for
oracles that judge them later.

An actor records a request before it sends it, and an answer when it receives it. A request whose
answer is unknown (a timeout, a crash) stays open: it may have been carried out, then or later.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EVENTS_MAX: Final = 200_000
"""Many times the events of a run: more means a member that spins."""

Partition = tuple[str, int]
"""A topic's name and the number of one of its partitions."""


class Committed(NamedTuple):
    """The committed offset of one partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """The consumer is a member, or a member again: from `start()` or after it was lost."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """`on_partitions_assigned` was called: from here on the member owns them."""

    partitions: frozenset[Partition]
    member_epoch: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """`on_partitions_revoked` has ended: from here on the member does not own them."""

    partitions: frozenset[Partition]
    member_epoch: int


@dataclass(frozen=True, slots=True)
class Lost:
    """`on_partitions_lost` was called: other members may have owned them for long."""

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
    """Empty if the actor is no member."""
    member_epoch: int
    by_itself: bool = False
    """True if auto-commit commits this by itself; its outcome is never reported."""


@dataclass(frozen=True, slots=True)
class CommitAcknowledged:
    operation: int


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """The commit was not carried out, and never will be."""

    operation: int
    error: str


@dataclass(frozen=True, slots=True)
class CommitUnknown:
    """No answer came in time; the commit may be carried out later."""

    operation: int
    error: str


@dataclass(frozen=True, slots=True)
class OffsetsAsked:
    """The actor queries its group's committed offsets."""

    operation: int
    group: str
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class OffsetsTold:
    operation: int
    offsets: Mapping[Partition, Committed | None]
    """None for a partition without a committed offset in the answer."""


@dataclass(frozen=True, slots=True)
class Left:
    """`stop()` has returned."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The actor's process is dead."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The actor's process does not run."""


@dataclass(frozen=True, slots=True)
class Resumed:
    pass


@dataclass(frozen=True, slots=True)
class AdminAsked:
    """An administrator requests a change of a group: `what` is the method of Admin."""

    operation: int
    what: str
    group: str
    offsets: Mapping[Partition, Committed | None] = field(default_factory=dict)
    """The requested offsets; None for those to be deleted."""
    members: frozenset[str] = frozenset()
    """The members to be removed, by member id."""


@dataclass(frozen=True, slots=True)
class AdminAcknowledged:
    operation: int


@dataclass(frozen=True, slots=True)
class AdminRefused:
    """The request was not carried out, and never will be."""

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
    """One life of one actor: a restarted process is another."""
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
        """A number for a request, by which its answer names it."""
        return next(self._operations)

    def add(self, who: str, event: GroupEvent) -> None:
        assert len(self.told) < self._bound, f"{who}: {self._bound} events, and one more: {event}"
        told = Told(self._now_s(), who, event)
        self.told.append(told)
        self.on_told(told)

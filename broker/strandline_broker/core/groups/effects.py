"""The effects of a decision about groups, carried out within its own step.

The result of an effect arrives as a command: a timer as `SessionEnded`, `RebalanceEnded`,
`JoinEnded` or `SyncEnded`, a computation as `Assigned`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import CallReply


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A timer that fires as `SessionEnded`. Every message of the member restarts it."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """A timer that fires as `RebalanceEnded`, with the epoch that `StartTimer` gave; one for each
    member.
    """

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """A timer of a classic group that fires as `JoinEnded`."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """A timer of a classic group that fires as `SyncEnded`, with the generation that `StartTimer`
    gave.
    """

    group_id: str


MemberTimer: TypeAlias = SessionTimer | RebalanceTimer
TimerKey: TypeAlias = MemberTimer | JoinTimer | SyncTimer


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Start a timer, replacing one with the same key."""

    key: TimerKey
    ms: int
    epoch: int = -1
    """Member epoch for a `RebalanceTimer`, generation for a `SyncTimer`."""


@dataclass(frozen=True, slots=True)
class StopTimer:
    key: TimerKey


@dataclass(frozen=True, slots=True)
class Changed:
    """The answers for these members, or their targets, have changed. `Groups.render` returns the
    error for one that is no longer a member. Members that a push reaches are reconciled.
    """

    group_id: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute a target for the group. If that takes long, ask `Groups.to_assign`, compute outside
    of the step, and return the result as `Assigned`. One computation that is requested after the
    last of several `Compute`s satisfies all of them.
    """

    group_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a parked call of a classic group once the group's last record is committed."""

    group_id: str
    call: int
    reply: CallReply


@dataclass(frozen=True, slots=True)
class Rebalances:
    """Note that a classic group has begun a rebalance."""

    group_id: str
    generation: int
    """The last generation."""
    why: str


Effect: TypeAlias = StartTimer | StopTimer | Changed | Compute | Answer | Rebalances

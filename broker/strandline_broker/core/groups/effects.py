"""The effects of a decision about groups, carried out within its own step.

The result of an effect arrives as a command: a timer as `SessionEnded` or `RebalanceEnded`, a
computation as `Assigned`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


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


TimerKey: TypeAlias = SessionTimer | RebalanceTimer


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Start a timer, replacing one with the same key."""

    key: TimerKey
    ms: int
    member_epoch: int = -1
    """Member epoch for a `RebalanceTimer`."""


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


Effect: TypeAlias = StartTimer | StopTimer | Changed | Compute

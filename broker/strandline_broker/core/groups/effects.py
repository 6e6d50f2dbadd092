"""What a decision of the groups wishes to be done, within its own step.

What an effect sets going comes back as a command: a timer as `SessionEnded` or `RebalanceEnded`, a
computation as `Assigned`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """Fires as `SessionEnded`. Everything heard from the member starts it anew."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceTimer:
    """Fires as `RebalanceEnded`, with the epoch that `StartTimer` gave; one for each member."""

    group_id: str
    member_id: str


TimerKey: TypeAlias = SessionTimer | RebalanceTimer


@dataclass(frozen=True, slots=True)
class StartTimer:
    """In place of one of the same key."""

    key: TimerKey
    ms: int
    member_epoch: int = -1
    """Of a `RebalanceTimer`."""


@dataclass(frozen=True, slots=True)
class StopTimer:
    key: TimerKey


@dataclass(frozen=True, slots=True)
class Changed:
    """What is to be said to these members has changed, or their target has; `Groups.render` answers
    with the error for one that is a member no more. Those that a push reaches are reconciled.
    """

    group_id: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """The group wants a target: ask `Groups.to_assign` when it may take a while, compute outside of
    the step, and come back with `Assigned`. Any number of these are met by one computation that is
    asked for after the last.
    """

    group_id: str


Effect: TypeAlias = StartTimer | StopTimer | Changed | Compute

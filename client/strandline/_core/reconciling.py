"""The steps between a member's granted partitions and those that its application knows.

The coordinator grants partitions. The application learns of changes step by step: lost partitions,
then revoked ones, then assigned ones. Each step begins when the one before has ended.

A partition counts as owned from the receipt of its grant to the end of its revocation (I-134). One
that is granted and revoked before the application knows it needs no step.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline._core.cluster_view import PartitionKey

NOTHING: frozenset[PartitionKey] = frozenset()


class Kind(enum.Enum):
    """The kinds of steps."""

    LOSE = "lose"
    """Call the listener for partitions of an ended membership; commits of them fail."""
    REVOKE = "revoke"
    """Give partitions up: stop delivery, commit, call the listener."""
    ASSIGN = "assign"
    """Take partitions up: find the positions, call the listener, deliver."""


class Step(NamedTuple):
    """One step to carry out; its `on_` input confirms it."""

    kind: Kind
    partitions: frozenset[PartitionKey]
    grants: dict[PartitionKey, int]
    """Number of the grant of each partition, for an ASSIGN."""


class Reconciling:
    """State of one member's assignment."""

    def __init__(self) -> None:
        self.granted = NOTHING
        """What the coordinator has said last."""
        self.assigned = NOTHING
        """Partitions that the application knows, until the end of their revocation or loss."""
        self.lost = NOTHING
        """Part of `assigned` that the member has lost without the application's knowledge."""
        self._grants: dict[PartitionKey, int] = {}
        self._granted_so_far = 0

    @property
    def owned(self) -> frozenset[PartitionKey]:
        """Partitions that no other member may own, as far as this member knows."""
        return self.granted | (self.assigned - self.lost)

    @property
    def is_given_up(self) -> bool:
        """True if the coordinator waits for no revocation: the member may acknowledge."""
        return self.assigned - self.lost <= self.granted

    def on_granted(self, partitions: Iterable[PartitionKey]) -> None:
        """Applies the set of partitions that the member may own from now on."""
        granted = frozenset(partitions)
        for key in sorted(granted - self.granted):
            self._granted_so_far += 1
            self._grants[key] = self._granted_so_far
        for key in self.granted - granted:
            self._grants.pop(key, None)
        self.granted = granted

    def on_membership_lost(self) -> None:
        """Ends the ownership of all partitions: the member is fenced, or has left."""
        self.lost = self.assigned
        self.granted = NOTHING
        self._grants.clear()

    def next_step(self) -> Step | None:
        """Returns the step to carry out now; None if the application knows all."""
        if self.lost:
            return Step(Kind.LOSE, self.lost, {})
        if revoked := self.assigned - self.granted:
            return Step(Kind.REVOKE, revoked, {})
        if added := self.granted - self.assigned:
            return Step(Kind.ASSIGN, added, {key: self._grants[key] for key in added})
        return None

    # Steps that were carried out.

    def on_told(self, partitions: frozenset[PartitionKey]) -> None:
        """Notes that the listener has handled these revoked or lost partitions."""
        self.assigned -= partitions
        self.lost -= partitions

    def still_granted(self, step: Step) -> frozenset[PartitionKey]:
        """The partitions of an ASSIGN that still belong to the member by the same grant.

        Another member may have read a partition that was revoked and granted again meanwhile.
        """
        return frozenset(
            key for key, grant in step.grants.items() if self._grants.get(key) == grant
        )

    def on_assigned(self, partitions: frozenset[PartitionKey]) -> None:
        """Notes that the listener is about to learn of these assigned partitions."""
        self.assigned |= partitions

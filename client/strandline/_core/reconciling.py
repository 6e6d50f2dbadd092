"""What a member has been granted and what its application knows of, and the steps from one to the
other.

The coordinator says what the member may own; the application hears of it step by step, each begun
when the one before has ended: what is lost, then what is revoked, then what is assigned. A
partition counts as owned from the receipt of its grant to the end of its revocation (I-134), so one
that was granted and taken back before the application heard of it needs no step at all.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline._core.cluster_view import PartitionKey

NOTHING: frozenset[PartitionKey] = frozenset()


class Kind(enum.Enum):
    LOSE = "lose"
    """The membership has ended: the application is told, and can commit nothing any more."""
    REVOKE = "revoke"
    """To be given up: deliver nothing more, commit, tell the application."""
    ASSIGN = "assign"
    """To be taken up: find the positions, tell the application, deliver."""


class Step(NamedTuple):
    """One thing to carry out, to be confirmed by its `on_` input."""

    kind: Kind
    partitions: frozenset[PartitionKey]
    grants: dict[PartitionKey, int]
    """Which grant each partition of an ASSIGN is of."""


class Reconciling:
    """State of one member's assignment."""

    def __init__(self) -> None:
        self.granted = NOTHING
        """What the coordinator has said last."""
        self.assigned = NOTHING
        """What the application has been told of, to the end of its revocation or loss."""
        self.lost = NOTHING
        """Of `assigned`: the member owns it no more, and the application has not heard of it."""
        self._grants: dict[PartitionKey, int] = {}
        self._granted_so_far = 0

    @property
    def owned(self) -> frozenset[PartitionKey]:
        """What others must not own, as far as this member knows."""
        return self.granted | (self.assigned - self.lost)

    @property
    def is_given_up(self) -> bool:
        """Whether nothing is left that the coordinator waits for: time to acknowledge."""
        return self.assigned - self.lost <= self.granted

    def on_granted(self, partitions: Iterable[PartitionKey]) -> None:
        """All that the member may own from now on."""
        granted = frozenset(partitions)
        for key in sorted(granted - self.granted):
            self._granted_so_far += 1
            self._grants[key] = self._granted_so_far
        for key in self.granted - granted:
            self._grants.pop(key, None)
        self.granted = granted

    def on_membership_lost(self) -> None:
        """Fenced, or out by its own word: nothing is the member's any more."""
        self.lost = self.assigned
        self.granted = NOTHING
        self._grants.clear()

    def next_step(self) -> Step | None:
        """What to do now; None if the application knows all."""
        if self.lost:
            return Step(Kind.LOSE, self.lost, {})
        if revoked := self.assigned - self.granted:
            return Step(Kind.REVOKE, revoked, {})
        if added := self.granted - self.assigned:
            return Step(Kind.ASSIGN, added, {key: self._grants[key] for key in added})
        return None

    # Steps that were carried out.

    def on_told(self, partitions: frozenset[PartitionKey]) -> None:
        """The application has heard that these are revoked or lost, and has done what it wished."""
        self.assigned -= partitions
        self.lost -= partitions

    def still_granted(self, step: Step) -> frozenset[PartitionKey]:
        """Of an ASSIGN: what is the member's by the very grant for which positions were sought.

        What was taken away and granted again meanwhile may have been read on by somebody else.
        """
        return frozenset(
            key for key, grant in step.grants.items() if self._grants.get(key) == grant
        )

    def on_assigned(self, partitions: frozenset[PartitionKey]) -> None:
        """The application is about to hear that these are its own."""
        self.assigned |= partitions

"""Who follows the roles of this broker's replicas: whatever keeps state of its own for a partition
that it leads, as a coordinator does.

Observers are given to the replicas when these are made, and are told in that order, within the step
that changes the role: between what they are told and what has happened there is no `await`. For one
replica they hear elected, then committed any number of times, then resigned; and so on; and deleted
last, when its files are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from strandline_broker.hosts.partition import Partition


class RoleObserver(Protocol):
    def elected(self, partition: Partition, epoch: int, start: int) -> None:
        """It leads in `epoch`, which begins at offset `start`: what lies below is of earlier
        leaders.
        """

    def committed(self, partition: Partition, end: int) -> None:
        """While it leads, all below `end` has become committed; who waited for that was answered
        before.
        """

    def resigned(self, partition: Partition) -> None:
        """It leads no more; who waited for a commit has been told that its fate is unknown."""

    def deleted(self, partition: Partition) -> None:
        """The controller has removed the replica."""

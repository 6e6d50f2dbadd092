"""The role of one replica in one leader epoch, as the replica itself sees it: leader or follower.

A role is made when its epoch begins and never used again after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from strandline_broker.core.replication.follower import Follower
    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.core.replication.partition_state import PartitionState


class Role(Protocol):
    @property
    def leader(self) -> Leader | None:
        """The leader's machine; None in a follower."""
        ...

    @property
    def follower(self) -> Follower | None:
        """The follower's machine; None in a leader."""
        ...

    def end(self, why: str) -> None:
        """End the role."""
        ...

    def on_state(self, state: PartitionState) -> None:
        """Take a newer partition epoch of the same leader epoch."""
        ...

    def on_healing(self) -> None:
        """Called before the log is truncated at its damage."""
        ...

    def on_own_log_start(self) -> None:
        """Called when the replica's log begins later than before."""
        ...

    def on_durable(self) -> None:
        """Called when more of the log is durable."""
        ...

"""Replicas that have changed since they were last looked at.

A step of a broker changes one of its replicas at most, and mostly none. Every value of a replica
that an oracle reads must be compared here, or the oracle looks too late.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from strandline_broker.core.replication.leader import Leader
    from strandline_broker.hosts.replica.partition import Partition

_OF_REPLICA: Final = attrgetter(
    "log",
    "log.state.end",
    "log.state.start",
    "high_watermark",
    "state",
    "role",  # directories whose machine stays
)
_OF_LEADER: Final = attrgetter("partition_epoch", "high_watermark", "proposed", "isr", "followers")


class Look:
    """A replica after the last step that changed it. The comparison runs after every step, so it
    compares tuples of attributes, and uses no property where an attribute will do.
    """

    __slots__ = ("_follower", "_leader", "_may_fetch", "_of_leader", "_of_replica")

    def __init__(self, partition: Partition) -> None:
        self._follower, self._leader = partition.follower, partition.leader
        self._of_replica = _OF_REPLICA(partition)
        self._may_fetch = self._follower is None or self._follower.may_fetch
        self._of_leader = None if self._leader is None else _kept(self._leader)

    def is_true_of(self, partition: Partition) -> bool:
        """True if no value that an oracle reads has changed."""
        if _OF_REPLICA(partition) != self._of_replica:
            return False
        if self._follower is not None:
            return self._follower.may_fetch == self._may_fetch
        return self._leader is None or _OF_LEADER(self._leader) == self._of_leader


def _kept(leader: Leader) -> tuple[Any, ...]:
    *others, followers = _OF_LEADER(leader)
    return (*others, dict(followers))

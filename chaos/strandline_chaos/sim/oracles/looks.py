"""Which replicas have changed since they were last looked at.

A step of a broker changes one of its replicas at most, and mostly none. Whatever an oracle reads of
a replica must be compared here, or it is looked at too late.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from strandline_broker.core.leader import Leader
    from strandline_broker.hosts.partition import Partition

_OF_REPLICA: Final = attrgetter(
    "log",
    "log.log_end_offset",
    "log.log_start_offset",
    "high_watermark",
    "state",
    "follower",
    "leader",
)
_OF_LEADER: Final = attrgetter("partition_epoch", "high_watermark", "proposed", "isr", "followers")


class Look:
    """A replica as it was after the last step that changed it. This is asked after every step, so
    it compares tuples.
    """

    __slots__ = ("leader", "may_fetch", "replica")

    def __init__(self, partition: Partition) -> None:
        follower, leader = partition.follower, partition.leader
        self.replica = _OF_REPLICA(partition)
        self.may_fetch = follower is None or follower.may_fetch
        self.leader = None if leader is None else _kept(leader)

    def is_true_of(self, partition: Partition) -> bool:
        """Whether nothing that an oracle reads has changed."""
        if _OF_REPLICA(partition) != self.replica:
            return False
        follower, leader = partition.follower, partition.leader
        if follower is not None and follower.may_fetch != self.may_fetch:
            return False
        return leader is None or _OF_LEADER(leader) == self.leader


def _kept(leader: Leader) -> tuple[Any, ...]:
    *others, followers = _OF_LEADER(leader)
    return (*others, dict(followers))

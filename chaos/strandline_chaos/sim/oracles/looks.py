"""Which replicas have changed since they were last looked at.

A step of a broker changes one of its replicas at most, and mostly none. Whatever an oracle reads of
a replica must be compared here, or it is looked at too late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline_broker.hosts.partition import Partition


class Look:
    """A replica as it was after the last step that changed it."""

    __slots__ = (
        "end",
        "follower",
        "followers",
        "high_watermark",
        "isr",
        "leader",
        "leader_high_watermark",
        "log",
        "may_fetch",
        "partition_epoch",
        "proposed",
        "start",
        "state",
    )

    def __init__(self, partition: Partition) -> None:
        log, leader, follower = partition.log, partition.leader, partition.follower
        self.log = log
        self.end = log.log_end_offset
        self.start = log.log_start_offset
        self.high_watermark = partition.high_watermark
        self.state = partition.state
        self.follower = follower
        self.may_fetch = follower is None or follower.may_fetch
        self.leader = leader
        self.partition_epoch: Any = None
        self.proposed: Any = None
        self.isr: Any = None
        self.followers: dict[Any, Any] = {}
        self.leader_high_watermark: Any = None
        if leader is not None:
            self.partition_epoch = leader.partition_epoch
            self.proposed = leader.proposed
            self.isr = leader.isr
            self.followers = dict(leader.followers)
            self.leader_high_watermark = leader.high_watermark

    def is_true_of(self, partition: Partition) -> bool:
        """Whether nothing that an oracle reads has changed."""
        log, leader, follower = partition.log, partition.leader, partition.follower
        if (
            self.log is not log
            or self.leader is not leader
            or self.follower is not follower
            or self.state is not partition.state
            or self.end != log.log_end_offset
            or self.high_watermark != partition.high_watermark
            or self.start != log.log_start_offset
            or (follower is not None and self.may_fetch != follower.may_fetch)
        ):
            return False
        return leader is None or (
            self.isr is leader.isr
            and self.proposed is leader.proposed
            and self.partition_epoch == leader.partition_epoch
            and self.leader_high_watermark == leader.high_watermark
            and self.followers == leader.followers
        )

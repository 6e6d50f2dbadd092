"""The state of one replica that is kept from one step to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proof.sim.disk.parts import Directory
    from strandline_proof.sim.oracles.replica.log_view import LogView


class Replica:
    """One replica after the last step of its broker."""

    __slots__ = (
        "end",
        "epoch",
        "follower",
        "high_watermark",
        "incarnation",
        "is_due",
        "leader",
        "leader_partition_epoch",
        "log",
        "partition",
        "proposed",
        "removed_in",
        "start",
        "view",
    )

    def __init__(self, incarnation: int, partition: Partition, view: LogView) -> None:
        self.incarnation = incarnation
        self.partition = partition
        self.log: Any = partition.log
        self.view = view
        self.end = -1
        self.start = -1
        self.high_watermark = -1
        self.epoch = -1
        self.leader: Any = None
        self.leader_partition_epoch = -1
        self.proposed: Any = None
        self.follower: Any = None
        self.removed_in: Directory | None = None
        """The directory of the replica when it was removed: the directory may go, even if the
        replica is added again.
        """
        self.is_due = True
        """True if its state of producers is to be checked (I-58)."""

    def is_opened_again(self, incarnation: int, view: LogView) -> bool:
        """True if another process has the log now; False if a new log replaces one that was removed
        by command.
        """
        is_there = self.removed_in is None or self.removed_in is view.directory()
        return self.incarnation != incarnation and is_there

    def is_unchanged(self, partition: Partition) -> bool:
        log, leader = partition.log, partition.leader
        return (
            self.log is log
            and self.leader is leader
            and self.high_watermark == partition.high_watermark
            and self.end == log.log_end_offset
            and self.start == log.log_start_offset
            and (
                leader is None
                or (
                    self.leader_partition_epoch == leader.partition_epoch
                    and self.proposed is leader.proposed
                )
            )
        )

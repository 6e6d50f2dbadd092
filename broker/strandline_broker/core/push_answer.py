"""A broker's answer to a push: its applied offset, its failures, and the log ends of its partitions
without a leader.

`rpc/cluster/push_codec.py` translates it to and from the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_proto.errors import WireError
    from strandline_proto.ids import ControllerEpoch, LeaderEpoch, MetadataOffset, TopicId


UNKNOWN: Final = -2
"""No epoch, nor the -1 of a log that knows none."""


class FailedPartition(NamedTuple):
    """A partition of an envelope that could not be applied (P-79)."""

    topic_id: TopicId
    partition: int
    error: WireError


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """The end of a log. The greater one holds every record of the other, unless an unclean election
    came between.
    """

    last_epoch: int
    """The newest epoch in the log, with or without records; -1: none."""
    offset: int
    high_watermark: int = field(default=0, compare=False)
    """High watermark of the log: everything below was committed as the log has it."""
    known_epoch: int = field(default=UNKNOWN, compare=False)
    """The newest epoch that the log has ever known, with those that a loss of power has removed. It
    never held a record of a later one. UNKNOWN: the broker did not report it.
    """
    parts_at: int = field(default=0, compare=False)
    """Start of the first known epoch whose records are gone."""

    def shared_below(self, newest_epoch: int) -> int:
        """The offset from which the log may lack committed records. `newest_epoch` is the last
        epoch with a leader.

        A log with that epoch has followed that leader, so the offset is its own end. Otherwise it
        is the high watermark: records beyond it may be unknown to every later leader.
        """
        return self.offset if self.last_epoch >= newest_epoch else self.high_watermark

    def shared_with(self, holders: Sequence[LogEnd | None], *, surely_led: int) -> int:
        """The offset from which the log may lack committed records, by the logs of `holders`.

        One of the holders held each committed record. Its epoch checkpoint shows this even if the
        record is gone, because an epoch is durable before its first record (I-46). The result is 0
        if the holders' reports do not suffice, or all are older than the epoch `surely_led`.

        Records of epochs up to this log's last one are in this log, to its end. Later epochs begin
        where a holder reports.
        """
        if all(holder is None or holder.known_epoch < surely_led for holder in holders):
            return 0
        shared = self.offset
        for holder in holders:
            if holder is None or holder.known_epoch == UNKNOWN:
                return 0
            if holder.known_epoch > self.last_epoch:
                if holder.last_epoch != self.last_epoch:
                    return 0
                shared = min(shared, holder.parts_at)
        return shared


@dataclass(frozen=True, slots=True)
class ReplicaLogEnd:
    """The end of a broker's log of a partition that has no leader (I-53)."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    """The partition's leader epoch at the time of the answer."""
    end: LogEnd


@dataclass(frozen=True, slots=True)
class PushAnswer:
    metadata_offset: MetadataOffset
    """Offset of the envelope that this answers."""
    applied_offset: MetadataOffset
    controller_epoch: ControllerEpoch
    store_id: str
    want_full: bool = False
    error: WireError | None = None
    """Error of the whole envelope, which was then not applied."""
    failed: tuple[FailedPartition, ...] = ()
    log_ends: tuple[ReplicaLogEnd, ...] = ()
    """Log ends of the partitions in the envelope that have no leader."""

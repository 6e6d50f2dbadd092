"""What a broker answers to a push: how far it is, what it could not apply, and where its logs end
of partitions without a leader.

`rpc/cluster/push_codec.py` translates it to the wire and off it.
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
    """The greater one holds all that the other does, unless an unclean election came between."""

    last_epoch: int
    """The newest that the log knows, with or without records; -1: none."""
    offset: int
    high_watermark: int = field(default=0, compare=False)
    """Everything below it was committed as the log has it."""
    known_epoch: int = field(default=UNKNOWN, compare=False)
    """The newest that the log has known, with what a loss of power has taken: in no later one has
    it held a record. UNKNOWN: it does not say.
    """
    parts_at: int = field(default=0, compare=False)
    """Where the first epoch began that is known and whose records are gone."""

    def shared_below(self, newest_epoch: int) -> int:
        """Where committed records may begin that the log lacks; `newest_epoch`: the last in which
        the partition had a leader. A log that knows it has followed that leader, to its own end.
        Behind another one's high watermark there may stand what no later leader has seen.
        """
        return self.offset if self.last_epoch >= newest_epoch else self.high_watermark

    def shared_with(self, holders: Sequence[LogEnd | None], *, surely_led: int) -> int:
        """The same by what disks tell: each committed record was held by one of `holders`, whose
        epoch checkpoint says so even if the record is gone, because an epoch is durable before its
        first record (I-46). 0: they do not say enough, or are older than the epoch `surely_led`.

        Records of epochs up to this log's last one are in this log, to its end. Later ones begin
        where a holder says.
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
    """Where a broker's log of a partition ends while that has no leader (I-53)."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    """The partition's, in which this is said."""
    end: LogEnd


@dataclass(frozen=True, slots=True)
class PushAnswer:
    metadata_offset: MetadataOffset
    """Of the envelope that this answers."""
    applied_offset: MetadataOffset
    controller_epoch: ControllerEpoch
    store_id: str
    want_full: bool = False
    error: WireError | None = None
    """Of the whole envelope, which was not applied then."""
    failed: tuple[FailedPartition, ...] = ()
    log_ends: tuple[ReplicaLogEnd, ...] = ()
    """Of the partitions in the envelope that have no leader."""

"""What a broker answers to a push: how far it is, what it could not apply, and where its logs end
of partitions without a leader.

`rpc/push_codec.py` translates it to the wire and off it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from strandline_proto.errors import WireError
    from strandline_proto.ids import ControllerEpoch, LeaderEpoch, MetadataOffset, TopicId


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

    def shared_below(self, newest_epoch: int) -> int:
        """Where committed records may begin that the log lacks; `newest_epoch`: the last in which
        the partition had a leader. A log that knows it has followed that leader, to its own end.
        Behind another one's high watermark there may stand what no later leader has seen.
        """
        return self.offset if self.last_epoch >= newest_epoch else self.high_watermark


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

"""The offset at which a follower truncates its log when the leader's history differs (I-40, I-45).

Leader epochs alone decide. A follower's high watermark lags behind the committed records, so
truncating to it loses acknowledged records (P-1).
"""

from dataclasses import dataclass
from typing import Protocol

from strandline_proto.ids import UNKNOWN_EPOCH, Offset


class EpochHistory(Protocol):
    """The leader epochs of a log, with the offset at which each begins."""

    def latest(self) -> int:
        """The newest epoch, even if it has no records yet; -1 if none is known."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch found, its end) by I-37; (-1, -1) if undefined."""
        ...


@dataclass(frozen=True, slots=True)
class Truncation:
    offset: Offset
    finished: bool
    """True if the histories agree once the log ends at `offset`; if not, the next fetch asks with
    an older epoch.
    """


def truncation_target(
    diverging_epoch: int, diverging_end: int, *, log_end_offset: int, history: EpochHistory
) -> Truncation | None:
    """The truncation, given that the leader's own `diverging_epoch` ends at `diverging_end`.

    None if the leader could not say: then nothing may be truncated. Each round ends the log earlier
    or drops its latest epoch, so the rounds end (P-2).
    """
    if diverging_epoch < 0 or diverging_end < 0:
        return None
    if history.latest() <= diverging_epoch:
        return Truncation(Offset(min(diverging_end, log_end_offset)), finished=True)
    found, end = history.end_offset_for(diverging_epoch, log_end_offset)
    if found == diverging_epoch:
        # This holds even if this log begins after that epoch: `end` is then the start of its first
        # epoch, and nothing stays.
        return Truncation(Offset(min(diverging_end, end, log_end_offset)), finished=True)
    assert found != UNKNOWN_EPOCH, "an older epoch of a history that is not empty is defined"
    return Truncation(Offset(min(end, log_end_offset)), finished=False)


def follower_high_watermark(
    own: int, *, log_start_offset: int, leader_high_watermark: int, log_end_offset: int
) -> Offset:
    """The offset that a follower may believe committed, once it has appended an answer's records
    (I-13).
    """
    return Offset(max(own, log_start_offset, min(leader_high_watermark, log_end_offset)))


def follower_log_start(own: int, *, leader_log_start: int, high_watermark: int) -> Offset:
    """A follower's log start: the leader's, but not above the follower's own high watermark
    (I-74).
    """
    return Offset(max(own, min(leader_log_start, high_watermark)))

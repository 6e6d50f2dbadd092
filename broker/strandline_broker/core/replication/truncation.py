"""Where a follower cuts its log when the leader's history differs from its own (I-40, I-45).

Decided by leader epochs alone: the high watermark of a follower lags behind what is committed, so
cutting there loses acknowledged records (P-1).
"""

from dataclasses import dataclass
from typing import Protocol

from strandline_proto.ids import UNKNOWN_EPOCH, Offset


class EpochHistory(Protocol):
    """Which leader epoch began where in a log."""

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
    """Whether the histories agree once the log ends at `offset`; if not, the next fetch asks with
    an older epoch.
    """


def truncation_target(
    diverging_epoch: int, diverging_end: int, *, log_end_offset: int, history: EpochHistory
) -> Truncation | None:
    """Where to cut, the leader having said that its own `diverging_epoch` ends at `diverging_end`.

    None if the leader could not say: then nothing may be cut. Each round ends the log earlier or
    drops its latest epoch, so the rounds come to an end (P-2).
    """
    if diverging_epoch < 0 or diverging_end < 0:
        return None
    if history.latest() <= diverging_epoch:
        return Truncation(Offset(min(diverging_end, log_end_offset)), finished=True)
    found, end = history.end_offset_for(diverging_epoch, log_end_offset)
    if found == diverging_epoch:
        # Also if this log begins after that epoch: then `end` is where its first epoch starts, and
        # nothing stays.
        return Truncation(Offset(min(diverging_end, end, log_end_offset)), finished=True)
    assert found != UNKNOWN_EPOCH, "an older epoch of a history that is not empty is defined"
    return Truncation(Offset(min(end, log_end_offset)), finished=False)


def follower_high_watermark(
    own: int, *, log_start_offset: int, leader_high_watermark: int, log_end_offset: int
) -> Offset:
    """I-13: what a follower may believe committed, once it has appended an answer's records."""
    return Offset(max(own, log_start_offset, min(leader_high_watermark, log_end_offset)))


def follower_log_start(own: int, *, leader_log_start: int, high_watermark: int) -> Offset:
    """A follower drops what its leader has dropped, but nothing above its own high watermark
    (I-74).
    """
    return Offset(max(own, min(leader_log_start, high_watermark)))

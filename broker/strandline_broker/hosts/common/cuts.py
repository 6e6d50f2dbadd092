"""The truncations of a broker's replicas, as events for people who watch or arrive later."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.hosts.common.events import Events
    from strandline_broker.storage.log.log import Log


class CutReason(enum.Enum):
    DIVERGED = enum.auto()
    """The leader's history diverged from the replica's log."""
    HIGH_WATERMARK = enum.auto()
    """replica.truncation=high-watermark, whatever the leader holds."""
    BEFORE_LEADER_START = enum.auto()
    """The leader's log begins after the replica's end."""
    DAMAGE = enum.auto()
    """The log was truncated before its damage, to be copied again."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One truncation that has dropped records."""

    topic: str
    topic_id: bytes
    partition: int
    start: int
    """Log end before the truncation."""
    to: int
    """Log end after the truncation; above `start` if the log was restarted there."""
    reason: CutReason
    leader_epoch: int
    """The leader epoch that the replica follows in."""
    high_watermark: int
    """The replica's high watermark before."""
    acknowledged: bool | None
    """True if dropped records were known to be committed, False if none was committed; None:
    unknown.
    """
    dropped: tuple[tuple[int, int], ...]
    """(leader epoch, first dropped offset) of the dropped records, oldest first."""


class Cuts:
    def __init__(self, events: Events) -> None:
        self._events = events

    @contextmanager
    def noting(
        self,
        log: Log,
        committed: int,
        reason: CutReason,
        *,
        leader_epoch: int,
        is_sound: bool,
    ) -> Iterator[None]:
        """Notes what the truncation within the block drops. `committed` is the high watermark
        before. `is_sound`: the leader holds every committed record, so the dropped ones were not
        committed. The caller holds the gate.
        """
        start, end = log.log_start_offset, log.log_end_offset
        entries, restarts = log.leader_epochs.entries, log.state.beginnings
        try:
            yield
        finally:  # a truncation that is cancelled may be made nevertheless (I-6)
            to = log.log_end_offset
            first = start if log.state.beginnings != restarts else min(max(to, start), end)
            if first < end:
                self._events.keep(
                    Cut(
                        topic=log.topic,
                        topic_id=log.topic_id,
                        partition=log.partition,
                        start=end,
                        to=to,
                        reason=reason,
                        leader_epoch=leader_epoch,
                        high_watermark=committed,
                        acknowledged=True if first < committed else False if is_sound else None,
                        dropped=_between(entries, first, end),
                    )
                )


def _between(
    entries: tuple[tuple[int, int], ...], first: int, end: int
) -> tuple[tuple[int, int], ...]:
    """The part of an epoch table for the offsets from `first` to below `end`."""
    found = []
    for (epoch, start), (_, stop) in pairwise((*entries, (0, end))):
        if start < end and stop > first:
            found.append((epoch, max(start, first)))
    return tuple(found)

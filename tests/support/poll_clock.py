"""The clock by which a member of a group judges its application's polls, moved by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline import Consumer

POLL_INTERVAL_MS = 100
POLL_INTERVAL_S = POLL_INTERVAL_MS / 1000


class PollClock:
    """Stands still between two calls of `advance`, for a consumer with POLL_INTERVAL_MS."""

    def __init__(self, consumer: Consumer) -> None:
        group = consumer._group
        assert group is not None
        self.at_s = group._now_s()
        self.looks = 0
        """Number of times at which the member read the clock."""
        group._now_s = self._read  # type: ignore[method-assign]

    def advance(self, intervals: float) -> None:
        self.at_s += intervals * POLL_INTERVAL_S
        self.looks = 0

    @property
    def was_read(self) -> bool:
        """True if the member has compared the time with its limit since `advance`."""
        return self.looks > 3

    def _read(self) -> float:
        self.looks += 1
        return self.at_s

"""The events of one server for its watchers, in a ring of bounded size.

Without a watcher nothing is stored, except the last events of a kind that `keep` adds: those are
few, and a watcher often arrives after them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline_runtime.milliseconds import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_runtime.runtime import Clock

RECENT_MAX: Final = 4096
"""Limit of events that watchers have not taken yet; older ones are lost to a slow watcher."""
KEPT_MAX: Final = 64


class Event(NamedTuple):
    number: int
    """1, 2, ... in one incarnation of the server."""
    time_ms: int
    """Wall clock at the event."""
    what: Any
    """Plain data of any room; the translation knows the types."""


class Events:
    def __init__(self, clock: Clock) -> None:
        self.is_watched = False
        """True while there is a watcher. Callers check it before they make an event."""
        self.on_watched: list[Callable[[bool], None]] = []
        """Callbacks for the first watcher that arrives (True) and the last that leaves (False)."""
        self._clock = clock
        self._watchers = 0
        self._number = 0
        self._recent: deque[Event] = deque(maxlen=RECENT_MAX)
        self._kept: deque[Event] = deque(maxlen=KEPT_MAX)

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return self._watchers

    @property
    def last_number(self) -> int:
        """Number of the last event; 0 before the first."""
        return self._number

    @property
    def kept(self) -> Iterable[Event]:
        """The last events that were added by `keep`, oldest first."""
        return self._kept

    def watched(self) -> None:
        """Count a watcher that has arrived."""
        self._watchers += 1
        if self._watchers == 1:
            self.is_watched = True
            self._tell()

    def unwatched(self) -> None:
        """Count a watcher that has left."""
        self._watchers -= 1
        if self._watchers == 0:
            self.is_watched = False
            self._recent.clear()
            self._tell()

    def _tell(self) -> None:
        for callback in self.on_watched:
            callback(self.is_watched)

    def note(self, what: Any) -> None:
        """Add an event for the present watchers; without a watcher it is dropped."""
        if self.is_watched:
            self._recent.append(self._numbered(what))

    def keep(self, what: Any) -> None:
        """Add an event for present and later watchers."""
        event = self._numbered(what)
        self._kept.append(event)
        if self.is_watched:
            self._recent.append(event)

    def _numbered(self, what: Any) -> Event:
        self._number += 1
        return Event(self._number, wall_ms(self._clock), what)

    def since(self, number: int, limit: int) -> tuple[int, list[Event]]:
        """(number of lost events, the next events after event `number`, at most `limit`)."""
        missed = self._number - number
        if missed <= 0:
            return 0, []
        recent = self._recent
        lost = max(0, missed - len(recent))
        first = len(recent) - (missed - lost)
        return lost, [recent[at] for at in range(first, min(len(recent), first + limit))]

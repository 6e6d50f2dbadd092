"""The frames for one watcher: a keyframe, then changes, at the watcher's pace.

A frame is built when the watcher has taken the one before. So nothing queues for a slow watcher:
the next look finds what has changed since, whatever happened in between. A watcher that has been
away for longer than `LATE_S` gets a keyframe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.watch.content import Content, Frame
from strandline_broker.hosts.watch.draft import Draft
from strandline_proto.errors import ThrottlingQuotaExceeded
from strandline_runtime.milliseconds import wall_ms

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable

    from strandline_broker.hosts.common.events import Event
    from strandline_broker.hosts.watch.content import Identity
    from strandline_broker.hosts.watch.draft import Source, View
    from strandline_broker.hosts.watch.selection import Selection

FRAMES_PER_S_MAX: Final = 20
WATCHERS_MAX: Final = 16
QUIET_S: Final = 1.0
"""A frame without content follows after this time, as a sign of life."""
LATE_S: Final = 2.0
SIZE_MAX: Final = 500
"""Entries of one frame; a larger one continues in the next."""
EVENTS_MAX: Final = 250
SHARE: Final = 0.05
"""Limit of the time that one watcher may take of the event loop's. Looks take place less often if
they take long.
"""
COSTS: Final = 8
"""Number of looks whose cheapest one counts as the cost of a look."""


class Watch:
    """One watcher of a server."""

    def __init__(
        self,
        source: Source,
        selection: Selection,
        frames_per_s: int,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._source = source
        self._clock = source.clock
        self._events = source.events
        self._view: View = source.view(selection)
        self._interval_s = 1 / min(frames_per_s, FRAMES_PER_S_MAX)
        self._sequence = 0
        self._event = 0
        """Number of the last event that was taken, whether it is selected or not."""
        self._is_late = False
        self._worked_s = 0.0
        self._costs_s: deque[float] = deque(maxlen=COSTS)
        """Time of the event loop that the last looks took."""

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """The frames, without end. Raises ThrottlingQuotaExceeded if there are too many watchers
        already.
        """
        events = self._events
        if events.watchers >= WATCHERS_MAX:
            raise ThrottlingQuotaExceeded(
                f"{events.watchers} streams watch this server, and no more are possible: end one"
            )
        events.watched()
        try:
            self._event = events.last_number
            identity, wants_keyframe, sent_s = None, True, 0.0
            while True:
                began_s, self._worked_s = self._clock.monotonic(), 0.0
                now = self._source.identity()
                wants_keyframe |= self._is_late or now != identity
                identity, self._is_late = now, False
                is_first = wants_keyframe
                async for content, lost, continues in self._look(is_first=is_first):
                    is_due = self._clock.monotonic() - sent_s >= QUIET_S
                    if content.size or lost or is_first or continues or is_due:
                        sent_s = self._clock.monotonic()
                        yield self._frame(identity, content, lost, is_first, continues)
                        self._is_late |= self._clock.monotonic() - sent_s > LATE_S
                        sent_s = self._clock.monotonic()
                        is_first = False
                wants_keyframe = False
                self._costs_s.append(self._worked_s)
                # The least of several: a busy machine makes single looks longer than their work.
                pause_s = max(self._interval_s, min(self._costs_s) / SHARE)
                await self._sleep(max(0.0, began_s + pause_s - self._clock.monotonic()))
        finally:
            events.unwatched()

    def _frame(
        self, identity: Identity, content: Content, lost: int, keyframe: bool, continues: bool
    ) -> Frame:
        self._sequence += 1
        return Frame(
            identity, self._sequence, wall_ms(self._clock), keyframe, continues, lost, content
        )

    async def _look(self, *, is_first: bool) -> AsyncIterator[tuple[Content, int, bool]]:
        """(content, number of lost events, True if more follows) of each frame of one look."""
        draft = Draft()
        if is_first:
            self._view.forget()
        clock = self._clock
        since_s = clock.monotonic()
        # Before the look, so that no event is newer than the state that comes with it.
        lost = self._take_events(draft.content, repeats_kept=is_first)
        for _ in self._view.look(draft):
            self._worked_s += clock.monotonic() - since_s
            if draft.content.size >= SIZE_MAX:
                yield draft.take(), lost, True
                lost = 0
            await asyncio.sleep(0)
            since_s = clock.monotonic()
        self._worked_s += clock.monotonic() - since_s
        yield draft.take(), lost, False

    def _take_events(self, content: Content, *, repeats_kept: bool) -> int:
        lost, found = self._events.since(self._event, EVENTS_MAX)
        if repeats_kept:
            content.events = self._selected(
                event for event in self._events.kept if event.number <= self._event
            )
        self._event += lost + len(found)
        content.events = [*content.events, *self._selected(found)]
        content.size += len(content.events)
        return lost

    def _selected(self, events: Iterable[Event]) -> list[Event]:
        return [event for event in events if self._view.has(event.what)]

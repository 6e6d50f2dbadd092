"""Histories without the events at times when records might be lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from strandline_chaos.checkers import FINAL_READ

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_chaos.history import Event


class Excuse(NamedTuple):
    """The reason and the end of a partition's excuse."""

    over: int | None = None
    """The number of the first event after it; None while it lasts."""
    judged_from: int = 0
    """The first offset that only records after it can have used."""


def without(events: Sequence[Event], excuses: Mapping[int, Excuse]) -> list[Event]:
    """The history, as far as no excuse covers it.

    If a partition's excuse is over, records sent before may be in the log or not, wherever they
    were acknowledged. Reads and answers count from the offset on that is judged again. Offsets
    before that name other records sooner or later, and a deposed leader may still serve the first
    ones. The last reading is exempt from that: it has all records sent since, wherever they are.
    """
    if not excuses:
        return list(events)
    begun = {event.op: event.index for event in events if event.type == "invoke"}
    last = {process for event in events if event.f == FINAL_READ for process in event.value}
    found = (
        _without(event, begun.get(event.op, event.index), excuses, is_last=event.process in last)
        for event in events
    )
    return [event for event in found if event is not None]


def _without(
    event: Event, begun: int, excuses: Mapping[int, Excuse], *, is_last: bool
) -> Event | None:
    """The event of an operation that began at `begun`; None if nothing of it is judged."""

    def covers(key: int, index: int) -> bool:
        excuse = excuses.get(key)
        return excuse is not None and (excuse.over is None or index < excuse.over)

    if event.f == "send":
        key = event.value[0][1]
        if key in excuses and excuses[key].over is None:
            return None
        if event.type == "ok" and covers(key, begun):
            _, value = event.value[0][2]
            return replace(event, type="info", value=[["send", key, value]])
        return event
    if event.f == "poll" and event.type == "ok":
        judged_from = {key: excuse.judged_from for key, excuse in excuses.items()}
        runs = [
            [key, [pair for pair in pairs if is_last or pair[0] >= judged_from.get(key, 0)]]
            for key, pairs in event.value[0][1]
            if not covers(key, event.index)
        ]
        return replace(event, value=[["poll", runs]])
    if event.f == "ends" and event.type == "ok":
        ends = [pair for pair in event.value[0][1] if not covers(pair[0], begun)]
        return replace(event, value=[["ends", ends]])
    return event

"""Histories without the partitions in which records may be missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_chaos.history import Event


def without(event: Event, keys: dict[int, str]) -> Event | None:
    """The event as far as it is about other keys; None if nothing is left."""
    if not keys:
        return event
    if event.f == "send" and event.value[0][1] in keys:
        return None
    if event.f == "poll" and event.type == "ok":
        runs = [run for run in event.value[0][1] if run[0] not in keys]
        return replace(event, value=[["poll", runs]])
    if event.f == "ends" and event.type == "ok":
        ends = [pair for pair in event.value[0][1] if pair[0] not in keys]
        return replace(event, value=[["ends", ends]])
    return event

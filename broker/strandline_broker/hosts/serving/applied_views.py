"""Waits for a view of the cluster that this broker has applied.

A request that changes the cluster is decided by the controller. Its answer leaves when the broker
has applied the result, so that the client's next request to this broker finds it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView

FIRST_S: Final = 5.0
"""Time that a request waits for the first snapshot of the controller."""


class AppliedViews:
    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._next = asyncio.Event()

    def published(self) -> None:
        """Wakes all waits: a new view is current."""
        due, self._next = self._next, asyncio.Event()
        due.set()

    @property
    def has_first(self) -> bool:
        """True once a first snapshot of the controller is applied."""
        return self._metadata.has_snapshot

    async def first(self) -> bool:
        """Returns True once a first snapshot is applied, False at the limit."""
        return await self.until(lambda _: self.has_first, FIRST_S)

    async def until(self, holds: Callable[[MetadataView], bool], limit_s: float) -> bool:
        """Returns True once `holds` is true for the current view, False at the limit."""
        try:
            async with asyncio.timeout(limit_s):
                while not holds(self._metadata.view):
                    await self._next.wait()
        except TimeoutError:
            return holds(self._metadata.view)
        return True

    async def until_offset(self, metadata_offset: int, limit_s: float) -> bool:
        """Returns True once the controller's log is applied here up to that offset."""
        return await self.until(lambda view: view.metadata_offset >= metadata_offset, limit_s)

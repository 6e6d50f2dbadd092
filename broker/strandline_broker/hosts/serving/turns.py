"""Pauses in long loops of a handler: other calls get their turn after so many elements."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

T = TypeVar("T")

EVERY: Final = 1_000
"""Elements between two pauses, where one takes some microseconds."""
ANSWERED_MAX: Final = 200_000
"""Elements of one answer that a short request may ask for."""


class Turns:
    """The count of a handler's work since its last pause."""

    __slots__ = ("_done", "_every")

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self._done = 0

    async def took(self, elements: int = 1) -> None:
        """Count so many elements, and pause if that makes it `every`."""
        self._done += elements
        if self._done >= self._every:
            self._done = 0
            await asyncio.sleep(0)


async def in_turns(elements: Iterable[T], every: int = EVERY) -> AsyncIterator[T]:
    """The elements, with a pause after each `every`."""
    for number, element in enumerate(elements, 1):
        yield element
        if number % every == 0:
            await asyncio.sleep(0)

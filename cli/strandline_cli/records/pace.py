"""The pace of `produce --rate`: a limit of records a second, without a burst after a pause."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

_SLICE_S: Final = 0.1
"""The time for which one slice of records lasts."""
_LATE_S: Final = 1.0
"""The lateness above which the time lost is not made up for."""

T = TypeVar("T")


class Pace:
    """Slices of records, each with a time before which it is not sent."""

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._due: float | None = None

    def slices(self, records: Sequence[T]) -> Iterator[Sequence[T]]:
        """The records in portions of a tenth of a second, and at least one record."""
        size = max(1, int(self._rate * _SLICE_S))
        for first in range(0, len(records), size):
            yield records[first : first + size]

    async def turn(self, count: int) -> None:
        """Returns when the next `count` records may be sent."""
        now = asyncio.get_running_loop().time() if self._clock is None else self._clock()
        if self._due is None or now - self._due > _LATE_S:
            self._due = now
        if self._due > now:
            await self._sleep(self._due - now)
        self._due += count / self._rate

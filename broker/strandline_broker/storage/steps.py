"""Long blocking work in steps of some milliseconds, so that whoever drives it can let others have
the thread in between.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

Steps = Generator[None, None, T]

HEADERS_A_STEP: Final = 512
RECORDS_A_STEP: Final = 8192


def in_a_row(steps: Steps[T]) -> T:
    """All steps, where nobody waits."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def paced(items: Iterable[T], every: int) -> Iterator[T | None]:
    """The items, and None where a step ends: after so many of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            yield None

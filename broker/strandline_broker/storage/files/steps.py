"""Long blocking work in steps of some milliseconds, so that its driver can give the thread to
others in between.
"""

from __future__ import annotations

from collections.abc import Generator
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from strandline_proto.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

Steps = Generator[None, None, T]

HEADERS_A_STEP: Final = 512
RECORDS_A_STEP: Final = 8192


def in_a_row(steps: Steps[T]) -> T:
    """Run all steps at once, when no other work waits; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def side_by_side(works: Iterable[Steps[T]]) -> list[T | OSError | KafkaStorageError]:
    """Run the first step of each work, then the second of each, and so on.

    Steps end before data is made durable, so the disk is asked for all of it together. A work that
    fails stops, and the others continue.
    """
    going = dict(enumerate(works))
    ended: dict[int, T | OSError | KafkaStorageError] = {}
    while going:
        for number, steps in list(going.items()):
            try:
                next(steps)
            except StopIteration as end:
                ended[number] = end.value
            except (OSError, KafkaStorageError) as error:
                ended[number] = error
            if number in ended:
                del going[number]
    return [found for _, found in sorted(ended.items(), key=itemgetter(0))]


def paced(items: Iterable[T], every: int) -> Iterator[T | None]:
    """The items, with a None after every `every` items, where a step ends."""
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            yield None

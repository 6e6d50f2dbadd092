"""Splits long lists, because brokers bound the elements of one request."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


def in_parts(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """The items in their order, at most `most` in each part."""
    rest = iter(items)
    while part := list(islice(rest, most)):
        yield part

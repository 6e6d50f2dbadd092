"""A mapping under change, over one that is unchanged: a decision reads it while it is being
made.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

K = TypeVar("K")
V = TypeVar("V")


class Overlay(MutableMapping[K, V]):
    """A mapping whose cost depends on its changes, not on the size of the mapping below, which must
    not change meanwhile.
    """

    __slots__ = ("_added", "_below", "_removed")

    def __init__(self, below: Mapping[K, V]) -> None:
        self._below = below
        self._added: dict[K, V] = {}
        self._removed: set[K] = set()

    def __getitem__(self, key: K) -> V:
        if key in self._added:
            return self._added[key]
        if key in self._removed:
            raise KeyError(key)
        return self._below[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._removed.discard(key)
        self._added[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._added.pop(key, None)
        if key in self._below:
            self._removed.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._added or (key not in self._removed and key in self._below)

    def __iter__(self) -> Iterator[K]:
        """Keys in the order of the mapping below, then of the additions."""
        for key in self._below:
            if key not in self._removed:
                yield key
        for key in self._added:
            if key not in self._below:
                yield key

    def __len__(self) -> int:
        added = sum(key not in self._below for key in self._added)
        return len(self._below) - len(self._removed) + added

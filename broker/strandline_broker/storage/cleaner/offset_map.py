"""The last offset of each key, in memory of a fixed size.

The map is an open-addressed table of 128-bit hashes and offsets: 24 bytes a slot, whatever the size
of the keys. Two keys with the same hash would be treated as one. The hash is SipHash under a secret
of this process, which is Python's hash of bytes. With 128 bits of it no attacker can cause a
collision, and chance does not. The hashes mean nothing outside this process, and a map serves one
cleaning. When the table holds as many keys as its load factor allows, the cleaner stops there and
continues in another pass.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOT_BYTES: Final = 24
KEYS_MIN: Final = 1
_EMPTY: Final = -1
_OTHER: Final = b"\0"
"""Suffix of a key for the second 64 bits of its hash."""


class OffsetMap:
    __slots__ = ("_high", "_keys_max", "_low", "_offsets", "_slots", "keys")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        slots = max(memory_bytes // SLOT_BYTES, KEYS_MIN + 1)
        self._slots = slots
        # At least one slot stays empty: otherwise the search for an unknown key would not end.
        self._keys_max = min(max(int(slots * load_factor), KEYS_MIN), slots - 1)
        self._high = array("q", (0,)) * slots
        self._low = array("q", (0,)) * slots
        self._offsets = array("q", (_EMPTY,)) * slots
        self.keys = 0

    @property
    def is_full(self) -> bool:
        return self.keys >= self._keys_max

    def put_all(self, records: Iterable[tuple[bytes, int]]) -> int | None:
        """Store (key, offset) pairs, with rising offsets; returns the offset of the first pair
        without room.
        """
        high, low, offsets, slots = self._high, self._low, self._offsets, self._slots
        for key, offset in records:
            a, b = hash(key), hash(key + _OTHER)
            i = a % slots
            while offsets[i] != _EMPTY and (high[i] != a or low[i] != b):
                i = i + 1 if i + 1 < slots else 0
            if offsets[i] == _EMPTY:
                if self.keys >= self._keys_max:
                    return offset
                self.keys += 1
                high[i], low[i] = a, b
            offsets[i] = offset
        return None

    def get_all(self, keys: Iterable[bytes | None]) -> list[int]:
        """The last offset of each key; -1 if the key is absent or not stored."""
        high, low, offsets, slots = self._high, self._low, self._offsets, self._slots
        found: list[int] = []
        for key in keys:
            if key is None:
                found.append(_EMPTY)
                continue
            a = hash(key)
            i = a % slots
            while offsets[i] != _EMPTY and (high[i] != a or low[i] != hash(key + _OTHER)):
                i = i + 1 if i + 1 < slots else 0
            found.append(offsets[i])
        return found

    def get(self, key: bytes) -> int:
        return self.get_all((key,))[0]

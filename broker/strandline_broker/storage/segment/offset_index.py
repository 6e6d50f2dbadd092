"""The sparse offset index of one segment: Kafka's 8-byte entries, relative offset i32 and position
i32, big-endian.

An entry gives the position of the batch whose *last* offset it names. In memory the index is two
arrays that only grow. The `.index` file is written when the segment is sealed or closed. A reader
in another thread sees an entry whole or not at all: the position is stored before the offset that
leads to it.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ENTRY_SIZE: Final = 8
RELATIVE_MAX: Final = 2**31 - 1


class OffsetIndex:
    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(
        self, base_offset: int, offsets: Iterable[int] = (), positions: Iterable[int] = ()
    ) -> None:
        self.base_offset = base_offset
        self._offsets = array("I", offsets)
        self._positions = array("I", positions)

    @classmethod
    def parse(cls, base_offset: int, data: bytes) -> OffsetIndex | None:
        """The index in `data`; None if the bytes are no index. Zeros at the end, which a killed
        Kafka leaves, are ignored.
        """
        if len(data) % ENTRY_SIZE != 0:
            return None
        words = array("I", data.rstrip(b"\0") + b"\0" * (-len(data.rstrip(b"\0")) % ENTRY_SIZE))
        if sys.byteorder == "little":
            words.byteswap()
        index = cls(base_offset)
        index._offsets, index._positions = words[0::2], words[1::2]
        return index if index._rises() else None

    def _rises(self) -> bool:
        offsets, positions = self._offsets, self._positions
        return (
            all(map(lt, offsets, islice(offsets, 1, None)))
            and all(map(lt, positions, islice(positions, 1, None)))
            and (not offsets or (positions[0] > 0 and offsets[-1] <= RELATIVE_MAX))
        )

    def serialize(self) -> bytes:
        words = array("I", bytes(len(self) * ENTRY_SIZE))
        words[0::2], words[1::2] = self._offsets, self._positions
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self._offsets[-1] if self._offsets else self.base_offset - 1

    @property
    def last_position(self) -> int:
        """Position of the last indexed batch; 0 if there is none."""
        return self._positions[-1] if self._offsets else 0

    def append(self, last_offset: int, position: int) -> None:
        self._positions.append(position)
        self._offsets.append(last_offset - self.base_offset)

    def floor(self, offset: int) -> int:
        """Position of a batch at or before the first one that ends at or after `offset`."""
        i = bisect_right(self._offsets, offset - self.base_offset)
        return self._positions[i - 1] if i > 0 else 0

    def floor_position(self, position: int) -> int:
        """The last indexed position that is not above `position`; 0 if there is none."""
        positions = self._positions
        i = bisect_right(positions, position)
        return positions[i - 1] if i > 0 else 0

    def cut(self, position: int) -> OffsetIndex:
        """A new index of the batches that begin below `position`; readers may hold this one."""
        keep = bisect_right(self._positions, position - 1)
        return OffsetIndex(self.base_offset, self._offsets[:keep], self._positions[:keep])

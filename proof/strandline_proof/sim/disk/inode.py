"""One file of a simulated disk: the bytes that its process sees, and those on the platter.

`data` is the page cache. For each dirty page the durable bytes are kept aside, so that a loss of
power can take pages back one by one: each is kept, lost, or torn between two sectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

PAGE: Final = 4096
SECTOR: Final = 512


class Inode:
    """A file. `durable_size` and `before` (page number -> durable bytes of a dirty page) describe
    the platter. `lost` are pages that a failed fsync called clean and never wrote. `flips`
    (position -> mask) are bits that differ from what was written.
    """

    __slots__ = ("before", "data", "durable_size", "flips", "lost", "mtime")

    def __init__(self, mtime: float) -> None:
        self.data = bytearray()
        self.durable_size = 0
        self.before: dict[int, bytes] = {}
        self.lost: dict[int, bytes] = {}
        self.flips: dict[int, int] = {}
        self.mtime = mtime

    @property
    def dirty(self) -> bool:
        """True if a loss of power could change what is read here."""
        return bool(self.before or self.lost) or len(self.data) != self.durable_size

    def is_durable_to(self, end: int) -> bool:
        """True if a loss of power leaves the last page before `end` as it is read now."""
        page = (end - 1) // PAGE
        at = page * PAGE
        durable = self.lost.get(page, self.before.get(page))
        if durable is None:
            return end <= self.durable_size
        return durable[: end - at] == self.data[at:end]

    def flip(self, position: int, mask: int) -> None:
        """Changes bits of a durable byte on the platter; no page may be dirty."""
        assert not self.dirty, position
        self.data[position] ^= mask
        self.flips[position] = self.flips.get(position, 0) ^ mask

    def restore(self) -> None:
        """Puts the file back from a copy."""
        self.data = bytearray(self.as_written())
        self.flips.clear()

    def grow(self, count: int) -> None:
        """Makes the file longer than what was written, by zeros, and durably so."""
        assert not self.dirty, "only what lost its power grows"
        self.data.extend(bytes(count))
        self.durable_size = len(self.data)

    def as_written(self) -> bytearray:
        """The bytes that would be here if no bit had flipped."""
        if not self.flips:
            return self.data
        data = bytearray(self.data)
        for position, mask in self.flips.items():
            data[position] ^= mask
        return data

    def _forget_flips(self, start: int, data: bytes) -> None:
        """New bytes are written over flipped bits; a byte that is written as it was misread stays
        wrong.
        """
        for position in [p for p in self.flips if start <= p < start + len(data)]:
            if data[position - start] != self.data[position]:
                del self.flips[position]

    def _cut_flips(self) -> None:
        for position in [p for p in self.flips if p >= len(self.data)]:
            del self.flips[position]

    def _touch(self, start: int, end: int) -> None:
        """The bytes [start, end) are about to change."""
        for page in range(start // PAGE, (end + PAGE - 1) // PAGE):
            if page in self.before:
                continue
            at = page * PAGE
            durable = self.lost.pop(page, None)
            if durable is None:
                durable = bytes(self.data[at : min(at + PAGE, self.durable_size)])
            self.before[page] = durable

    def write(self, data: bytes, offset: int, mtime: float) -> None:
        size = len(self.data)
        if data:
            self._touch(min(offset, size), offset + len(data))
        if self.flips:
            self._forget_flips(offset, data)
        if offset > size:
            self.data.extend(bytes(offset - size))
        self.data[offset : offset + len(data)] = data
        self.mtime = mtime

    def truncate(self, length: int, mtime: float) -> None:
        size = len(self.data)
        if length < size:
            self._touch(length, size)
            del self.data[length:]
            self._cut_flips()
        elif length > size:
            self._touch(size, length)
            self.data.extend(bytes(length - size))
        self.mtime = mtime

    def sync(self) -> None:
        """Makes everything durable, except pages that an earlier failure has dropped (P-24)."""
        self.before.clear()
        self.durable_size = len(self.data)

    def sync_fails(self) -> None:
        """The kernel gives the pages up and calls them clean."""
        for page, durable in self.before.items():
            self.lost.setdefault(page, durable)
        self.before.clear()
        self.durable_size = len(self.data)

    def lose_power(self, rng: random.Random, survival: float) -> None:
        """The file as a machine finds it after the loss. `survival`: the chance that a dirty page
        was written.
        """
        size = len(self.data)
        if size != self.durable_size and rng.random() >= survival:
            # A file that has grown may have any size in between; a cut is done or not done.
            grown = size > self.durable_size
            size = rng.randint(self.durable_size, size) if grown else self.durable_size
        cut = len(self.data)
        found = bytearray(max(size, cut))
        found[:cut] = self.data
        for page, durable in sorted((self.lost | self.before).items()):
            at = page * PAGE
            fate = rng.random()
            if page in self.before and at < cut and fate < survival:
                continue
            old = durable + bytes(PAGE - len(durable))
            if page in self.before and at < cut and fate < survival + (1 - survival) / 3:
                old = _torn(bytes(found[at : at + PAGE]), old, rng)
            found[at : at + PAGE] = old[: max(0, len(found) - at)]
        self.data = found[:size]
        self._cut_flips()
        self.before.clear()
        self.lost.clear()
        self.durable_size = size


def _torn(new: bytes, old: bytes, rng: random.Random) -> bytes:
    """A page with some sectors of `new` and the rest of `old`."""
    new += bytes(PAGE - len(new))
    return b"".join(
        (new if rng.random() < 0.5 else old)[at : at + SECTOR] for at in range(0, PAGE, SECTOR)
    )

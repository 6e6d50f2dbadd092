"""Records to send: random bytes, so that no codec makes them cheaper than real ones."""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

_DISTINCT: Final = 64
_COMPRESSIBLE_BYTES: Final = 16 << 20
IDS: Final = 25_000
"""Number of ids in `changes`."""


def payloads(count: int, size: int) -> Iterator[bytes]:
    """`count` values of `size` bytes; a few dozen of them are distinct."""
    rng = random.Random(size)
    return islice(cycle([rng.randbytes(size) for _ in range(_DISTINCT)]), count)


def compressible(count: int, size: int) -> Iterator[bytes]:
    """`count` values of `size` bytes, of which a codec leaves about half: the other half repeats.
    The values are so many that no dictionary of them would pay.
    """
    rng = random.Random(size)
    fixed = b"." * (size - size // 2)
    distinct = min(count, max(1, _COMPRESSIBLE_BYTES // size))
    return islice(cycle([rng.randbytes(size // 2) + fixed for _ in range(distinct)]), count)


def clicks(count: int, size: int) -> Iterator[bytes]:
    """`count` JSON objects of about `size` bytes and five fields: id, user, price, at and note.
    Some thousands of them are distinct.
    """
    return _clicks(count, size, max(1, _COMPRESSIBLE_BYTES // size))


def changes(count: int, size: int) -> Iterator[bytes]:
    """`count` JSON objects like `clicks`, with `IDS` different values of id."""
    return _clicks(count, size, IDS)


def _clicks(count: int, size: int, distinct: int) -> Iterator[bytes]:
    rng = random.Random(size)
    distinct = min(count, distinct)
    values = []
    for n in range(distinct):
        at = f"2026-03-{n % 28 + 1:02}T{n % 24:02}:{n % 60:02}:00Z"
        price = rng.randrange(10_000) / 100
        value = f'{{"id": {n}, "user": "u{n % 997}", "price": {price}, "at": "{at}", "note": "'
        values.append(value.encode() + rng.randbytes(size).hex().encode()[: size - len(value) - 2])
    return islice(cycle([value + b'"}' for value in values]), count)

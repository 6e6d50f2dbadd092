"""Records to send: random bytes, so that no codec makes them cheaper than real ones."""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

_DISTINCT: Final = 64
_COMPRESSIBLE_BYTES: Final = 16 << 20


def payloads(count: int, size: int) -> Iterator[bytes]:
    """`count` values of `size` bytes; a few dozen of them are distinct."""
    rng = random.Random(size)
    return islice(cycle([rng.randbytes(size) for _ in range(_DISTINCT)]), count)


def compressible(count: int, size: int) -> Iterator[bytes]:
    """`count` values of `size` bytes of which a codec leaves about half: the other half repeats.
    So many are distinct that no dictionary of values is worth while.
    """
    rng = random.Random(size)
    fixed = b"." * (size - size // 2)
    distinct = min(count, max(1, _COMPRESSIBLE_BYTES // size))
    return islice(cycle([rng.randbytes(size // 2) + fixed for _ in range(distinct)]), count)

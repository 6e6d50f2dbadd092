"""Records to send: random bytes, so that no codec makes them cheaper than real ones."""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

_DISTINCT: Final = 64


def payloads(count: int, size: int) -> Iterator[bytes]:
    """`count` values of `size` bytes; a few dozen of them are distinct."""
    rng = random.Random(size)
    return islice(cycle([rng.randbytes(size) for _ in range(_DISTINCT)]), count)

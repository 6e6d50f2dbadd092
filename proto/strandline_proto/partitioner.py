"""The partition of a key: murmur2 as Kafka's Java client computes it, so that both agree.

The hash is the 32-bit MurmurHash2 over the key with Kafka's seed; the sign bit is cleared before
the remainder is taken. No maintained compiled package offers this variant, so it is optimised for
the interpreter. One `struct` call reads all words of the key, and a cache serves repeated keys.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_MEMO_ENTRIES: Final = 8192
_MEMO_KEY_BYTES_MAX: Final = 256
_WORDS: Final = tuple(Struct(f"<{words}I") for words in range(65))


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of `data`."""
    length = len(data)
    words = length >> 2
    unpack = _WORDS[words] if words < len(_WORDS) else Struct(f"<{words}I")
    h = _SEED ^ length
    for k in unpack.unpack_from(data):
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ (((k ^ (k >> 24)) * _M) & _MASK)
    if length & 3:
        h = ((h ^ int.from_bytes(data[words << 2 :], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


_memo = lru_cache(maxsize=_MEMO_ENTRIES)(murmur2)


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of `key` in a topic of `partitions` partitions."""
    h = _memo(key) if len(key) <= _MEMO_KEY_BYTES_MAX else murmur2(key)
    return (h & 0x7FFFFFFF) % partitions

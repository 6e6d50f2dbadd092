"""The partition of an internal topic that coordinates a group, by Java's string hash, as in Kafka.

Every client and every broker computes it, so the result must be the same everywhere. The hash uses
UTF-16 code units, of which an emoji has two (P-153). The value -2^31 has no absolute value and
counts as 0.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000


def java_hash(text: str) -> int:
    """Java's `text.hashCode()`: 31 h + unit over the UTF-16 units, signed, of 32 bits."""
    h = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        h = (31 * h + (units[at] << 8) + units[at + 1]) & _MASK
    return h - (1 << 32) if h & _SIGN else h


def partition_for(coordinated_id: str, partitions: int) -> int:
    """The partition, out of `partitions`, whose leader coordinates this group or
    transactional id.
    """
    h = java_hash(coordinated_id)
    return 0 if h == -_SIGN else abs(h) % partitions

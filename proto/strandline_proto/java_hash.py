"""Which partition of an internal topic coordinates a group: Java's string hash, as Kafka takes it.

Every client and every broker computes it, so it is the same everywhere. The hash goes over UTF-16
code units, of which an emoji has two (P-153); -2^31, which has no absolute value, counts as 0.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000


def java_hash(text: str) -> int:
    """`text.hashCode()` of Java: 31 h + unit over the UTF-16 units, signed, of 32 bits."""
    h = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        h = (31 * h + (units[at] << 8) + units[at + 1]) & _MASK
    return h - (1 << 32) if h & _SIGN else h


def partition_for(coordinated_id: str, partitions: int) -> int:
    """The partition, of so many, whose leader coordinates this group or transactional id."""
    h = java_hash(coordinated_id)
    return 0 if h == -_SIGN else abs(h) % partitions

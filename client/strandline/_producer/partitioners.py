"""The partitioners that a producer knows by name: they choose the partition of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from strandline.errors import ConfigurationError
from strandline_proto.partitioner import partition_for

if TYPE_CHECKING:
    from collections.abc import Callable


def by_crc32(key: bytes, partitions: int) -> int:
    """The partition that librdkafka's `consistent_random` gives a key."""
    return crc32(key) % partitions


PARTITIONERS: Final[dict[str, Callable[[bytes, int], int]]] = {
    "murmur2": partition_for,
    "murmur2_random": partition_for,
    "consistent_random": by_crc32,
}
"""Java's, and two of librdkafka's. Records without a key never come here."""


def partitioner_of(given: object) -> Callable[[bytes, int], int]:
    """The function that the option `partitioner` names or is. Raises ConfigurationError."""
    if isinstance(given, str):
        found = PARTITIONERS.get(given.lower())
        if found is not None:
            return found
    elif callable(given):
        return given
    raise ConfigurationError(
        f"partitioner={given!r} is neither a function of (key, partitions) nor one of: "
        f"{', '.join(PARTITIONERS)}"
    )

"""The isolation levels of Kafka's Fetch, FetchRange and ListOffsets, which limit how far a client
may read.
"""

from __future__ import annotations

import enum

from strandline_proto.errors import UnsupportedVersion


class Isolation(enum.IntEnum):
    READ_UNCOMMITTED = 0
    """Reads up to the high watermark."""
    READ_COMMITTED = 1
    """Reads up to the last stable offset, which open transactions hold back (KIP-98)."""


def isolation(level: int) -> Isolation:
    """Returns the isolation of a request; raises UnsupportedVersion for a level that has none."""
    try:
        return Isolation(level)
    except ValueError:
        raise UnsupportedVersion(
            f"isolation level {level} is not known: 0 is read_uncommitted, 1 is read_committed"
        ) from None

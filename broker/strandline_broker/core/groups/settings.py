"""The configuration of groups; names and defaults are Kafka's, unless a docstring says
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = 10_000
    """Limit on members; Kafka has none. With this many members a first target still fits into one
    batch.
    """
    classic_min_session_timeout_ms: int = 6_000
    classic_max_session_timeout_ms: int = 1_800_000
    classic_max_size: int = INT32_MAX
    classic_initial_rebalance_delay_ms: int = 100
    """Time that the first members of a group have to join together; Kafka waits 3000 ms."""
    classic_new_member_timeout_ms: int = 300_000
    """Limit of the wait of a new member for its first answer; Kafka has no key for it."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """Assignors; the first is the default."""
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10_080 * 60_000
    assign_at_once_max: int = 2_000
    """Limit on members plus partitions for a target that is computed within the decision; above it
    an executor computes it (P-149).
    """

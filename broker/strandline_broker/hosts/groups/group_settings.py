"""The settings of groups, taken from the broker's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.settings import GroupSettings

if TYPE_CHECKING:
    from strandline_broker.config.keys import GroupCoordinatorConfig

MINUTE_MS: Final = 60_000
ASSIGN_AT_ONCE_MAX: Final = 250
"""Members and partitions; who joins a larger group shares a target with who joins with it."""


def group_settings(config: GroupCoordinatorConfig) -> GroupSettings:
    return GroupSettings(
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_min_session_timeout_ms=config.group_consumer_min_session_timeout_ms,
        consumer_max_session_timeout_ms=config.group_consumer_max_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_min_heartbeat_interval_ms=config.group_consumer_min_heartbeat_interval_ms,
        consumer_max_heartbeat_interval_ms=config.group_consumer_max_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        classic_min_session_timeout_ms=config.group_min_session_timeout_ms,
        classic_max_session_timeout_ms=config.group_max_session_timeout_ms,
        classic_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        classic_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        assign_at_once_max=ASSIGN_AT_ONCE_MAX,
    )

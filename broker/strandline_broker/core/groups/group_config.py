"""The configuration of single groups: keys that override the broker's, within its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.core.config_values import shown, suggestion
from strandline_broker.core.groups.settings import INT32_MAX, GroupSettings
from strandline_proto.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class GroupKey:
    name: str
    doc: str
    default: Callable[[GroupSettings], int]
    low: Callable[[GroupSettings], int]
    high: Callable[[GroupSettings], int]


SESSION_TIMEOUT: Final = GroupKey(
    "consumer.session.timeout.ms",
    "After how long without a word from a member the group goes on without it.",
    lambda settings: settings.consumer_session_timeout_ms,
    lambda settings: settings.consumer_min_session_timeout_ms,
    lambda settings: settings.consumer_max_session_timeout_ms,
)
HEARTBEAT_INTERVAL: Final = GroupKey(
    "consumer.heartbeat.interval.ms",
    "How often the members of the group say that they are alive.",
    lambda settings: settings.consumer_heartbeat_interval_ms,
    lambda settings: settings.consumer_min_heartbeat_interval_ms,
    lambda settings: settings.consumer_max_heartbeat_interval_ms,
)
CROWD: Final = 5_000
"""Number of a broker's members above which each of them gets the longest heartbeat interval."""
GROUP_KEYS: Final = {key.name: key for key in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)}


def group_value(key: GroupKey, settings: GroupSettings, overrides: Mapping[str, str]) -> int:
    """The effective value for a group. An override from a time with other bounds is limited to the
    present ones.
    """
    text = overrides.get(key.name)
    value = key.default(settings) if text is None else int(text)
    return max(key.low(settings), min(value, key.high(settings)))


def heartbeat_interval_ms(
    settings: GroupSettings, overrides: Mapping[str, str], *, members: int
) -> int:
    """The heartbeat interval for a member, by the broker's number of members; a group's own value
    always applies.
    """
    interval_ms = group_value(HEARTBEAT_INTERVAL, settings, overrides)
    if members <= CROWD or HEARTBEAT_INTERVAL.name in overrides:
        return interval_ms
    third_ms = group_value(SESSION_TIMEOUT, settings, overrides) // 3
    return max(interval_ms, min(settings.consumer_max_heartbeat_interval_ms, third_ms))


def check_group_key(name: str) -> None:
    if name not in GROUP_KEYS:
        raise InvalidConfig(
            f"{shown(name)} is no configuration key of a group{suggestion(name, GROUP_KEYS)}"
        )


def check_group_configs(entries: Mapping[str, str], settings: GroupSettings | None = None) -> None:
    """Check the altered keys of a group.

    Raises InvalidConfig at the first entry that is no key of a group, no time or, given a broker's
    settings, out of its bounds. It is also raised if the heartbeat interval would not be shorter
    than the session timeout.
    """
    for name, text in entries.items():
        check_group_key(name)
        key = GROUP_KEYS[name]
        low, high = (1, INT32_MAX) if settings is None else (key.low(settings), key.high(settings))
        is_number = text.isascii() and text.isdigit() and len(text) <= 10
        if not is_number or not low <= int(text) <= high:
            raise InvalidConfig(f"{name}={shown(text)}: expected milliseconds from {low} to {high}")
    bounds = settings or GroupSettings()
    session = entries.get(SESSION_TIMEOUT.name)
    heartbeat = entries.get(HEARTBEAT_INTERVAL.name)
    session_ms = SESSION_TIMEOUT.default(bounds) if session is None else int(session)
    heartbeat_ms = HEARTBEAT_INTERVAL.default(bounds) if heartbeat is None else int(heartbeat)
    both = session is not None and heartbeat is not None
    if (both or settings is not None) and heartbeat_ms >= session_ms:
        raise InvalidConfig(
            f"{HEARTBEAT_INTERVAL.name}={heartbeat_ms} is not below {SESSION_TIMEOUT.name}="
            f"{session_ms}: every member would be lost between two heartbeats"
        )

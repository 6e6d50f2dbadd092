"""The configuration of single groups: keys that override the broker's, within its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.core.config_values import suggestion
from strandline_proto.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline_broker.core.groups.settings import GroupSettings


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
GROUP_KEYS: Final = {key.name: key for key in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)}


def group_value(key: GroupKey, settings: GroupSettings, overrides: Mapping[str, str]) -> int:
    """What holds for a group. An override from the time of other bounds is brought within them."""
    text = overrides.get(key.name)
    value = key.default(settings) if text is None else int(text)
    return max(key.low(settings), min(value, key.high(settings)))


def check_group_configs(entries: Mapping[str, str], settings: GroupSettings) -> None:
    """Raises InvalidConfig at the first entry that is no key of a group or out of bounds, and where
    the heartbeats would be no shorter than the session.
    """
    for name, text in entries.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise InvalidConfig(
                f"{name} is no configuration key of a group{suggestion(name, GROUP_KEYS)}"
            )
        low, high = key.low(settings), key.high(settings)
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise InvalidConfig(
                f"{name}={text}: expected milliseconds from {low} to {high}, the brokers' bounds"
            )
    session = group_value(SESSION_TIMEOUT, settings, entries)
    heartbeat = group_value(HEARTBEAT_INTERVAL, settings, entries)
    if heartbeat >= session:
        raise InvalidConfig(
            f"{HEARTBEAT_INTERVAL.name}={heartbeat} is not below {SESSION_TIMEOUT.name}={session}: "
            "every member would be lost between two heartbeats"
        )

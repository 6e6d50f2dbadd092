"""The current configuration of one broker: its own, with the values altered at run time."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.log.log import LogConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.topic_config import TopicConfig

RESOLVED_MAX: Final = 1024
"""Different configurations of topics that are cached: most topics share a few."""


class DynamicConfig:
    """The current configuration. Read a dynamic key from `current` each time it is used: a kept
    copy would miss changes.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._static = config
        self.current = config
        self._resolved: dict[tuple[tuple[str, str], ...], TopicConfig] = {}

    def alter(self, entries: Mapping[str, str]) -> None:
        """Take over all entries that the controller reports as altered at run time."""
        self.current = self._static.altered(entries)
        self._resolved.clear()

    def resolve(self, entries: Mapping[str, str]) -> TopicConfig:
        """A topic's configuration: its own entries over this broker's current defaults."""
        key = tuple(entries.items())
        known = self._resolved.get(key)
        if known is None:
            if len(self._resolved) >= RESOLVED_MAX:
                self._resolved.clear()
            known = self._resolved[key] = self.current.topic_defaults.with_entries(entries)
        return known


def log_config(topic: TopicConfig) -> LogConfig:
    """The part of a topic's configuration that storage needs."""
    return LogConfig(**{field.name: getattr(topic, field.name) for field in fields(LogConfig)})


def keep_everything(config: DynamicConfig) -> LogConfig:
    """The configuration of a log whose topic's is not known yet: nothing is deleted or compacted.

    A broker that has just started, or cannot reach a controller, must not apply its own defaults to
    a topic that may have unlimited retention.
    """
    return replace(
        log_config(config.resolve({})),
        cleanup_policy=("delete",),
        retention_bytes=-1,
        retention_ms=-1,
    )

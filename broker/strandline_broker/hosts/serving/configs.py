"""DescribeConfigs: the value of each key of a topic, a group or this broker, and its source.

A value's sources, the strongest first: the topic's own entry, altered at run time for this broker,
altered for all brokers, the server's own configuration, the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.config.keys import BROKER_KEYS, CONTROLLER_KEYS
from strandline_broker.config.text import described
from strandline_broker.core.groups.consumer.heartbeat_rules import check_group_id
from strandline_broker.core.groups.group_config import GROUP_KEYS
from strandline_broker.core.topic_config import TOPIC_KEYS
from strandline_proto.errors import InvalidRequest, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
"""Kafka's resource types."""
FROM_TOPIC: Final = 1
FROM_DYNAMIC_BROKER: Final = 2
FROM_DYNAMIC_CLUSTER: Final = 3
FROM_STATIC_BROKER: Final = 4
FROM_DEFAULT: Final = 5
FROM_GROUP: Final = 8
"""Kafka's configuration sources."""


class ConfigSynonym(NamedTuple):
    """One source that gives a key a value."""

    name: str
    value: str
    source: int


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    name: str
    synonyms: list[ConfigSynonym]
    """The sources of a value, at least one, the strongest first: its value counts."""
    read_only: bool
    documentation: str

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> int:
        return self.synonyms[0].source


class ConfigsService:
    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        """`config`: as it was at the start, without what was altered since."""
        self._node_id = config.node_id
        self._explicit = config.explicit
        self._static = {name: value for name, value, _ in described(config)}
        self._metadata = metadata

    def describe(self, resource_type: int, name: str) -> Iterator[DescribedConfig]:
        """Yields the resource's keys, each with its value. A wrong resource raises WireError."""
        if resource_type == TOPIC:
            return self._topic(name)
        if resource_type == BROKER:
            return self._broker(name)
        if resource_type == GROUP:
            return self._group(name)
        raise InvalidRequest(
            f"resource type {resource_type} is not known; use {TOPIC} (topic), {BROKER} (broker) "
            f"or {GROUP} (group)"
        )

    def _topic(self, name: str) -> Iterator[DescribedConfig]:
        topic = self._metadata.view.topic_named(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"broker {self._node_id} knows no topic {name!r}")
        return self.of_topic(topic.configs)

    def of_topic(self, own: Mapping[str, str]) -> Iterator[DescribedConfig]:
        """Yields the keys of a topic that has these entries of its own."""
        for key in TOPIC_KEYS.values():
            values = self._values(key.default_from)
            if key.name in own:
                values.insert(0, ConfigSynonym(key.name, own[key.name], FROM_TOPIC))
            if values:
                yield _described(key.name, values, documentation=key.doc)
        for entry, value in own.items():
            if entry not in TOPIC_KEYS:
                yield _described(entry, [ConfigSynonym(entry, value, FROM_TOPIC)])

    def _group(self, group_id: str) -> Iterator[DescribedConfig]:
        """The configuration of any group id: the group need not exist."""
        check_group_id(group_id)
        own = self._metadata.view.dynamic_configs.groups.get(group_id, {})
        for key in GROUP_KEYS.values():
            values = self._values(f"group.{key.name}")
            if key.name in own:
                values.insert(0, ConfigSynonym(key.name, own[key.name], FROM_GROUP))
            if values:
                yield _described(key.name, values, documentation=key.doc)

    def _broker(self, name: str) -> Iterator[DescribedConfig]:
        if name == "":
            return self._altered_for_all()
        if name != str(self._node_id):
            raise InvalidRequest(
                f"this is broker {self._node_id}; ask broker {name} for its configuration"
            )
        return self._own()

    def _altered_for_all(self) -> Iterator[DescribedConfig]:
        for key, value in sorted(self._metadata.view.dynamic_configs.cluster.items()):
            yield _described(key, [ConfigSynonym(key, value, FROM_DYNAMIC_CLUSTER)])

    def _own(self) -> Iterator[DescribedConfig]:
        for key in BROKER_KEYS.values():
            yield _described(
                key.name, self._values(key.name), read_only=not key.dynamic, documentation=key.doc
            )
        # Keys of the controller that brokers use too.
        names = self._metadata.view.dynamic_configs.controller.keys() & CONTROLLER_KEYS.keys()
        for name in sorted(names):
            declared = CONTROLLER_KEYS[name]
            yield _described(
                name,
                self._values(name),
                read_only=not declared.dynamic,
                documentation=declared.doc,
            )

    def _values(self, name: str) -> list[ConfigSynonym]:
        """Everything that gives a server's key a value here, the strongest first."""
        dynamic = self._metadata.view.dynamic_configs
        found = []
        for entries, source in (
            (dynamic.broker, FROM_DYNAMIC_BROKER),
            (dynamic.cluster, FROM_DYNAMIC_CLUSTER),
        ):
            if name in entries:
                found.append(ConfigSynonym(name, entries[name], source))
        if name in self._static:
            source = FROM_STATIC_BROKER if name in self._explicit else FROM_DEFAULT
            found.append(ConfigSynonym(name, self._static[name], source))
        elif name in CONTROLLER_KEYS and dynamic.controller:
            value = dynamic.controller.get(name, CONTROLLER_KEYS[name].default or "")
            is_default = value == CONTROLLER_KEYS[name].default
            source = FROM_DEFAULT if is_default else FROM_STATIC_BROKER
            found.append(ConfigSynonym(name, value, source))
        return found


def _described(
    name: str,
    values: list[ConfigSynonym],
    *,
    read_only: bool = False,
    documentation: str = "",
) -> DescribedConfig:
    return DescribedConfig(name, values, read_only, documentation)

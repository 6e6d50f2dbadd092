"""DescribeConfigs: the value of each key of a topic, a group or this broker, and its source.

A value's sources, the strongest first: the topic's own entry, altered at run time for this broker,
altered for all brokers, the server's own configuration, the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.config.keys import BROKER_KEYS, CONTROLLER_KEYS
from strandline_broker.config.text import described
from strandline_broker.config.unsupported import ONLY_VALUE
from strandline_broker.core.controller.topics.configs import DELETE, SET, Alteration
from strandline_broker.core.groups.group_config import GROUP_KEYS
from strandline_broker.core.groups.group_ids import check_new_group_id
from strandline_broker.core.topic_config import FIXED_TOPIC_VALUES, TOPIC_KEYS, TopicConfig
from strandline_broker.hosts.serving.config_kinds import ConfigKind, kind_of, kind_of_text
from strandline_proto.errors import InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
"""Kafka's resource types."""
RESOURCE_TYPES: Final = (TOPIC, BROKER, 8, 16, GROUP)
"""Types that Kafka has. Loggers (8) and client metrics (16) have no configuration here."""
FROM_TOPIC: Final = 1
FROM_DYNAMIC_BROKER: Final = 2
FROM_DYNAMIC_CLUSTER: Final = 3
FROM_STATIC_BROKER: Final = 4
FROM_DEFAULT: Final = 5
FROM_GROUP: Final = 8
"""Kafka's configuration sources."""
_FIXED_DOC: Final = "The only value that this build supports."


class ConfigSynonym(NamedTuple):
    """One source that gives a key a value."""

    name: str
    value: str
    source: int


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    name: str
    kind: ConfigKind
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
        self._kinds = _kinds_of(config)

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

    def replacing(
        self, resource_type: int, name: str, entries: Mapping[str, str]
    ) -> list[Alteration]:
        """Returns the alterations that leave the resource with these entries of its own.

        Raises InvalidRequest for another broker, whose entries this one does not know.
        """
        dynamic = self._metadata.view.dynamic_configs
        own: Mapping[str, str] = {}
        if resource_type == TOPIC:
            topic = self._metadata.view.topic_named(name)
            own = {} if topic is None else topic.configs
        elif resource_type == GROUP:
            own = dynamic.groups.get(name, {})
        elif resource_type == BROKER:
            if name not in ("", str(self._node_id)):
                raise InvalidRequest(
                    f"this is broker {self._node_id}; ask broker {name} to replace its"
                    " configuration"
                )
            own = dynamic.broker if name else dynamic.cluster
        return [
            *(Alteration(key, SET, value) for key, value in entries.items()),
            *(Alteration(key, DELETE, "") for key in own if key not in entries),
        ]

    def resources(self, types: Sequence[int]) -> list[tuple[int, str]]:
        """Returns (type, name) of the resources of these types; of all types if none is named.

        Raises UnsupportedVersion for a type that Kafka does not have.
        """
        for each in types:
            if each not in RESOURCE_TYPES:
                raise UnsupportedVersion(f"resource type {each} is not known")
        view = self._metadata.view
        names = {
            TOPIC: sorted(view.ids_by_name),
            BROKER: [str(broker_id) for broker_id in view.brokers],
            GROUP: sorted(view.dynamic_configs.groups),
        }
        return [
            (kind, name)
            for kind in RESOURCE_TYPES
            if not types or kind in types
            for name in names.get(kind, ())
        ]

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
                kind = _TOPIC_KINDS[key.name]
                yield DescribedConfig(
                    key.name, kind, values, read_only=False, documentation=key.doc
                )
        for name, value in FIXED_TOPIC_VALUES.items():
            fixed = _fixed(name, value)
            if name in own:
                fixed.synonyms.insert(0, ConfigSynonym(name, own[name], FROM_TOPIC))
            yield fixed

    def _group(self, group_id: str) -> Iterator[DescribedConfig]:
        """The configuration of any group id: the group need not exist."""
        check_new_group_id(group_id)
        own = self._metadata.view.dynamic_configs.groups.get(group_id, {})
        for key in GROUP_KEYS.values():
            values = self._values(f"group.{key.name}")
            if key.name in own:
                values.insert(0, ConfigSynonym(key.name, own[key.name], FROM_GROUP))
            if values:
                yield DescribedConfig(
                    key.name, ConfigKind.INT, values, read_only=False, documentation=key.doc
                )

    def _broker(self, name: str) -> Iterator[DescribedConfig]:
        if name == "":
            return self._altered_for_all()
        if name != str(self._node_id):
            raise InvalidRequest(
                f"this is broker {self._node_id}; ask broker {name} for its configuration"
            )
        return self._own()

    def _altered_for_all(self) -> Iterator[DescribedConfig]:
        for name, value in sorted(self._metadata.view.dynamic_configs.cluster.items()):
            declared = BROKER_KEYS.get(name) or CONTROLLER_KEYS.get(name)
            yield DescribedConfig(
                name,
                self._kinds.get(name, ConfigKind.STRING),
                [ConfigSynonym(name, value, FROM_DYNAMIC_CLUSTER)],
                read_only=False,
                documentation="" if declared is None else declared.doc,
            )

    def _own(self) -> Iterator[DescribedConfig]:
        # Keys of the controller that brokers use or know too.
        names = self._metadata.view.dynamic_configs.controller.keys() & CONTROLLER_KEYS.keys()
        for key in (*BROKER_KEYS.values(), *(CONTROLLER_KEYS[name] for name in sorted(names))):
            yield DescribedConfig(
                key.name,
                self._kinds[key.name],
                self._values(key.name),
                read_only=not key.dynamic,
                documentation=key.doc,
            )
        for name, value in ONLY_VALUE.items():
            yield _fixed(name, value, read_only=True)

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


def _fixed(name: str, value: str, *, read_only: bool = False) -> DescribedConfig:
    """A key of Kafka's that has one value here."""
    default = ConfigSynonym(name, value, FROM_DEFAULT)
    kind = kind_of_text(value)
    return DescribedConfig(name, kind, [default], read_only=read_only, documentation=_FIXED_DOC)


def _kinds_of(config: BrokerConfig) -> dict[str, ConfigKind]:
    """The types of the servers' keys."""
    found = {
        key.name: kind_of(key.name, key.parse(key.default), key.parse)
        for key in CONTROLLER_KEYS.values()
        if key.default is not None
    }
    for name, _, key in described(config):
        found[name] = kind_of(name, getattr(config, name.replace(".", "_")), key.parse)
    return found


_TOPIC_KINDS: Final = {
    key.name: kind_of(key.name, getattr(TopicConfig(), key.name.replace(".", "_")), key.parse)
    for key in TOPIC_KEYS.values()
}

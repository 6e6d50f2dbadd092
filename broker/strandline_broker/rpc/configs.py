"""DescribeConfigs: the value of each key of a topic or of this broker, and where it comes from.

A value's sources, the strongest first: the topic's own entry, altered at run time for this broker,
altered for all brokers, the server's own configuration, the default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.config import BROKER_KEYS, CONTROLLER_KEYS
from strandline_broker.config_text import described
from strandline_broker.core.groups.consumer.heartbeat_rules import check_group_id
from strandline_broker.core.groups.group_config import GROUP_KEYS
from strandline_broker.core.topic_config import TOPIC_KEYS
from strandline_broker.rpc.turns import Turns
from strandline_proto.errors import InvalidRequest, UnknownTopicOrPartition, WireError
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.config import BrokerConfig
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


class ConfigsRpc:
    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        """`config`: as it was at the start, without what was altered since."""
        self._node_id = config.node_id
        self._explicit = config.explicit
        self._static = {name: value for name, value, _ in described(config)}
        self._metadata = metadata

    async def DescribeConfigs(
        self, request: metadata_pb2.DescribeConfigsRequest, context: Any
    ) -> metadata_pb2.DescribeConfigsResponse:
        response = metadata_pb2.DescribeConfigsResponse()
        turns = Turns()
        for resource in request.resources:
            result = response.results.add(type=resource.type, name=resource.name)
            try:
                found = list(self._describe(resource))
            except WireError as error:
                result.error_code, result.error_message = error.code, str(error)
                await turns.took()
                continue
            await turns.took(len(found) + len(resource.keys))
            wanted = set(resource.keys)
            result.configs.extend(c for c in found if not wanted or c.name in wanted)
        return response

    def _describe(
        self, resource: metadata_pb2.ConfigResource
    ) -> Iterable[metadata_pb2.DescribedConfig]:
        if resource.type == TOPIC:
            return self._topic(resource.name)
        if resource.type == BROKER:
            return self._broker(resource.name)
        if resource.type == GROUP:
            return self._group(resource.name)
        raise InvalidRequest(
            f"resource type {resource.type} is not known; use {TOPIC} (topic), {BROKER} (broker) "
            f"or {GROUP} (group)"
        )

    def _topic(self, name: str) -> Iterable[metadata_pb2.DescribedConfig]:
        topic = self._metadata.view.topic_named(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"broker {self._node_id} knows no topic {name!r}")
        for key in TOPIC_KEYS.values():
            values = self._values(key.default_from)
            if key.name in topic.configs:
                values.insert(0, _value(key.name, topic.configs[key.name], FROM_TOPIC))
            if values:
                yield _described(key.name, values, documentation=key.doc)
        for entry, value in topic.configs.items():
            if entry not in TOPIC_KEYS:
                yield _described(entry, [_value(entry, value, FROM_TOPIC)])

    def _group(self, group_id: str) -> Iterable[metadata_pb2.DescribedConfig]:
        """Of any id: a group need not be there to have a configuration."""
        check_group_id(group_id)
        own = self._metadata.view.dynamic_configs.groups.get(group_id, {})
        for key in GROUP_KEYS.values():
            values = self._values(f"group.{key.name}")
            if key.name in own:
                values.insert(0, _value(key.name, own[key.name], FROM_GROUP))
            if values:
                yield _described(key.name, values, documentation=key.doc)

    def _broker(self, name: str) -> Iterable[metadata_pb2.DescribedConfig]:
        if name == "":
            return self._altered_for_all()
        if name != str(self._node_id):
            raise InvalidRequest(
                f"this is broker {self._node_id}; ask broker {name} for its configuration"
            )
        return self._own()

    def _altered_for_all(self) -> Iterable[metadata_pb2.DescribedConfig]:
        for key, value in sorted(self._metadata.view.dynamic_configs.cluster.items()):
            yield _described(key, [_value(key, value, FROM_DYNAMIC_CLUSTER)])

    def _own(self) -> Iterable[metadata_pb2.DescribedConfig]:
        for key in BROKER_KEYS.values():
            yield _described(
                key.name, self._values(key.name), read_only=not key.dynamic, documentation=key.doc
            )
        # The controller's, but brokers work by them.
        names = self._metadata.view.dynamic_configs.controller.keys() & CONTROLLER_KEYS.keys()
        for name in sorted(names):
            declared = CONTROLLER_KEYS[name]
            yield _described(
                name,
                self._values(name),
                read_only=not declared.dynamic,
                documentation=declared.doc,
            )

    def _values(self, name: str) -> list[metadata_pb2.ConfigSynonym]:
        """Everything that gives a server's key a value here, the strongest first."""
        dynamic = self._metadata.view.dynamic_configs
        found = []
        for entries, source in (
            (dynamic.broker, FROM_DYNAMIC_BROKER),
            (dynamic.cluster, FROM_DYNAMIC_CLUSTER),
        ):
            if name in entries:
                found.append(_value(name, entries[name], source))
        if name in self._static:
            source = FROM_STATIC_BROKER if name in self._explicit else FROM_DEFAULT
            found.append(_value(name, self._static[name], source))
        elif name in CONTROLLER_KEYS and dynamic.controller:
            value = dynamic.controller.get(name, CONTROLLER_KEYS[name].default or "")
            is_default = value == CONTROLLER_KEYS[name].default
            source = FROM_DEFAULT if is_default else FROM_STATIC_BROKER
            found.append(_value(name, value, source))
        return found


def _value(name: str, value: str, source: int) -> metadata_pb2.ConfigSynonym:
    return metadata_pb2.ConfigSynonym(name=name, value=value, source=source)


def _described(
    name: str,
    values: list[metadata_pb2.ConfigSynonym],
    *,
    read_only: bool = False,
    documentation: str = "",
) -> metadata_pb2.DescribedConfig:
    return metadata_pb2.DescribedConfig(
        name=name,
        value=values[0].value,
        source=values[0].source,
        read_only=read_only,
        documentation=documentation,
        synonyms=values,
    )

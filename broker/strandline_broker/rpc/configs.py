"""DescribeConfigs: the value of each key of a topic or of this broker, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.config import described
from strandline_broker.core.topic_config import TOPIC_KEYS
from strandline_proto.errors import InvalidRequest, UnknownTopicOrPartition, WireError
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.config import BrokerConfig
    from strandline_broker.core.metadata_cache import MetadataCache

TOPIC: Final = 2
BROKER: Final = 4
"""Kafka's resource types."""
FROM_TOPIC: Final = 1
FROM_STATIC_BROKER: Final = 4
FROM_DEFAULT: Final = 5
"""Kafka's configuration sources."""


class ConfigsRpc:
    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        self._config = config
        self._metadata = metadata

    async def DescribeConfigs(
        self, request: metadata_pb2.DescribeConfigsRequest, context: Any
    ) -> metadata_pb2.DescribeConfigsResponse:
        response = metadata_pb2.DescribeConfigsResponse()
        for resource in request.resources:
            result = response.results.add(type=resource.type, name=resource.name)
            try:
                found = list(self._describe(resource))
            except WireError as error:
                result.error_code, result.error_message = error.code, str(error)
                continue
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
        raise InvalidRequest(
            f"resource type {resource.type} is not known; use {TOPIC} (topic) or {BROKER} (broker)"
        )

    def _topic(self, name: str) -> Iterable[metadata_pb2.DescribedConfig]:
        topic = self._metadata.view.topic_named(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"broker {self._config.node_id} knows no topic {name!r}")
        defaults = self._config.topic_defaults
        for key in TOPIC_KEYS.values():
            own = topic.configs.get(key.name)
            if own is None and key.name == "min.insync.replicas":
                # Its default is the controller's (P-77); no broker says what it may not know.
                continue
            if own is not None:
                value, source = own, FROM_TOPIC
            else:
                value = str(getattr(defaults, key.name.replace(".", "_")))
                is_set = key.default_from in self._config.explicit
                source = FROM_STATIC_BROKER if is_set else FROM_DEFAULT
            yield metadata_pb2.DescribedConfig(
                name=key.name, value=value, source=source, documentation=key.doc
            )

    def _broker(self, name: str) -> Iterable[metadata_pb2.DescribedConfig]:
        if name != str(self._config.node_id):
            raise InvalidRequest(
                f"this is broker {self._config.node_id}; ask broker {name} for its configuration"
            )
        for key, value, declared in described(self._config):
            yield metadata_pb2.DescribedConfig(
                name=key,
                value=value,
                source=FROM_STATIC_BROKER if key in self._config.explicit else FROM_DEFAULT,
                read_only=True,
                documentation=declared.doc,
            )

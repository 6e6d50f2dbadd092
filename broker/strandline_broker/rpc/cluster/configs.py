"""DescribeConfigs on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.turns import Turns
from strandline_proto.errors import WireError
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.configs import ConfigsService, DescribedConfig


class ConfigsRpc:
    def __init__(self, configs: ConfigsService) -> None:
        self._configs = configs

    async def DescribeConfigs(
        self, request: metadata_pb2.DescribeConfigsRequest, context: Any
    ) -> metadata_pb2.DescribeConfigsResponse:
        response = metadata_pb2.DescribeConfigsResponse()
        turns = Turns()
        for resource in request.resources:
            result = response.results.add(type=resource.type, name=resource.name)
            try:
                found = list(self._configs.describe(resource.type, resource.name))
            except WireError as error:
                result.error_code, result.error_message = error.code, str(error)
                await turns.took()
                continue
            await turns.took(len(found) + len(resource.keys))
            wanted = set(resource.keys)
            result.configs.extend(
                _to_wire(config) for config in found if not wanted or config.name in wanted
            )
        return response


def _to_wire(config: DescribedConfig) -> metadata_pb2.DescribedConfig:
    return metadata_pb2.DescribedConfig(
        name=config.name,
        value=config.value,
        source=config.source,
        read_only=config.read_only,
        documentation=config.documentation,
        synonyms=[metadata_pb2.ConfigSynonym(**each._asdict()) for each in config.synonyms],
    )

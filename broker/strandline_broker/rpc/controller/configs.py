"""IncrementalAlterConfigs on the wire, at the controller; brokers forward it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.topics.configs import Alteration
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.rpc.controller.answers import limit_s, refuse, wait_applied
from strandline_proto.errors import InvalidRequest, WireError
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.hosts.controller.controller import Controller


ENTRIES_MAX: Final = 10_000
"""Limit of resources and entries in one request, because the event loop decides them."""


class AlterConfigsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def IncrementalAlterConfigs(
        self, request: metadata_pb2.IncrementalAlterConfigsRequest, context: Any
    ) -> metadata_pb2.IncrementalAlterConfigsResponse:
        response = metadata_pb2.IncrementalAlterConfigsResponse()
        entries = sum(len(resource.configs) + 1 for resource in request.resources)
        if entries > ENTRIES_MAX:
            many = f"{entries} resources and entries in one request, {ENTRIES_MAX} are possible"
            refuse(response, InvalidRequest(f"{many}: send several"))
            return response
        repeated = _repeated(request.resources)
        async for resource in in_turns(request.resources):
            result = response.results.add(type=resource.type, name=resource.name)
            try:
                if (resource.type, resource.name) in repeated:
                    raise InvalidRequest(f"{resource.name!r} is altered twice in one request")
                async with asyncio.timeout(limit_s(request.timeout_ms)):
                    await self._controller.administration.alter_configs(
                        resource.type,
                        resource.name,
                        [Alteration(c.name, c.operation, c.value) for c in resource.configs],
                        validate_only=request.validate_only,
                    )
            except (WireError, TimeoutError) as error:
                refuse(result, error, f"configuration of {resource.name!r}")
        if not request.validate_only:
            await wait_applied(response, self._controller, request.timeout_ms)
        response.metadata_offset = self._controller.state.last_offset
        return response


def _repeated(resources: Iterable[metadata_pb2.AlterConfigResource]) -> set[tuple[int, str]]:
    seen: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    for resource in resources:
        key = (resource.type, resource.name)
        (twice if key in seen else seen).add(key)
    return twice

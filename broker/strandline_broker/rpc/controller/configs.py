"""IncrementalAlterConfigs on the wire, at the controller; brokers forward it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.configs import Alteration
from strandline_broker.rpc.controller.topics import limit_s
from strandline_proto.errors import InvalidRequest, RequestTimedOut, WireError
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.hosts.controller.controller import Controller


APPLY_WAIT_S: Final = 2.0
"""How long an answer waits for brokers that are slow to work by the change."""


ENTRIES_MAX: Final = 10_000
"""Resources and entries of one request: they are decided on the event loop."""


class AlterConfigsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def IncrementalAlterConfigs(
        self, request: metadata_pb2.IncrementalAlterConfigsRequest, context: Any
    ) -> metadata_pb2.IncrementalAlterConfigsResponse:
        response = metadata_pb2.IncrementalAlterConfigsResponse()
        entries = sum(len(resource.configs) + 1 for resource in request.resources)
        if entries > ENTRIES_MAX:
            response.error_code = InvalidRequest.code
            response.error_message = (
                f"{entries} resources and entries in one request, {ENTRIES_MAX} are possible: send "
                "several"
            )
            return response
        repeated = _repeated(request.resources)
        for resource in request.resources:
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
            except WireError as error:
                result.error_code, result.error_message = error.code, str(error)
            except TimeoutError:
                slow = RequestTimedOut(
                    f"configuration of {resource.name!r}: the controller's disk was too slow; the "
                    "outcome is unknown, look before a retry"
                )
                result.error_code, result.error_message = slow.code, str(slow)
        if not request.validate_only:
            # Well within the asker's own limit: what is durable must not look like a failure.
            asked_s = limit_s(request.timeout_ms)
            wait_s = APPLY_WAIT_S if asked_s is None else min(APPLY_WAIT_S, asked_s / 2)
            response.pending_brokers.extend(await self._controller.until_applied(wait_s))
        return response


def _repeated(resources: Iterable[metadata_pb2.AlterConfigResource]) -> set[tuple[int, str]]:
    seen: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    for resource in resources:
        key = (resource.type, resource.name)
        (twice if key in seen else seen).add(key)
    return twice

"""IncrementalAlterConfigs at a broker. The broker checks the configurations of groups, because
their bounds are the brokers'. The controller decides everything else.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from strandline_broker.core.controller.topics.configs import SET
from strandline_broker.hosts.serving.administration import refused_configs
from strandline_broker.hosts.serving.turns import in_turns
from strandline_proto.v1 import metadata_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_broker.core.groups.settings import GroupSettings
    from strandline_proto.errors import WireError

Request = metadata_pb2.IncrementalAlterConfigsRequest
Response = metadata_pb2.IncrementalAlterConfigsResponse


async def alter_configs(
    request: Request, settings: GroupSettings, forward: Callable[[Request], Awaitable[Response]]
) -> Response:
    """The controller's answer merged with this broker's refusals, in the request's order."""
    refused: dict[int, WireError] = {}
    async for index, resource in in_turns(enumerate(request.resources)):
        entries = {c.name: c.value.strip() for c in resource.configs if c.operation == SET}
        error = refused_configs(resource.type, entries, settings)
        if error is not None:
            refused[index] = error
    if not refused:
        return await forward(request)
    rest = Request()
    rest.CopyFrom(request)
    for index in sorted(refused, reverse=True):
        del rest.resources[index]
    response = await forward(rest) if rest.resources else Response()
    if response.error_code != 0:
        return response
    decided = deque(response.results)
    del response.results[:]
    async for index, resource in in_turns(enumerate(request.resources)):
        if index in refused:
            why = refused[index]
            result = response.results.add(type=resource.type, name=resource.name)
            result.error_code, result.error_message = why.code, str(why)
        elif decided:
            response.results.append(decided.popleft())
    return response

"""CreatePartitions on the wire, at the controller; brokers forward it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline_broker.core.controller.topics.added_partitions import MorePartitions
from strandline_broker.hosts.serving.turns import in_turns
from strandline_broker.rpc.controller.answers import limit_s, refuse, wait_applied
from strandline_proto.errors import WireError
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import partitions_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.controller.controller import Controller


class PartitionsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def CreatePartitions(
        self, request: partitions_pb2.CreatePartitionsRequest, context: Any
    ) -> partitions_pb2.CreatePartitionsResponse:
        """Carries out the requests in order: a topic that is named twice is checked the second time
        against the result of the first.
        """
        response = partitions_pb2.CreatePartitionsResponse()
        async for topic in in_turns(request.topics):
            result = response.results.add(name=topic.name, partitions_before=-1)
            wish = MorePartitions(
                topic.name,
                topic.count,
                tuple(tuple(BrokerId(b) for b in a.broker_ids) for a in topic.assignments),
            )
            try:
                async with asyncio.timeout(limit_s(request.timeout_ms)):
                    result.partitions_before = (
                        await self._controller.administration.create_partitions(
                            wish, validate_only=request.validate_only
                        )
                    )
            except (WireError, TimeoutError) as error:
                refuse(result, error, f"topic {topic.name}")
        if not request.validate_only and any(r.error_code == 0 for r in response.results):
            await wait_applied(response, self._controller, request.timeout_ms)
        response.metadata_offset = self._controller.state.last_offset
        return response

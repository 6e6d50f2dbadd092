"""CreatePartitions on the wire, at the controller; brokers forward it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.partitions import MorePartitions
from strandline_broker.rpc.controller.topics import limit_s
from strandline_proto.errors import RequestTimedOut, WireError
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import partitions_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.controller.controller import Controller

APPLY_WAIT_S: Final = 2.0
"""How long an answer waits for brokers that are slow to make the new replicas."""


class PartitionsRpc:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def CreatePartitions(
        self, request: partitions_pb2.CreatePartitionsRequest, context: Any
    ) -> partitions_pb2.CreatePartitionsResponse:
        """A topic that is named twice has its second wish judged by what the first one made."""
        response = partitions_pb2.CreatePartitionsResponse()
        asked_s = limit_s(request.timeout_ms)
        for topic in request.topics:
            result = response.results.add(name=topic.name, partitions_before=-1)
            wish = MorePartitions(
                topic.name,
                topic.count,
                tuple(tuple(BrokerId(b) for b in a.broker_ids) for a in topic.assignments),
            )
            try:
                async with asyncio.timeout(asked_s):
                    result.partitions_before = (
                        await self._controller.administration.create_partitions(
                            wish, validate_only=request.validate_only
                        )
                    )
            except WireError as error:
                result.error_code, result.error_message = error.code, str(error)
            except TimeoutError:
                slow = RequestTimedOut(
                    f"topic {topic.name}: the controller's disk was too slow; the outcome is "
                    "unknown, look before a retry"
                )
                result.error_code, result.error_message = slow.code, str(slow)
        if not request.validate_only and any(r.error_code == 0 for r in response.results):
            # Well within the asker's own limit: what is durable must not look like a failure.
            wait_s = APPLY_WAIT_S if asked_s is None else min(APPLY_WAIT_S, asked_s / 2)
            response.pending_brokers.extend(await self._controller.until_applied(wait_s))
        return response

"""The calls that a scripted broker has no script for: each is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from strandline_proto.v1 import fetch_pb2, groups_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Unscripted:
    async def _not_scripted(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not scripted")

    async def FetchRange(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._not_scripted(request, context)
        yield fetch_pb2.FetchRangeResponse()

    async def GroupSession(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        await self._not_scripted(request_iterator, context)
        yield groups_pb2.GroupSessionResponse()

    FindCoordinator = ConsumerGroupHeartbeat = _not_scripted
    OffsetCommit = OffsetFetch = OffsetDelete = _not_scripted
    ListGroups = ConsumerGroupDescribe = DeleteGroups = RemoveMembers = _not_scripted
    AbortTransaction = _not_scripted
    ListTransactions = DescribeTransactions = DescribeProducers = _not_scripted

"""Calls of the contract that this build does not serve yet: each is answered UNIMPLEMENTED."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class UnservedRpc:
    async def _refuse(self, request: Any, context: Any) -> None:
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED, "this broker does not coordinate groups; upgrade it"
        )

    async def GroupSession(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._refuse(request, context)
        yield  # a stream, as the contract has it

    FindCoordinator = ConsumerGroupHeartbeat = _refuse
    OffsetCommit = OffsetFetch = OffsetDelete = _refuse
    ListGroups = ConsumerGroupDescribe = DeleteGroups = RemoveMembers = _refuse

"""OffsetCommit, OffsetFetch and OffsetDelete, for whoever has no stream of a member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.commands import DeleteOffsets, OffsetsDeleted, OffsetsFetched
from strandline_broker.rpc.group_codec import (
    check_group_id,
    commit_from_wire,
    commit_to_wire,
    deletion_from_wire,
    fetch_from_wire,
    fetched_to_wire,
)
from strandline_broker.rpc.turns import ANSWERED_MAX, EVERY, Turns
from strandline_proto.errors import InvalidRequest, WireError
from strandline_proto.v1 import committed_offsets_pb2

if TYPE_CHECKING:
    import asyncio

    from strandline_broker.core.groups.commands import Reply
    from strandline_broker.hosts.coordination.registry import Shards

PER_GROUP: Final = 50
"""Offsets that take as long as it takes to ask for those of one group."""
_TOO_MANY: Final = InvalidRequest(
    f"the groups before this one have {ANSWERED_MAX} offsets or more: ask for fewer groups at a"
    " time"
)


class OffsetCommitsRpc:
    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def OffsetCommit(
        self, request: committed_offsets_pb2.OffsetCommitRequest, context: Any
    ) -> committed_offsets_pb2.OffsetCommitResponse:
        reply: Reply
        try:
            command = commit_from_wire(request)
            reply = await self._shards.of_group(command.group_id).submit(command)
        except WireError as error:
            reply = error
        return commit_to_wire(request, reply)

    async def OffsetFetch(
        self, request: committed_offsets_pb2.OffsetFetchRequest, context: Any
    ) -> committed_offsets_pb2.OffsetFetchResponse:
        """Every group is asked before the first is waited for: they may wait for the same."""
        turns, room = Turns(), ANSWERED_MAX
        asked: list[asyncio.Future[Reply] | WireError] = []
        for group in request.groups:
            answer = self._ask(group, request.require_stable) if room > 0 else _TOO_MANY
            asked.append(answer)
            offsets = 0 if isinstance(answer, WireError) else _offsets_in(answer)
            room -= offsets
            await turns.took(PER_GROUP + offsets)
        response = committed_offsets_pb2.OffsetFetchResponse()
        for group, answer in zip(request.groups, asked, strict=True):
            result = response.groups.add(group_id=group.group_id)
            reply = answer if isinstance(answer, WireError) else await answer
            if isinstance(reply, WireError):
                result.error_code, result.error_message = reply.code, str(reply)
                await turns.took()
                continue
            assert isinstance(reply, OffsetsFetched), reply
            for first in range(0, len(reply.offsets), EVERY):
                fetched_to_wire(reply.offsets[first : first + EVERY], result)
                await turns.took(EVERY)
            await turns.took()
        return response

    def _ask(
        self, asked: committed_offsets_pb2.OffsetFetchGroup, require_stable: bool
    ) -> asyncio.Future[Reply] | WireError:
        try:
            command = fetch_from_wire(asked, require_stable=require_stable)
            return self._shards.of_group(command.group_id).submit(command)
        except WireError as error:
            return error

    async def OffsetDelete(
        self, request: committed_offsets_pb2.OffsetDeleteRequest, context: Any
    ) -> committed_offsets_pb2.OffsetDeleteResponse:
        response = committed_offsets_pb2.OffsetDeleteResponse()
        try:
            check_group_id(request.group_id)
            command = DeleteOffsets(request.group_id, deletion_from_wire(request.topics))
            reply = await self._shards.of_group(request.group_id).submit(command)
            if isinstance(reply, WireError):
                raise reply
        except WireError as error:
            response.error_code, response.error_message = error.code, str(error)
            return response
        assert isinstance(reply, OffsetsDeleted), reply
        deleted = iter(reply.offsets)
        for topic in request.topics:
            results = response.topics.add(topic_id=topic.topic_id, name=topic.name)
            for partition in topic.partitions:
                each, result = next(deleted), results.partitions.add(partition=partition)
                results.topic_id, results.name = each.topic_id or topic.topic_id, each.topic
                if each.error is not None:
                    result.error_code, result.error_message = each.error.code, str(each.error)
        return response


def _offsets_in(answer: asyncio.Future[Reply]) -> int:
    """How many there are in an answer that is there already."""
    reply = answer.result() if answer.done() else None
    return len(reply.offsets) if isinstance(reply, OffsetsFetched) else 0

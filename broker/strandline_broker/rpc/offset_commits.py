"""OffsetCommit, OffsetFetch and OffsetDelete, for whoever has no stream of a member."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import DeleteOffsets, OffsetsDeleted, OffsetsFetched
from strandline_broker.rpc.group_codec import (
    check_group_id,
    commit_from_wire,
    commit_to_wire,
    deletion_from_wire,
    fetch_from_wire,
    fetched_to_wire,
)
from strandline_proto.errors import WireError
from strandline_proto.v1 import committed_offsets_pb2

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import Reply
    from strandline_broker.hosts.coordination.registry import Shards


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
        response = committed_offsets_pb2.OffsetFetchResponse()
        async with asyncio.TaskGroup() as group:
            for asked in request.groups:
                result = response.groups.add(group_id=asked.group_id)
                group.create_task(self._fetch(asked, result, request.require_stable))
        return response

    async def _fetch(
        self,
        asked: committed_offsets_pb2.OffsetFetchGroup,
        result: committed_offsets_pb2.OffsetFetchGroupResult,
        require_stable: bool,
    ) -> None:
        try:
            command = fetch_from_wire(asked, require_stable=require_stable)
            reply = await self._shards.of_group(command.group_id).submit(command)
            if isinstance(reply, WireError):
                raise reply
        except WireError as error:
            result.error_code, result.error_message = error.code, str(error)
            return
        assert isinstance(reply, OffsetsFetched), reply
        fetched_to_wire(reply.offsets, result)

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

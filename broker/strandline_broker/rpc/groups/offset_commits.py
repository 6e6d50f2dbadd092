"""OffsetCommit, OffsetFetch and OffsetDelete for clients without a member's stream, and
TxnOffsetCommit for producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.commands import DeleteOffsets, OffsetsDeleted
from strandline_broker.hosts.groups.txn_commits import ADDS_ITSELF
from strandline_broker.hosts.serving.turns import EVERY, Turns, in_turns
from strandline_broker.rpc.groups.codec import (
    commit_from_wire,
    commit_to_wire,
    deletion_from_wire,
    fetch_from_wire,
    fetched_to_wire,
    txn_commit_from_wire,
    txn_commit_to_wire,
)
from strandline_proto.errors import WireError
from strandline_proto.v1 import committed_offsets_pb2, transactions_pb2

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import FetchOffsets, Reply
    from strandline_broker.hosts.serving.groups import GroupsService


class OffsetCommitsRpc:
    def __init__(self, groups: GroupsService) -> None:
        self._groups = groups

    async def OffsetCommit(
        self, request: committed_offsets_pb2.OffsetCommitRequest, context: Any
    ) -> committed_offsets_pb2.OffsetCommitResponse:
        reply: Reply
        try:
            command = commit_from_wire(request)
            reply = await self._groups.ask(command, command.group_id)
        except WireError as error:
            reply = error
        return commit_to_wire(request, reply)

    async def TxnOffsetCommit(
        self, request: transactions_pb2.TxnOffsetCommitRequest, context: Any
    ) -> transactions_pb2.TxnOffsetCommitResponse:
        reply: Reply
        try:
            reply = await self._groups.txn_commits.commit(
                txn_commit_from_wire(request),
                request.transactional_id,
                transaction_version=ADDS_ITSELF,
            )
        except WireError as error:
            reply = error
        return txn_commit_to_wire(request, reply)

    async def OffsetFetch(
        self, request: committed_offsets_pb2.OffsetFetchRequest, context: Any
    ) -> committed_offsets_pb2.OffsetFetchResponse:
        stable = request.require_stable
        commands = [_command(group, stable) async for group in in_turns(request.groups)]
        response, turns = committed_offsets_pb2.OffsetFetchResponse(), Turns()
        groups = iter(request.groups)
        async for reply in self._groups.fetch_offsets(commands):
            result = response.groups.add(group_id=next(groups).group_id)
            if isinstance(reply, WireError):
                result.error_code, result.error_message = reply.code, str(reply)
                await turns.took()
                continue
            for first in range(0, len(reply.offsets), EVERY):
                fetched_to_wire(reply.offsets[first : first + EVERY], result)
                await turns.took(EVERY)
            await turns.took()
        return response

    async def OffsetDelete(
        self, request: committed_offsets_pb2.OffsetDeleteRequest, context: Any
    ) -> committed_offsets_pb2.OffsetDeleteResponse:
        response = committed_offsets_pb2.OffsetDeleteResponse()
        try:
            command = DeleteOffsets(request.group_id, deletion_from_wire(request.topics))
            reply = await self._groups.ask(command, request.group_id)
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


def _command(
    asked: committed_offsets_pb2.OffsetFetchGroup, require_stable: bool
) -> FetchOffsets | WireError:
    try:
        return fetch_from_wire(asked, require_stable=require_stable)
    except WireError as error:
        return error

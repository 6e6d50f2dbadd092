"""GroupSession: a member's heartbeats, its commits, and the pushes to it, on one stream.

- A message is the same command as a unary heartbeat (I-176).
- The handler reads one message at a time. It reads a second commit only after it has answered the
  first. So a stream holds little memory however it is used.
- A pending push is a mark, and is rendered when it is sent.
- A reader that takes no message for a whole session timeout loses the stream. The member loses
  nothing (I-179).
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.groups.commands import BeatAnswer, OffsetsCommitted
from strandline_broker.hosts.groups.sessions import MemberStream, StreamBeat
from strandline_broker.rpc.groups.codec import (
    beat_from_wire,
    beat_to_wire,
    commit_from_wire,
    commit_to_wire,
)
from strandline_proto.errors import CoordinatorLoadInProgress, InvalidRequest, WireError
from strandline_proto.v1 import groups_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline_broker.core.groups.commands import FetchedOffset, Reply
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_broker.hosts.groups.sessions import Said

FIRST_MESSAGE_S: Final = 10.0
LOADING_S: Final = 1.0
"""The longest time that a stream is held while its shard loads."""


class GroupSessionRpc:
    def __init__(self, shards: Shards[GroupShard]) -> None:
        self._shards = shards

    async def GroupSession(
        self, requests: AsyncIterator[groups_pb2.GroupSessionRequest], context: Any
    ) -> None:
        # As in PushRpc: otherwise a stream that ends in its first answer has no status.
        await context.send_initial_metadata(())
        try:
            async with asyncio.timeout(FIRST_MESSAGE_S):
                first = await anext(aiter(requests), None)
        except TimeoutError:
            return
        if first is None:
            return
        try:
            host = await self._host(first)
            session = _Session(host, first, context)
            host.sessions.open(session.stream)
        except WireError as error:
            await context.write(_refusal(first, error))
            return
        try:
            await session.run(first, requests)
        finally:
            host.sessions.close(session.stream)

    async def _host(self, first: groups_pb2.GroupSessionRequest) -> GroupShard:
        """Held for a moment while the shard is loaded."""
        if not first.HasField("heartbeat"):
            raise InvalidRequest("the first message of a stream is a heartbeat with all its fields")
        deadline_s = asyncio.get_running_loop().time() + LOADING_S
        while True:
            try:
                host = self._shards.of(first.heartbeat.group_id)
                await host.shard.settled(deadline_s - asyncio.get_running_loop().time())
                refusal = host.shard.refusal()
                if refusal is not None:
                    raise refusal
            except CoordinatorLoadInProgress:
                if asyncio.get_running_loop().time() >= deadline_s:
                    raise
                await asyncio.sleep(LOADING_S / 20)
            else:
                return host


class _Session:
    def __init__(
        self, host: GroupShard, first: groups_pb2.GroupSessionRequest, context: Any
    ) -> None:
        heartbeat = first.heartbeat
        if heartbeat.member_id == "":
            raise InvalidRequest("the member id is empty; a member makes its own")
        self._host = host
        self._context = context
        self.stream = MemberStream(
            host,
            generation=first.stream_generation,
            group_id=heartbeat.group_id,
            member_id=heartbeat.member_id,
            wake=self._on_news,
        )
        self._unsent: deque[groups_pb2.GroupSessionResponse] = deque()
        self._is_last = False
        """Nothing follows what is in `_unsent`."""
        self._commit: asyncio.Future[Reply] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._writing = False
        self._reading: asyncio.Timeout | None = None

    async def run(
        self,
        first: groups_pb2.GroupSessionRequest,
        requests: AsyncIterator[groups_pb2.GroupSessionRequest],
    ) -> None:
        """Serves the stream until the client ends it, or until the last answer is sent."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                async with asyncio.timeout(None) as self._reading:
                    await self._on_request(first)
                    async for request in requests:
                        await self._on_request(request)
            except TimeoutError:
                pass  # `_stop_reading`
            finally:
                # A result that a commit or a heartbeat brings later has no receiver any more.
                self._reading = self._group = None

    # Messages from the member

    async def _on_request(self, request: groups_pb2.GroupSessionRequest) -> None:
        if self._is_mute:
            return
        try:
            if request.HasField("heartbeat"):
                self._beat(request)
            if request.HasField("commit"):
                await self._on_commit(request)
        except WireError as error:
            self._finish(_refusal(request, error, self.stream.number()))

    @property
    def _is_mute(self) -> bool:
        """True if the stream has ended: messages that were not yet processed then have no effect
        (I-177).
        """
        return self.stream.is_over or self.stream.last_words is not None

    def _beat(self, request: groups_pb2.GroupSessionRequest) -> None:
        stream, host = self.stream, self._host
        command = stream.as_seen(
            beat_from_wire(request.heartbeat, self._context), request.seen_push
        )
        self._check_same(command.group_id, command.member_id)
        on_last = partial(self._on_last_answer, request)
        host.ask(command, StreamBeat(host, stream, request.seq, on_last))

    def _on_last_answer(self, request: groups_pb2.GroupSessionRequest, reply: Reply) -> None:
        """Ends the stream after its last answer: the member has left, or is refused."""
        assert isinstance(reply, BeatAnswer | WireError), reply
        heartbeat = beat_to_wire(reply, member_id=self.stream.member_id)
        self._finish(
            groups_pb2.GroupSessionResponse(
                push=self.stream.number(), answers_seq=request.seq, heartbeat=heartbeat
            )
        )

    async def _on_commit(self, request: groups_pb2.GroupSessionRequest) -> None:
        """Handles a commit. The commit follows a push of this stream, and so of this leadership. A
        later coordinator, which the member does not know yet, does not take a commit that was
        delayed (I-106).
        """
        if request.seen_push == 0:
            raise InvalidRequest("a commit on a stream comes after its first push: seen_push is 0")
        command = commit_from_wire(request.commit)
        self._check_same(command.group_id, command.member_id)
        self._host.heard(command.group_id, command.member_id)
        if self._commit is not None:
            await asyncio.wait([self._commit])
        if self._is_mute:
            return
        self._commit = self._host.submit(command)
        self._commit.add_done_callback(lambda done: self._on_committed(request, done))

    def _on_committed(
        self, request: groups_pb2.GroupSessionRequest, done: asyncio.Future[Reply]
    ) -> None:
        if done.cancelled() or self.stream.is_over:
            return
        reply = done.result()
        assert isinstance(reply, OffsetsCommitted | WireError), reply
        answer = commit_to_wire(request.commit, reply)
        self._unsent.append(groups_pb2.GroupSessionResponse(answers_seq=request.seq, commit=answer))
        self._on_news()

    def _check_same(self, group_id: str, member_id: str) -> None:
        if (group_id, member_id) != (self.stream.group_id, self.stream.member_id):
            raise InvalidRequest(
                f"the stream is of member {self.stream.member_id!r} in group"
                f" {self.stream.group_id!r}, the message of {member_id!r} in {group_id!r}"
            )

    # Answers and pushes to the member

    def _finish(self, response: groups_pb2.GroupSessionResponse) -> None:
        """Say this, and end the stream."""
        self.stream.is_over = True
        self._is_last = True
        self._unsent.append(response)
        self._on_news()

    def _on_news(self) -> None:
        if not self._writing and self._group is not None:
            self._writing = True
            self._group.create_task(self._write())

    async def _write(self) -> None:
        """Everything that may be said now; then the stream costs no task until there is news."""
        try:
            while (response := self._next()) is not None:
                async with asyncio.timeout(self._host.context.session_s):
                    await self._context.write(response)
            if self._ends:
                self._stop_reading()
        except TimeoutError:
            self._stop_reading()  # a stalled reader: cut the stream, keep the member
        except BaseException:
            self._group = None  # the call has ended, and `run` is about to be cancelled
            raise
        finally:
            self._writing = False

    def _next(self) -> groups_pb2.GroupSessionResponse | None:
        if self._unsent:
            return self._unsent.popleft()
        if self.stream.last_words is not None and not self._is_last:
            self._is_last = True
            heartbeat = beat_to_wire(self.stream.last_words, member_id=self.stream.member_id)
            return groups_pb2.GroupSessionResponse(push=self.stream.number(), heartbeat=heartbeat)
        if self.stream.is_over:
            return None
        said = self.stream.next()
        return None if said is None else _push(said, self.stream.member_id)

    @property
    def _ends(self) -> bool:
        return self.stream.is_over or self._is_last

    def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None  # rescheduled only once
        if reading is not None:
            reading.reschedule(asyncio.get_running_loop().time())


def _push(said: Said, member_id: str) -> groups_pb2.GroupSessionResponse:
    response = groups_pb2.GroupSessionResponse(
        push=said.push,
        answers_seq=said.answers_seq,
        heartbeat=beat_to_wire(said.reply, member_id=member_id),
    )
    for offset in said.offsets:
        _add_offset(response, offset)
    return response


def _add_offset(response: groups_pb2.GroupSessionResponse, offset: FetchedOffset) -> None:
    topics = response.committed_offsets
    if not topics or topics[-1].topic_id != offset.topic_id:
        topics.add(topic_id=offset.topic_id or b"")
    topics[-1].partitions.add(
        partition=offset.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
        unstable=offset.error is not None,
    )


def _refusal(
    request: groups_pb2.GroupSessionRequest, error: WireError, push: int = 1
) -> groups_pb2.GroupSessionResponse:
    return groups_pb2.GroupSessionResponse(
        push=push,
        answers_seq=request.seq,
        heartbeat=beat_to_wire(error, member_id=request.heartbeat.member_id),
    )

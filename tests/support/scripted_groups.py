"""The group calls of a scripted broker: one coordinator for all groups, told by tests to move, to
refuse and to be silent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc

from strandline_proto import errors as wire
from strandline_proto.v1 import committed_offsets_pb2, groups_pb2
from support.scripted_group import Key, ScriptedGroup, View

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Groups:
    """What the scripted brokers know of groups; `coordinator` is the broker that may answer."""

    def __init__(self, topics: dict[str, tuple[bytes, list[Any]]]) -> None:
        self.coordinator = 1
        self.groups: dict[str, ScriptedGroup] = {}
        self.sessions: dict[str, Session] = {}
        self.heartbeats: list[groups_pb2.GroupSessionRequest] = []
        self.interval_ms = 500
        self.refuse_beats: deque[int] = deque()
        self.refuse_commits: deque[int] = deque()
        self.early_commits = 0
        """That followed no push of their stream, and were refused."""
        self.refuse_fetches: deque[int] = deque()
        self.find_code = 0
        self.is_mute = False
        """Streams are read, and nothing is answered."""
        self._topics = topics

    def group(self, group_id: str) -> ScriptedGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ScriptedGroup({})
        group.topics = {name: (known[0], len(known[1])) for name, known in self._topics.items()}
        return group

    def tell(self, group_id: str) -> None:
        """Something has changed: push it to whoever it concerns."""
        group = self.group(group_id)
        group.reconcile_all()
        for session in self.sessions.values():
            if session.group_id == group_id:
                session.push(group, full=False)

    def expire(self, group_id: str, member_id: str) -> None:
        self.group(group_id).remove(member_id)
        self.tell(group_id)


class Session:
    """The coordinator's end of one stream."""

    def __init__(self, groups: Groups) -> None:
        self.out: asyncio.Queue[Any] = asyncio.Queue()
        self.group_id = self.member_id = ""
        self.pushed = 0
        self._groups = groups
        self._last: View | None = None

    def push(self, group: ScriptedGroup, *, full: bool, seq: int = 0) -> None:
        member = group.members.get(self.member_id)
        if member is None or self._groups.is_mute:
            return
        if member.view == self._last and not full and not seq:
            return
        self.pushed += 1
        response = groups_pb2.GroupSessionResponse(push=self.pushed, answers_seq=seq)
        self._fill(response.heartbeat, member.epoch)
        if full or self._last is None or member.view.assigned != self._last.assigned:
            response.heartbeat.assignment.SetInParent()
            for topic_id, partition in sorted(member.assigned):
                at = response.heartbeat.assignment.topic_partitions
                at.add(topic_id=topic_id, partitions=[partition])
        self._last = member.view
        self.out.put_nowait(response)

    def _fill(self, heartbeat: Any, epoch: int) -> None:
        heartbeat.member_id, heartbeat.member_epoch = self.member_id, epoch
        heartbeat.heartbeat_interval_ms = self._groups.interval_ms

    def end(self, seq: int, code: int = 0, epoch: int = -1) -> None:
        if not self._groups.is_mute:
            response = groups_pb2.GroupSessionResponse(push=self.pushed + 1, answers_seq=seq)
            self._fill(response.heartbeat, epoch)
            response.heartbeat.error_code = code
            response.heartbeat.error_message = "as scripted" if code else ""
            self.out.put_nowait(response)
        self.out.put_nowait(None)


class ScriptedGroups:
    cluster: Any
    awake: asyncio.Event
    id: int
    knows_groups = True

    async def FindCoordinator(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        if not self.knows_groups:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not scripted")
        groups: Groups = self.cluster.groups
        answer = groups_pb2.FindCoordinatorResponse()
        for key in request.coordinator_keys:
            broker = self.cluster.brokers[groups.coordinator]
            answer.coordinators.add(
                key=key,
                error_code=groups.find_code,
                node_id=broker.id,
                host="127.0.0.1",
                port=broker.port,
            )
        return answer

    async def GroupSession(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        drop = asyncio.Event()
        self._streams.add(drop)  # type: ignore[attr-defined]
        session = Session(self.cluster.groups)
        reader = asyncio.get_running_loop().create_task(self._listen(session, context, drop))
        try:
            while (response := await session.out.get()) is not None:
                yield response
        finally:
            reader.cancel()
            await asyncio.wait([reader])
            if self.cluster.groups.sessions.get(session.member_id) is session:
                del self.cluster.groups.sessions[session.member_id]
            self._streams.discard(drop)  # type: ignore[attr-defined]

    async def _listen(self, session: Session, context: Any, drop: asyncio.Event) -> None:
        try:
            while True:
                request = await self._next(context, drop)  # type: ignore[attr-defined]
                if request is None:
                    break
                await self.awake.wait()
                self._take(session, request)
        finally:
            session.out.put_nowait(None)

    def _take(self, session: Session, request: Any) -> None:
        groups: Groups = self.cluster.groups
        if groups.coordinator != self.id:
            session.end(request.seq, wire.NotCoordinator.code)
            return
        if request.HasField("heartbeat"):
            groups.heartbeats.append(request)
            session.group_id = request.heartbeat.group_id
            session.member_id = request.heartbeat.member_id
            groups.sessions[session.member_id] = session
            if groups.refuse_beats:
                session.end(request.seq, groups.refuse_beats.popleft())
                return
            self._beat(session, request)
            groups.tell(session.group_id)
        if request.HasField("commit") and request.seen_push == 0:
            groups.early_commits += 1
            session.end(request.seq, wire.InvalidRequest.code)
            return
        if request.HasField("commit") and not groups.is_mute:
            answer = self._commit(request.commit)
            session.out.put_nowait(
                groups_pb2.GroupSessionResponse(answers_seq=request.seq, commit=answer)
            )

    def _beat(self, session: Session, request: Any) -> None:
        beat, group = request.heartbeat, self.cluster.groups.group(session.group_id)
        instance = beat.instance_id if beat.HasField("instance_id") else None
        names: frozenset[str] | None = None
        if beat.HasField("subscribed_topic_names"):
            names = frozenset(beat.subscribed_topic_names.names)
        if beat.subscribed_topic_regex:
            names = frozenset(group.topics)
        owned: set[Key] | None = None
        if beat.HasField("topic_partitions"):
            listed = beat.topic_partitions.topic_partitions
            owned = {(t.topic_id, p) for t in listed for p in t.partitions}
        member = group.members.get(session.member_id)
        epoch, code = beat.member_epoch, 0
        if epoch < 0:
            if epoch == -2 and member is not None:
                member.is_away = True
            else:
                code = group.remove(session.member_id)
            session.end(request.seq, code, epoch)
            return
        if epoch == 0:
            code = group.join(session.member_id, names or frozenset(), instance)
        else:
            if names is not None:
                group.subscribe(session.member_id, names)
            if request.seen_push < session.pushed and member is not None:
                epoch, owned = member.epoch, None
            code = group.beat(session.member_id, epoch, owned)
        if code:
            session.end(request.seq, code)
        else:
            session.push(group, full=beat.rebalance_timeout_ms != -1, seq=request.seq)

    def _commit(self, request: Any) -> Any:
        groups: Groups = self.cluster.groups
        answer = committed_offsets_pb2.OffsetCommitResponse()
        if groups.coordinator != self.id:
            answer.error_code = wire.NotCoordinator.code
            return answer
        if groups.refuse_commits:
            answer.error_code = groups.refuse_commits.popleft()
            answer.error_message = "as scripted"
            return answer
        offsets = {
            (topic.topic_id, p.partition): (
                p.committed_offset,
                p.committed_leader_epoch,
                p.committed_metadata,
            )
            for topic in request.topics
            for p in topic.partitions
        }
        code = groups.group(request.group_id).commit(
            request.member_id, request.generation_id_or_member_epoch, offsets
        )
        answer.error_code = code
        if not code:
            for topic in request.topics:
                results = answer.topics.add(topic_id=topic.topic_id)
                for p in topic.partitions:
                    large = wire.OffsetMetadataTooLarge.code
                    code = large if len(p.committed_metadata) > 4096 else 0
                    results.partitions.add(partition=p.partition, error_code=code)
        return answer

    async def OffsetCommit(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        return self._commit(request)

    async def OffsetFetch(self, request: Any, context: Any) -> Any:
        await self.awake.wait()
        groups: Groups = self.cluster.groups
        answer = committed_offsets_pb2.OffsetFetchResponse()
        for asked in request.groups:
            result = answer.groups.add(group_id=asked.group_id)
            if groups.coordinator != self.id:
                result.error_code = wire.NotCoordinator.code
                continue
            if groups.refuse_fetches:
                result.error_code = groups.refuse_fetches.popleft()
                continue
            known = groups.group(asked.group_id).offsets
            for topic in asked.topics.topics:
                found = result.topics.add(topic_id=topic.topic_id)
                for p in topic.partitions:
                    offset, epoch, text = known.get((topic.topic_id, p), (-1, -1, ""))
                    found.partitions.add(
                        partition=p,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=text,
                    )
        return answer

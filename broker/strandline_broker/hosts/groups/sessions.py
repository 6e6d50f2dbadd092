"""The streams of a shard's members, one for each.

A stream has a slot: a mark that there is news for its member, without any content. The news is
rendered when it is sent, from the written state, and only while all of it is committed (I-131).
What a member says counts as an acknowledgement only if it had seen the last news that this stream
gave it (I-134). The end of a stream means nothing: the session is for messages (I-179). An older
stream that is held on its way and arrives behind that end means nothing either (I-177): what its
member owned then it may have given up or been granted since.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.commands import BeatAnswer, ToRender
from strandline_broker.core.groups.consumer.stream_view import as_seen
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_proto.errors import InvalidRequest, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.core.groups.assignors import PartitionSets
    from strandline_broker.core.groups.commands import ConsumerBeat, FetchedOffset, Reply
    from strandline_broker.hosts.groups.group_shard import GroupShard
    from strandline_proto.ids import TopicId

ENDED_MAX: Final = 10_000
"""Members without a stream of whom the last one is remembered, as many as a large group has."""


class MemberStream:
    """One stream, from its first message to its end. A ticket of the shard's machine."""

    __slots__ = (
        "_answers_seq",
        "_full",
        "_granted",
        "_host",
        "_is_parked",
        "_last_assignment",
        "_last_epoch",
        "_marked",
        "_news_push",
        "_push",
        "_wake",
        "generation",
        "group_id",
        "is_over",
        "last_words",
        "member_id",
    )

    def __init__(
        self,
        host: GroupShard,
        *,
        generation: int,
        group_id: str,
        member_id: str,
        wake: Callable[[], None],
    ) -> None:
        """`wake`: there may be something to say, or the stream is over."""
        self._host = host
        self._wake = wake
        self.generation = generation
        self.group_id = group_id
        self.member_id = member_id
        self.is_over = False
        """A newer one has taken its place, or its member was told that it is none."""
        self.last_words: WireError | None = None
        """The shard is gone: this is said, and the stream ends."""
        self._marked = False
        self._full = False
        self._is_parked = False
        self._answers_seq = 0
        self._push = 0
        self._news_push = 0
        self._last_epoch: int | None = None
        self._last_assignment: PartitionSets | None = None
        self._granted: set[tuple[TopicId, int]] = set()

    # Its member

    @property
    def is_of_member(self) -> bool:
        """True if the group has this member; one that is joining does not count yet."""
        return self._host.has_member(self.group_id, self.member_id)

    def as_seen(self, beat: ConsumerBeat, seen_push: int) -> ConsumerBeat:
        """The heartbeat as the group is to take it; pushes that said nothing new do not count."""
        if not 0 <= seen_push <= self._push:
            raise InvalidRequest(
                f"seen_push is {seen_push}, and the last push of this stream is {self._push}"
            )
        news = self._news_push
        return as_seen(beat, seen_push=min(seen_push, news), last_push=news)

    def mark(self, *, answers_seq: int = 0, full: bool = False) -> None:
        """The member is to be told how it stands."""
        self._marked = True
        self._full = self._full or full
        self._answers_seq = max(self._answers_seq, answers_seq)
        self._wake()

    def next(self) -> Said | None:
        """Returns the push to send now, and empties the slot. None: there is none, or not yet."""
        if not self._marked or self._is_parked or self.last_words is not None:
            return None
        if not self._host.may_tell(self, self.group_id, self.member_id):
            self._is_parked = True
            return None
        reply = self._host.render(ToRender(self.group_id, self.member_id, full=self._full))
        said = Said(self._next_push(reply), self._answers_seq, reply, self._new_offsets(reply))
        self._marked, self._full, self._answers_seq = False, False, 0
        if isinstance(reply, WireError):
            self.is_over = True
        return said

    def _next_push(self, reply: Reply) -> int:
        self._push += 1
        if isinstance(reply, BeatAnswer):
            assignment = self._last_assignment if reply.assignment is None else reply.assignment
            # What is only said again is no news: the acknowledgement that is on its way counts.
            if (reply.member_epoch, assignment) != (self._last_epoch, self._last_assignment):
                self._news_push = self._push
            self._last_epoch, self._last_assignment = reply.member_epoch, assignment
        return self._push

    def _new_offsets(self, reply: Reply) -> tuple[FetchedOffset, ...]:
        """The committed offsets of partitions that come with this push, unless a commit of the
        group is still on its way: then the member asks.
        """
        if not isinstance(reply, BeatAnswer) or reply.assignment is None:
            return ()
        granted = {
            topic_id: tuple(p for p in partitions if (topic_id, p) not in self._granted)
            for topic_id, partitions in reply.assignment.items()
        }
        self._granted = {(t, p) for t, partitions in reply.assignment.items() for p in partitions}
        return self._host.committed_offsets(self.group_id, granted)

    def number(self) -> int:
        """Number of a push that is not rendered: the answer to a leaver, or a refusal."""
        self._push += 1
        return self._push

    # The shard

    def committed(self) -> None:
        self._is_parked = False
        self._wake()

    def lost(self, error: WireError) -> None:
        self._is_parked = False
        self.end(error)

    def end(self, error: WireError) -> None:
        self.last_words = error
        self._wake()

    def supersede(self) -> None:
        """Nothing of it is applied or sent any more (I-177)."""
        self.is_over = True
        self._wake()


class Said:
    """One push, to be sent at once."""

    __slots__ = ("answers_seq", "offsets", "push", "reply")

    def __init__(
        self,
        push: int,
        answers_seq: int,
        reply: BeatAnswer | WireError,
        offsets: tuple[FetchedOffset, ...],
    ) -> None:
        self.push = push
        self.answers_seq = answers_seq
        self.reply = reply
        self.offsets = offsets


class StreamBeat(Asked["Reply"]):
    """One heartbeat on a stream. The stream's slot takes its answer, and waits for it. Only a last
    answer of which something is not committed yet has a timer.
    """

    __slots__ = ("_on_last", "_seq", "_stream")

    def __init__(
        self,
        host: GroupShard,
        stream: MemberStream,
        seq: int,
        on_last: Callable[[Reply], None],
    ) -> None:
        """`on_last` takes an answer that ends the stream: the member leaves, or is refused."""
        super().__init__(host.shard, host.context.timeout_s)
        self._stream = stream
        self._seq = seq
        self._on_last = on_last

    def decided(self, answer: Reply) -> bool:
        """Marks the stream; only a last answer waits here."""
        if isinstance(answer, ToRender):
            self._stream.mark(answers_seq=self._seq, full=answer.full)
            return False
        return super().decided(answer)

    def _finish(self, reply: Reply) -> None:
        if not self.is_over:
            asyncio.get_running_loop().call_soon(self._on_last, reply)
        super()._finish(reply)


class Sessions:
    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], MemberStream] = {}
        self._ended: dict[tuple[str, str], int] = {}
        """Of members without a stream, the generation of their last one."""

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, stream: MemberStream) -> None:
        """Raises InvalidRequest for one that is older than the member's present or last one."""
        key = (stream.group_id, stream.member_id)
        present = self._streams.get(key)
        last = self._ended.get(key) if present is None else present.generation
        is_known = present is not None or stream.is_of_member
        if last is not None and is_known and stream.generation <= last:
            raise InvalidRequest(
                f"stream generation {stream.generation} of member {stream.member_id} is not"
                f" above {last}, which has been opened: raise it with each stream"
            )
        if present is not None:
            present.supersede()
        self._ended.pop(key, None)
        self._streams[key] = stream

    def close(self, stream: MemberStream) -> None:
        """Closes a stream whose transport has ended, which changes nothing else (I-179)."""
        key = (stream.group_id, stream.member_id)
        if self._streams.get(key) is stream:
            del self._streams[key]
            if stream.is_of_member:
                self._ended[key] = stream.generation
                if len(self._ended) > ENDED_MAX:
                    del self._ended[next(iter(self._ended))]

    def close_member(self, group_id: str, member_id: str) -> None:
        """The member speaks without a stream now."""
        stream = self._streams.get((group_id, member_id))
        if stream is not None:
            self.close(stream)
            stream.supersede()

    def tell(self, group_id: str, members: Iterable[str]) -> tuple[str, ...]:
        """Marks the slots of these members, and returns those that have one."""
        found = [m for m in members if (group_id, m) in self._streams]
        for member_id in found:
            self._streams[group_id, member_id].mark()
        return tuple(found)

    def end_all(self, error: WireError) -> None:
        """Ends all streams with the error: the shard no longer serves."""
        for stream in list(self._streams.values()):
            self.close(stream)
            stream.end(error)

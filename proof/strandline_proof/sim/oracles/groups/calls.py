"""Messages of calls about groups, passed on as plain values.

A request is recorded when it is read, with the end of the broker's log at that moment. An answer is
judged when its step is over and the broker's log has been read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.oracles.groups.admission import VERDICTS
from strandline_proof.sim.oracles.groups.conversation import Conversation
from strandline_proof.sim.oracles.groups.removals import Word
from strandline_proof.sim.oracles.groups.said import (
    beat_of,
    commit_of,
    committed_in,
    granted_in,
    told_in,
    view_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_proof.sim.oracles.groups.admission import Who
    from strandline_proof.sim.oracles.groups.coordinators import Coordinators, Seat
    from strandline_proof.sim.oracles.groups.fold import Place
    from strandline_proof.sim.oracles.groups.said import CommitWish

METHODS: Final = frozenset(
    {"GroupSession", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch", "RemoveMembers"}
)


class Overheard:
    """One call. A unary call has one request, which counts as its first message."""

    def __init__(self, coordinators: Coordinators, node: str, method: str) -> None:
        self._all = coordinators
        self._node = node
        self._method = method
        self._conversation: Conversation | None = None
        self._group = ""
        self._asked_deposed = False
        """True if a deposed coordinator was asked for offsets."""

    def on_read(self, message: Any) -> None:
        getattr(self, f"_read_{self._method}")(message)

    def on_said(self, message: Any) -> None:
        talk = self._conversation
        if talk is not None and self._method == "GroupSession" and message.HasField("heartbeat"):
            view = view_of(message.heartbeat)
            talk.receives(view, push=message.push)
            if view.error in VERDICTS:
                self._all.on_fenced(talk.member_id)
        if self._method == "OffsetFetch":
            self._note_deposed(message)
        self._all.later(self._node, lambda: getattr(self, f"_said_{self._method}")(message))

    def _seat(self, group_id: str) -> Seat | None:
        return self._all.seat(self._node, group_id)

    def _with(self, group_id: str, member_id: str) -> Conversation:
        """Returns the conversation. Group and member stay the same in one call; a change is
        refused.
        """
        if self._conversation is None:
            self._group = group_id
            where = f"{self._node} {self._method}"
            epochs = self._all.epochs(self._node, group_id, member_id)
            self._conversation = Conversation(where, epochs)
        return self._conversation

    def _talk(self, judge: Callable[[Conversation, Seat], None]) -> None:
        seat = self._seat(self._group)
        if self._conversation is not None and seat is not None and seat.is_known:
            judge(self._conversation, seat)

    # Streams

    def _read_GroupSession(self, message: Any) -> None:
        if message.HasField("heartbeat"):
            beat = beat_of(message.heartbeat)
            who = beat.who
            talk = self._with(who.group_id, who.member_id)
            talk.beats(
                message.seq,
                beat,
                self._all.log_end(self._node, who.group_id),
                seen_push=message.seen_push,
            )
            self._heard_beat(talk, message.seq, who, message.stream_generation)
        if message.HasField("commit"):
            wish = self._commit(message.seq, message.commit)
            if not message.HasField("heartbeat"):
                name = self._group, wish.who.member_id
                self._all.heard(self._node, Word(name, None, message.stream_generation))

    def _heard_beat(self, talk: Conversation, number: int, who: Who, generation: int) -> None:
        seat, name = self._seat(self._group), (self._group, who.member_id)
        is_refused = seat is not None and seat.is_known and talk.refuses(number, seat.standing)
        self._all.heard(self._node, Word(name, who.epoch, generation, is_refused=is_refused))

    def _commit(self, number: int, message: Any) -> CommitWish:
        wish = commit_of(message, self._all.topic_ids())
        talk = self._with(wish.who.group_id, wish.who.member_id)
        talk.commits(number, wish, self._all.high_watermark(self._node, wish.who.group_id))
        self._all.on_commit(self._node, wish)
        return wish

    def _said_GroupSession(self, message: Any) -> None:
        def judge(talk: Conversation, seat: Seat) -> None:
            if message.HasField("commit"):
                places = committed_in(message.commit, self._all.topic_ids())
                self._acknowledges(talk, seat, message.answers_seq, places)
            if message.HasField("heartbeat"):
                view = view_of(message.heartbeat, granted_in(message))
                talk.tells(message.answers_seq, view, seat.standing, at_once=True)

        self._talk(judge)

    def _acknowledges(
        self, talk: Conversation, seat: Seat, number: int, places: Iterable[Place]
    ) -> None:
        is_whole = self._all.is_judged(self._group)
        talk.acknowledges(number, places, seat.standing, is_whole=is_whole)

    # Unary calls

    def _read_ConsumerGroupHeartbeat(self, message: Any) -> None:
        beat = beat_of(message)
        talk = self._with(beat.who.group_id, beat.who.member_id)
        talk.beats(1, beat, self._all.log_end(self._node, beat.who.group_id))
        self._heard_beat(talk, 1, beat.who, 0)

    def _said_ConsumerGroupHeartbeat(self, message: Any) -> None:
        self._talk(lambda talk, seat: talk.tells(1, view_of(message), seat.standing, at_once=False))

    def _read_OffsetCommit(self, message: Any) -> None:
        self._commit(1, message)

    def _said_OffsetCommit(self, message: Any) -> None:
        places = committed_in(message, self._all.topic_ids())
        self._talk(lambda talk, seat: self._acknowledges(talk, seat, 1, places))

    def _read_OffsetFetch(self, message: Any) -> None:
        for asked in message.groups:
            talk = self._with(asked.group_id, asked.member_id)
            talk.reads(asked.group_id, self._all.floor(self._node, asked.group_id))
            self._asked_deposed |= self._all.is_deposed(self._node, asked.group_id)

    def _note_deposed(self, message: Any) -> None:
        for told in message.groups:
            if self._asked_deposed or self._all.is_deposed(self._node, told.group_id):
                self._all.on_told_by_deposed(told.group_id, told_in(told))

    def _said_OffsetFetch(self, message: Any) -> None:
        for told in message.groups:
            seat = self._seat(told.group_id)
            if self._conversation is not None and seat is not None and seat.is_known:
                self._conversation.tells_offsets(told.group_id, told_in(told), seat.standing)

    def _read_RemoveMembers(self, message: Any) -> None:
        self._all.on_removal_asked(self._node, message.group_id)

    def _said_RemoveMembers(self, message: Any) -> None:
        """Judges nothing: the answer may only name what `on_removal_asked` permits."""

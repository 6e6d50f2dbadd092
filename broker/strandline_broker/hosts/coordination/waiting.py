"""Who waits for what a shard has said to be committed: a caller, or a member's stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from strandline_broker.core.groups.commands import ToRender
from strandline_proto.errors import RequestTimedOut, WireError

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import BeatAnswer, Reply
    from strandline_broker.hosts.coordination.shard_host import ShardHost


class Waiting(Protocol):
    """A ticket of `core.coordination.shard.Shard`."""

    def committed(self) -> None:
        """All that was waited for is committed, in the leadership in which it was appended."""

    def lost(self, error: WireError) -> None:
        """The leadership is over, or the shard is loaded again: nobody knows."""


class Asked:
    """One call. Whoever awaits `answer` may be cancelled: what was decided stands (P-147)."""

    __slots__ = ("_host", "_renders", "_timer", "answer", "reply")

    def __init__(self, host: ShardHost, timeout_s: float, *, renders: bool) -> None:
        """`renders`: what is to be told of the member goes into the answer. What is rendered counts
        as told, so nobody may ask for it who does not send it.
        """
        loop = asyncio.get_running_loop()
        self._host = host
        self._renders = renders
        self.reply: Reply = None
        self.answer: asyncio.Future[Reply] = loop.create_future()
        self._timer = loop.call_later(timeout_s, self._time_out, timeout_s)

    def committed(self) -> None:
        reply: Reply | BeatAnswer = self.reply
        if isinstance(reply, ToRender) and self._renders and not self.answer.done():
            if not self._host.may_tell(self, reply.group_id, reply.member_id):
                return  # the member was written again meanwhile (I-131)
            reply = self._host.render(reply)
        self._finish(reply)

    def lost(self, error: WireError) -> None:
        self._finish(error)

    def give_up(self) -> None:
        """Nobody waits for the answer: who asked is told in another way."""
        self._timer.cancel()
        if not self.answer.done():
            self.answer.cancel()
            self._host.on_given_up()

    def _time_out(self, timeout_s: float) -> None:
        if not self.answer.done():
            self._finish(
                RequestTimedOut(
                    f"{self._host.name}: not committed within {timeout_s:g} s; it may still be"
                )
            )
            self._host.on_given_up()

    def _finish(self, reply: Reply) -> None:
        self._timer.cancel()
        if not self.answer.done():
            self.answer.set_result(reply)

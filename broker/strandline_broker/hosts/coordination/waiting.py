"""Tickets: receivers of an answer, at once or when everything in it is committed."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from strandline_proto.errors import RequestTimedOut, WireError

Answer = TypeVar("Answer")


class Waiting(Protocol):
    """A ticket of `core.coordination.shard.Shard`."""

    def committed(self) -> None:
        """All that was waited for is committed, in the leadership in which it was appended."""

    def lost(self, error: WireError) -> None:
        """The leadership is over, or the shard is loaded again: the result is unknown."""


class Ticket(Waiting, Protocol):
    """The receiver of one command's answer."""

    def decided(self, answer: Any) -> bool:
        """Takes the answer; True if the ticket waits until it may be given."""

    def parked(self) -> None:
        """The answer cannot be given at once: something in it is not committed yet."""


class Waits(Protocol):
    """The part of a shard's host that a call needs."""

    name: str

    def on_given_up(self) -> None:
        """Takes note of a ticket that waits no more."""


class CommitWaits(NamedTuple):
    """The callers of one shard that wait for a commit."""

    first: list[int]
    """The offsets that the high watermark must reach, in ascending order; the first ones."""
    total: int


class Asked(Generic[Answer]):
    """One call. An answer at once costs neither a future nor a timer. A caller may be cancelled
    while it awaits the answer: the decision stands (P-147).
    """

    __slots__ = ("_future", "_host", "_timeout_s", "_timer", "is_answered", "reply")

    def __init__(self, host: Waits, timeout_s: float) -> None:
        self._host = host
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._future: asyncio.Future[Answer | WireError | None] | None = None
        self.reply: Answer | WireError | None = None
        """The answer as decided, and once `is_answered` the answer itself."""
        self.is_answered = False

    def decided(self, answer: Answer) -> bool:
        """Keeps the answer until all of it is committed."""
        self.reply = answer
        return True

    def parked(self) -> None:
        """Starts the limit of the wait."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._timeout_s, self._time_out)

    def committed(self) -> None:
        """Gives the answer."""
        self._finish(self.reply)

    def lost(self, error: WireError) -> None:
        """Gives the error as the answer."""
        self._finish(error)

    @property
    def is_over(self) -> bool:
        """True if there is an answer, or its receiver was cancelled."""
        return self.is_answered or (self._future is not None and self._future.done())

    @property
    def answer(self) -> asyncio.Future[Answer | WireError | None]:
        """The answer as a future, which is made at the first use."""
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
            if self.is_answered:
                self._future.set_result(self.reply)
        return self._future

    async def answered(self) -> Answer | WireError | None:
        """Returns the answer, at once if there is one."""
        return self.reply if self.is_answered else await self.answer

    def _time_out(self) -> None:
        if not self.is_over:
            self._finish(
                RequestTimedOut(
                    f"{self._host.name}: not committed within {self._timeout_s:g} s; it may"
                    " still be"
                )
            )
            self._host.on_given_up()

    def _finish(self, reply: Answer | WireError | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_over:
            self.reply = reply
            self.is_answered = True
            if self._future is not None:
                self._future.set_result(reply)

"""The calls of classic members that wait for other members: JoinGroup and SyncGroup.

A call has no deadline but those of its group. It ends in one of three ways: the group answers it,
its caller is cancelled because the connection has ended, or the shard ends (I-122).
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strandline_broker.core.groups.classic.commands import PARKED, CallDropped
from strandline_broker.core.groups.records.classic_records import GroupMetadataKey
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_proto.errors import WireError

if TYPE_CHECKING:
    from strandline_broker.core.groups.classic.commands import JoinGroup, SyncGroup
    from strandline_broker.core.groups.commands import Reply
    from strandline_broker.core.groups.effects import Answer
    from strandline_broker.hosts.coordination.shard_host import ShardHost


class ParkedCalls:
    def __init__(self, shard: ShardHost[Any], timeout_s: float) -> None:
        """`timeout_s`: the longest wait for a commit, once there is an answer."""
        self._shard = shard
        self._timeout_s = timeout_s
        self._parked: dict[int, _Call] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the calls that wait."""
        return tuple(self._parked)

    async def ask(self, command: JoinGroup | SyncGroup) -> Reply:
        """Returns the answer, which may be an error. If the caller is cancelled, the group no
        longer keeps the call.
        """
        self._last += 1
        call = _Call(self, self._last)
        self._shard.ask(replace(command, call=call.number), call)
        try:
            return await call.answered()
        except asyncio.CancelledError:
            if self._parked.pop(call.number, None) is not None:
                with contextlib.suppress(WireError):  # the leadership, and the call, are ending
                    self._shard.run(CallDropped(command.group_id, call.number))
            raise

    def park(self, call: _Call) -> None:
        self._parked[call.number] = call

    def answer(self, effect: Answer) -> None:
        """Answers the call when the group's last record is committed."""
        call = self._parked.pop(effect.call, None)
        if call is not None:
            about = GroupMetadataKey(effect.group_id)
            self._shard.answer(call, effect.reply, about)

    def lose_all(self, error: WireError) -> None:
        """Ends all calls with the error: the shard no longer serves."""
        parked, self._parked = self._parked, {}
        for call in parked.values():
            call.lost(error)


class _Call(Asked["Reply"]):
    """A call that is parked if its answer says so."""

    __slots__ = ("_calls", "number")

    def __init__(self, calls: ParkedCalls, number: int) -> None:
        super().__init__(calls._shard, calls._timeout_s)
        self._calls = calls
        self.number = number

    def decided(self, answer: Reply) -> bool:
        """Keeps the answer until all of it is committed, or parks the call."""
        if answer is PARKED:
            self._calls.park(self)
            return False
        return super().decided(answer)

"""The calls that wait until a transaction has ended: a producer takes the id over, or adds
partitions to its next transaction.

A producer that begins the next transaction at once finds the markers of the last one under way for
some milliseconds. Kafka answers 51, and clients ask again after 20 ms or more.

A call ends in one of these ways: the transaction ends and the call is decided then, its time ends,
its caller is cancelled, or the shard ends (I-172).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.core.transactions.commands import PARKED, AddPartitions, InitProducer
from strandline_broker.hosts.coordination.waiting import Asked
from strandline_proto.errors import ConcurrentTransactions

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import Command, Reply
    from strandline_broker.hosts.transactions.transaction_shard import TransactionShard
    from strandline_proto.errors import WireError

WAIT_S: Final = 10.0
"""Longest wait of InitProducerId; the call is answered 51 then, and may be repeated."""
ADD_WAIT_S: Final = 0.1
"""The same for partitions. Later requests of the producer's connection wait behind the call."""
PARKED_MAX: Final = 16
"""Limit of calls that wait for one transaction."""


class ParkedCalls:
    def __init__(self, shard: TransactionShard) -> None:
        self._shard = shard
        self._parked: dict[str, list[Call]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))

    def has_room(self, transactional_id: str) -> bool:
        """True if one more call may wait."""
        waiting = [call for call in self._parked.get(transactional_id, ()) if not call.is_over]
        if transactional_id in self._parked:
            self._parked[transactional_id] = waiting
        return len(waiting) < PARKED_MAX

    def park(self, transactional_id: str, call: Call) -> None:
        self._parked.setdefault(transactional_id, []).append(call)

    def ended(self, transactional_id: str) -> None:
        """Decides the calls that wait for this transaction, in their order."""
        for call in self._parked.pop(transactional_id, ()):
            if not call.is_over:
                call.asked_again()
                self._shard.shard.ask(call.command, call)

    def lose_all(self, error: WireError) -> None:
        """Ends all calls with the error: the shard no longer serves."""
        parked, self._parked = self._parked, {}
        for calls in parked.values():
            for call in calls:
                call.asked_again()
                call.lost(error)


class Call(Asked["Reply"]):
    """One command's call; it is parked if its answer says so."""

    __slots__ = ("_limit", "_shard", "command")

    def __init__(self, shard: TransactionShard, command: Command) -> None:
        super().__init__(shard.shard, shard.context.timeout_s)
        self.command = command
        self._shard = shard
        self._limit: asyncio.TimerHandle | None = None

    def decided(self, answer: Reply) -> bool:
        """Keeps the answer until all of it is committed, or parks the call."""
        if answer is not PARKED:
            return super().decided(answer)
        transactional_id = self._parkable.transactional_id
        if not self._shard.parked.has_room(transactional_id):
            return super().decided(self._still_ending("too many calls wait for it"))
        self._shard.parked.park(transactional_id, self)
        self._limit = asyncio.get_running_loop().call_later(self._wait_s, self._waited_long)
        return False

    @property
    def _parkable(self) -> InitProducer | AddPartitions:
        assert isinstance(self.command, InitProducer | AddPartitions), self.command
        return self.command

    @property
    def _wait_s(self) -> float:
        return ADD_WAIT_S if isinstance(self.command, AddPartitions) else WAIT_S

    def asked_again(self) -> None:
        """Ends the limit of the wait for the transaction."""
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _waited_long(self) -> None:
        if not self.is_over:
            self.lost(self._still_ending(f"the call has waited {self._wait_s:g} s"))

    def _still_ending(self, why: str) -> ConcurrentTransactions:
        return ConcurrentTransactions(
            f"the transaction of {self._parkable.transactional_id!r} still ends, as not all of its"
            f" markers are written, and {why}; try again"
        )

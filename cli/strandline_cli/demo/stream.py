"""The demo's producer: it streams the input, and somewhere in the middle a leader is killed.

Records are sent one by one through `send`, with a bounded window of unacknowledged ones.
Acknowledgements are taken in the order of sending, so the ledger has each partition's records in
log order.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from strandline_cli.demo.flights_input import InputRecord
from strandline_cli.demo.ledger import Ledger

if TYPE_CHECKING:
    from strandline import Producer, RecordMetadata

PORTION_RECORDS: Final = 500
PORTIONS_AHEAD_MAX: Final = 8
"""Portions after which a pause of the cluster stops the input: most of it is sent later."""

Pending = tuple["asyncio.Future[RecordMetadata]", InputRecord, int | None]
"""The future acknowledgement, the record, and its partition if it was sent to a chosen one."""


@dataclass(frozen=True, slots=True)
class Victim:
    """The broker to kill, with the partitions that it leads and their leader epochs."""

    broker: int
    leads: dict[int, int]


@dataclass(slots=True)
class Stream:
    """The records sent and acknowledged, and the events at the kill."""

    topic: str
    partitions: int
    kill_at: int
    """Bytes of the input after which the leader is killed."""
    find_victim: Callable[[], Victim]
    kill: Callable[[int], None]
    progress: Callable[[int], None]
    ledger: Ledger = field(default_factory=Ledger)
    victim: Victim | None = None
    in_flight_at_kill: int = 0
    killed_at_s: float | None = None
    first_ack_after_s: float | None = None
    """Seconds from the kill to the first acknowledgement by a new leader of the victim's
    partitions.
    """
    seconds: float = 0.0
    _pending: deque[list[Pending]] = field(default_factory=deque)

    async def run(self, producer: "Producer", records: Iterable[InputRecord]) -> None:
        """Send everything and wait for every answer."""
        started = time.monotonic()
        source = iter(records)
        sent = 0
        while portion := list(islice(source, PORTION_RECORDS)):
            # Records without a key go round, so that no partition is spared while it is failing.
            turn = None if portion[0].key is not None else sent % self.partitions
            self._pending.append([await self._send(producer, record, turn) for record in portion])
            sent += 1
            consumed = portion[-1].consumed
            if self.killed_at_s is None and consumed >= self.kill_at:
                await self._kill_while_in_flight()
            while len(self._pending) > PORTIONS_AHEAD_MAX:
                await self._settle_oldest()
            self.progress(consumed)
        while self._pending:
            await self._settle_oldest()
        self.seconds = time.monotonic() - started

    async def _send(
        self, producer: "Producer", record: InputRecord, partition: int | None
    ) -> Pending:
        future = await producer.send(self.topic, record.value, record.key, partition=partition)
        return future, record, partition

    async def _kill_while_in_flight(self) -> None:
        """SIGKILL while the victim has batches to acknowledge; else the next portion tries."""
        if self.victim is None:
            self.victim = self.find_victim()
        await asyncio.sleep(0)
        in_flight = sum(
            not future.done() and self._partition(record, partition) in self.victim.leads
            for portion in self._pending
            for future, record, partition in portion
        )
        if in_flight > 0:
            self.kill(self.victim.broker)
            self.killed_at_s = time.monotonic()
            self.in_flight_at_kill = in_flight

    def _partition(self, record: InputRecord, partition: int | None) -> int:
        """The partition of a record; both sides compute the default of a keyed one."""
        from strandline_proto.partitioner import partition_for

        if partition is not None:
            return partition
        assert record.key is not None
        return partition_for(record.key, self.partitions)

    async def _settle_oldest(self) -> None:
        from strandline.errors import StrandlineError

        for future, record, _ in self._pending.popleft():
            try:
                told = await future
            except StrandlineError as why:
                self.ledger.fail(may_have_been_written=why.may_have_been_written)
                continue
            self.ledger.acknowledge(told.partition, told.offset, record.value)
            if self.killed_at_s is not None and self.first_ack_after_s is None:
                self._look_for_new_leader(told)

    def _look_for_new_leader(self, told: "RecordMetadata") -> None:
        assert self.victim is not None
        assert self.killed_at_s is not None
        led_in = self.victim.leads.get(told.partition)
        if led_in is not None and told.leader_epoch > led_in:
            self.first_ack_after_s = time.monotonic() - self.killed_at_s

"""One run of `strandline consume --group`: a member that commits the records that it has
printed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strandline_cli.interrupts import signals_cancel_task
from strandline_cli.standard_streams import write_out

if TYPE_CHECKING:
    from strandline import Consumer, ConsumerRecord, TopicPartition
    from strandline.types import IsolationLevel

_POLL_MS: Final = 500
_COMMIT_S: Final = 1.0
_RECORDS_MAX: Final = 5000


@dataclass(slots=True, kw_only=True)
class GroupPrinter:
    """Prints the records of the partitions that the group gives it."""

    bootstrap: str
    group: str
    topics: Sequence[str]
    pattern: str | None = None
    """A regular expression of topics, in place of `topics`."""
    to_bytes: "Callable[[ConsumerRecord], bytes]"
    from_beginning: bool
    exit_at_end: bool
    count: int | None
    timeout_s: float
    """Time to wait for partitions, with `exit_at_end`. Without it, a member may stay idle."""
    max_decompressed_bytes: int
    isolation_level: "IsolationLevel" = "read_uncommitted"
    descriptor: int = 1
    _is_ahead: bool = field(default=False, init=False)
    """Something printed is not committed."""
    _ends: "dict[TopicPartition, int]" = field(default_factory=dict, init=False)
    """The end of each partition at the time of its assignment."""

    async def run(self) -> None:
        """Print until done. Ctrl-C and SIGTERM end it in the same way: it commits, and leaves the
        group.
        """
        from strandline import Consumer

        consumer = Consumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest" if self.from_beginning else "latest",
            max_decompressed_bytes=self.max_decompressed_bytes,
            isolation_level=self.isolation_level,
        )
        with signals_cancel_task():
            async with consumer:
                listener = _Listener(self, consumer)
                if self.pattern is None:
                    consumer.subscribe(topics=self.topics, listener=listener)
                else:
                    consumer.subscribe(pattern=self.pattern, listener=listener)
                try:
                    await self._print(consumer)
                finally:
                    await self.commit(consumer)

    async def _print(self, consumer: "Consumer") -> None:
        left, committed_at = self.count, time.monotonic()
        if self.exit_at_end:
            await consumer.wait_assigned(self.timeout_s * 1000)
        while left != 0 and not await self._is_done(consumer):
            most = _RECORDS_MAX if left is None else min(left, _RECORDS_MAX)
            found = await consumer.getmany(timeout_ms=_POLL_MS, max_records=most)
            for records in found.values():
                self._write(records)
                left = None if left is None else left - len(records)
            if time.monotonic() - committed_at > _COMMIT_S:
                await self.commit(consumer)
                committed_at = time.monotonic()

    async def commit(self, consumer: "Consumer") -> None:
        if self._is_ahead:
            self._is_ahead = False
            await consumer.commit()

    async def _is_done(self, consumer: "Consumer") -> bool:
        """True if all of this member's partitions are printed up to their end at assignment."""
        if not self.exit_at_end:
            return False
        assigned = consumer.assignment()
        if new := [partition for partition in assigned if partition not in self._ends]:
            self._ends |= await consumer.end_offsets(new)
        for partition in assigned:
            if await consumer.position(partition) < self._ends[partition]:
                return False
        return True

    def _write(self, records: "Sequence[ConsumerRecord]") -> None:
        write_out(self.descriptor, b"".join(map(self.to_bytes, records)))
        self._is_ahead = True


class _Listener:
    """Commits what was printed of partitions before they go to others."""

    def __init__(self, printer: GroupPrinter, consumer: "Consumer") -> None:
        self._printer = printer
        self._consumer = consumer

    async def on_partitions_revoked(self, _: "frozenset[TopicPartition]") -> None:
        await self._printer.commit(self._consumer)

    async def on_partitions_assigned(self, assigned: "frozenset[TopicPartition]") -> None:
        """Nothing is printed of them yet."""

    async def on_partitions_lost(self, _: "frozenset[TopicPartition]") -> None:
        """Drops the partitions: other members print their records again, so nothing of them can be
        committed any more.
        """

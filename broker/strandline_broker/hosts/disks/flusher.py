"""Flushes of the logs of one disk thread: group commit, background flushes.

One flush runs at a time. It serves every log that requested one during the flush before (group
commit). A failed fsync is never retried: after it the kernel may report lost pages as clean (P-24).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from strandline_broker.hosts.disks.blocking_work import to_the_end

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from strandline_broker.storage.log.log import FlushTicket, Log
    from strandline_proto.errors import KafkaStorageError


class Flusher:
    """Owned by the replica manager, whose task group runs `run`."""

    def __init__(self, disk: Executor) -> None:
        self._disk = disk
        self._wanted: dict[Log, None] = {}
        self._wake = asyncio.Event()
        self._waiting: list[tuple[Log, int, asyncio.Future[None]]] = []
        self._over: KafkaStorageError | None = None

    def request(self, log: Log) -> None:
        """Flush this log soon; `Log.durable_offset` shows when that is done."""
        self._wanted[log] = None
        self._wake.set()

    async def flushed(self, log: Log) -> None:
        """Return once everything now in the log is durable (or has been truncated away).

        KafkaStorageError once the directory is out of service.
        """
        if self._over is not None:
            raise self._over
        target = log.log_end_offset
        if log.durable_offset >= target:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((log, target, done))
        self.request(log)
        await done

    def give_up(self, error: KafkaStorageError) -> None:
        """Stop all flushes; every waiter gets the error."""
        self._over = error
        self._wake.set()
        for _, _, done in self._waiting:
            if not done.done():
                done.set_exception(error)
        self._waiting = []

    async def run(self, on_flushed: OnFlushed) -> None:
        """Flush until cancelled, or given up. Raises OSError if a flush fails, or with the OSError
        as the cause of a `CancelledError`; then nothing more may be flushed.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._over is None:
                await self._flush_wanted(on_flushed)
            if self._over is not None:
                return
            self._release()

    async def _flush_wanted(self, on_flushed: OnFlushed) -> None:
        """A call of its own, so that nothing holds on to logs and files while there is nothing to
        flush: one that is deleted takes its room on the disk until it is closed.
        """
        logs, self._wanted = list(self._wanted), {}
        tickets = [(log, log.flush_snapshot()) for log in logs if not log.deleted]
        if tickets:
            await to_the_end(self._disk, partial(_run_all, [t for _, t in tickets]))
        if self._over is not None:
            return
        for log, ticket in tickets:
            if not log.deleted:
                log.flushed(ticket)
                on_flushed(log)

    def _release(self) -> None:
        still: list[tuple[Log, int, asyncio.Future[None]]] = []
        for log, target, done in self._waiting:
            if done.done():
                continue
            if log.deleted or log.durable_offset >= min(target, log.log_end_offset):
                done.set_result(None)
            else:
                still.append((log, target, done))
                self.request(log)
        self._waiting = still


def _run_all(tickets: list[FlushTicket]) -> None:
    for ticket in tickets:
        ticket.run()


if TYPE_CHECKING:
    from typing import Protocol

    class OnFlushed(Protocol):
        def __call__(self, log: Log) -> None: ...

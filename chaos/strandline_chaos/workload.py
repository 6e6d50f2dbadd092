"""Writers and readers that record all their operations, so that a checker can find anomalies.

It runs over any clients with our library's interface, in real processes and in virtual time alike:
pacing and waiting are the event loop's. Each writer and each reader is a sequence of clients. A
client whose send has an unknown outcome is dropped, so that order is only ever claimed within one
client. An error that is not the library's own is a defect, and ends the run.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from strandline.errors import StrandlineError, describe
from strandline_chaos.checkers import FINAL_READ
from strandline_chaos.payload import CorruptPayload, decode, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from strandline_chaos.history import History, Positioned

REOPEN_S: Final = 0.2
POLL_S: Final = 0.5
ENDS_EVERY: Final = 8
"""Polls between two requests of a reader for the end offsets."""


class Acknowledged(Protocol):
    """The result in a send's future."""

    @property
    def offset(self) -> int: ...


class Sender(Protocol):
    """A producer's methods that the workload uses."""

    async def send(self, topic: str, value: bytes, *, partition: int) -> asyncio.Future[Any]: ...


class Reader(Protocol):
    """A consumer of all keys of the topic, from their beginning."""

    async def poll(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        """(offset, payload) of new records by key; empty if none came in time."""
        ...

    async def beginning_offsets(self) -> dict[int, int]:
        """The first offset of each key."""
        ...

    async def end_offsets(self) -> dict[int, int]:
        """The current end of the readable records of each key."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    topic: str
    keys: int | Callable[[], int]
    """Number of partitions to write to; as a function, the current number."""
    writers: int = 2
    readers: int = 1
    sends_per_s: float = 200
    """Sends a second of each writer."""
    in_flight_max: int = 64
    """Limit of one writer's sends that wait for their acknowledgement."""
    payload_size: int = 100
    burst: Callable[[], int] | None = None
    """Records of one key that a writer sends at once; None: one."""
    pause_s: Callable[[], float] | None = None
    """Time that a writer rests after each burst."""
    keeps_senders: bool = False
    """True if a sender is used for as long as the workload runs, whatever the outcome of its sends:
    order is claimed over unknown outcomes.
    """


class FinalReadIncomplete(Exception):
    """The last reading did not reach the end in time; no verdict can be given."""


class Workload:
    """Runs `plan` and writes to `history`. `on_progress` is called with the number of acknowledged
    records.
    """

    def __init__(
        self,
        plan: Plan,
        history: History,
        *,
        open_sender: Callable[[], AbstractAsyncContextManager[Sender]],
        open_reader: Callable[[], AbstractAsyncContextManager[Reader]],
        values: Sequence[Iterator[int]] | None = None,
    ) -> None:
        """`values` gives the next value of each key; a workload that goes on where a killed one
        ended gets the same again, as no value is ever sent twice.
        """
        self._plan = plan
        self._history = history
        self._open_sender = open_sender
        self._open_reader = open_reader
        self._values = values or [itertools.count() for _ in range(self.keys)]
        self._stop = asyncio.Event()
        self.acknowledged = 0
        self.unacknowledged = 0
        self.writing: dict[int, int] = {}
        """The process that each writer is now, by the writer's number."""

    async def run(self, until: Awaitable[object]) -> None:
        """Write and read until `until` is done, then let every client finish."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._plan.writers):
                group.create_task(self._write(number), name=f"writer {number}")
            for number in range(self._plan.readers):
                group.create_task(self._read(), name=f"reader {number}")
            try:
                await until
            finally:
                self._stop.set()

    async def read_back(self, deadline_s: float) -> dict[int, int]:
        """The last reading: a new client, from the beginning to the end as it is now. Returns that
        end of each key with records.
        """
        process = self._history.new_process()
        self._history.note(FINAL_READ, [process])
        try:
            async with asyncio.timeout(deadline_s), self._open_reader() as reader:
                begins, ends = await reader.beginning_offsets(), await reader.end_offsets()
                readable = {k: end for k, end in ends.items() if end > begins.get(k, 0)}
                missing = dict(readable)
                while missing:
                    for key, next_offset in (await self._poll(process, reader)).items():
                        if next_offset >= missing.get(key, next_offset + 1):
                            del missing[key]
        except TimeoutError as why:
            raise FinalReadIncomplete(
                f"the last reading did not reach the end within {deadline_s:.0f} s"
            ) from why
        return readable

    async def _write(self, number: int) -> None:
        while not self._stop.is_set():
            process = self._history.new_process()
            try:
                async with self._open_sender() as sender:
                    self.writing[number] = process
                    await _Writer(self, process, sender, first_key=number).run()
            except StrandlineError as why:
                self._history.note("client-failed", describe(why))
                await self._pause(REOPEN_S)

    async def _read(self) -> None:
        while not self._stop.is_set():
            process = self._history.new_process()
            try:
                async with self._open_reader() as reader:
                    for number in itertools.count():
                        if self._stop.is_set():
                            break
                        await self._poll(process, reader)
                        if number % ENDS_EVERY == 0:
                            await self._ask_ends(process, reader)
            except StrandlineError as why:
                self._history.note("client-failed", describe(why))
                await self._pause(REOPEN_S)

    async def _ask_ends(self, process: int, reader: Reader) -> None:
        op = self._history.invoke_ends(process)
        self._history.ended(process, op, await reader.end_offsets())

    async def _poll(self, process: int, reader: Reader) -> dict[int, int]:
        """One poll, written down; the offset after the last record read, by key."""
        op = self._history.invoke_poll(process)
        try:
            found = await reader.poll(POLL_S)
        except StrandlineError as why:
            self._history.poll_failed(process, op, describe(why))
            raise
        read: dict[int, list[Positioned]] = {}
        for key, records in found.items():
            for offset, payload in records:
                try:
                    said_key, value = decode(payload)
                except CorruptPayload as why:
                    self._history.note("corrupt", f"key {key} offset {offset}: {why}")
                    continue
                if said_key != key:
                    self._history.note("corrupt", f"key {key} offset {offset}: of key {said_key}")
                    continue
                read.setdefault(key, []).append((offset, value))
        self._history.polled(process, op, read)
        return {key: records[-1][0] + 1 for key, records in found.items() if records}

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    def next_value(self, key: int) -> int:
        return next(self._values[key])

    @property
    def keys(self) -> int:
        return self._plan.keys if isinstance(self._plan.keys, int) else self._plan.keys()

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def history(self) -> History:
        return self._history

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()


class _Writer:
    """One producer's life: it ends when the workload does, or with the first unknown outcome."""

    def __init__(self, work: Workload, process: int, sender: Sender, *, first_key: int) -> None:
        self._work = work
        self._process = process
        self._sender = sender
        self._keys = itertools.count(first_key)
        self._room = asyncio.Semaphore(work.plan.in_flight_max)
        self._usable = True

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        plan = self._work.plan
        due = loop.time()
        while self._goes_on:
            count = 1 if plan.burst is None else plan.burst()
            sent = await self._burst(next(self._keys), count)
            if sent < count:
                break
            interval_s = count / plan.sends_per_s
            due = max(due + interval_s, loop.time() - 1.0)  # catch up at most a second
            if plan.pause_s is not None:
                due += plan.pause_s()
            await asyncio.sleep(max(0.0, due - loop.time()))
        for _ in range(self._work.plan.in_flight_max):  # every outcome is written down
            await self._room.acquire()

    @property
    def _goes_on(self) -> bool:
        return self._usable and not self._work.stopping

    async def _burst(self, turn: int, count: int) -> int:
        """Records of the key whose turn it is; how many were sent."""
        for sent in range(count):
            await self._room.acquire()
            if not self._goes_on:
                self._room.release()  # or the count in the end would never be full
                return sent
            await self._send(turn % self._work.keys)
        return count

    async def _send(self, key: int) -> None:
        value = self._work.next_value(key)
        op = self._work.history.invoke_send(self._process, key, value)
        plan = self._work.plan
        payload = encode(key, value, plan.payload_size)
        try:
            future = await self._sender.send(plan.topic, payload, partition=key)
        except StrandlineError as why:
            self._not_sent(op, key, value, why)
            return
        future.add_done_callback(lambda done: self._on_done(op, key, value, done))

    def _on_done(self, op: int, key: int, value: int, done: asyncio.Future[Acknowledged]) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or error is not None:
            self._not_sent(op, key, value, error or asyncio.CancelledError("the client closed"))
            return
        offset = done.result().offset
        self._work.acknowledged += 1
        self._work.history.sent(self._process, op, key, value, None if offset < 0 else offset)
        self._room.release()

    def _not_sent(self, op: int, key: int, value: int, why: BaseException) -> None:
        maybe = may_have_been_written(why)
        self._work.unacknowledged += 1
        self._work.history.not_sent(self._process, op, key, value, maybe=maybe, error=describe(why))
        if maybe and not self._work.plan.keeps_senders:
            self._usable = False
        self._room.release()


def may_have_been_written(error: BaseException) -> bool:
    """True unless the client's error promises that nothing was written."""
    return bool(getattr(error, "may_have_been_written", True))

"""The queue of records from the sending threads to the loop of their producer.

Threads put records into the queue. At most one wake-up of the loop is pending, for any number of
records; it moves them to their batches in the order of the calls. Records in the queue count for
`buffer_memory`. A record that must wait for room or for its topic does not enter the queue: its
thread waits in `send`.

A delivery callback runs on the loop's thread, and may send a record too, such as a dead letter. It
cannot wait there: a record that must wait enters a second queue, `_late`, which a task empties.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from concurrent.futures._base import FINISHED
from typing import TYPE_CHECKING, Any, Final

from strandline._producer.acknowledgement import tell
from strandline.errors import BufferFull, ClientClosed, OperationTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline._blocking.background import BlockingLoop
    from strandline._producer.accumulator import HandOver
    from strandline.types import Headers, OnDelivery, RecordMetadata
    from strandline_runtime.runtime import Runtime

SLICE: Final = 500
"""Most records moved in one step of the loop, which must also read answers."""

Item = tuple["Acknowledgement", str, bytes | None, bytes | None, int | None, int | None, "Headers"]
"""The arguments of `HandOver.one`."""


class Acknowledgement(Future["RecordMetadata"]):
    """The acknowledgement of one record; any thread but the producer's own may wait for it.

    A condition, its lock and two lists for each record would cost more than the rest of `send`, and
    most records have no waiter. `_condition` therefore creates them for the first waiter. The loop
    writes the outcome and then looks for a condition. A waiter creates the condition and then,
    holding it, looks for the outcome: one of the two sees the other.
    """

    watched = False
    on_delivery: OnDelivery | None = None
    observer: OnDelivery | None = None
    _state = "RUNNING"  # of no use to cancel: the record is on its way
    _result: RecordMetadata | None = None
    _exception: BaseException | None = None
    _is_opened = False

    def __init__(self, loop: BlockingLoop) -> None:
        self._from = loop

    def __getattr__(self, name: str) -> Any:
        made: Any
        if name == "_condition":
            made = threading.Condition()
        elif name in ("_waiters", "_done_callbacks"):
            made = []
        else:
            raise AttributeError(name)
        self._is_opened = True
        return self.__dict__.setdefault(name, made)

    def settle(
        self, error: Exception | None, metadata: RecordMetadata | None, runtime: Runtime
    ) -> None:
        """Calls the callback, then wakes the waiters; runs on the loop."""
        if self.observer is not None:
            self.observer(error, metadata)
        if self.on_delivery is not None:
            tell(self.on_delivery, error, metadata, runtime)
        self._result, self._exception = metadata, error
        self._state = FINISHED
        if self._is_opened:
            with self._condition:
                for waiter in self._waiters:
                    waiter.add_result(self) if error is None else waiter.add_exception(self)
                self._condition.notify_all()
            self._invoke_callbacks()

    @property
    def is_told(self) -> bool:
        """True if the program learns of a failure by other means than `flush`."""
        return self.on_delivery is not None or self.watched

    def done(self) -> bool:
        return self._state == FINISHED

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        self.watched = True
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        self._require_done_or_elsewhere()
        self.watched = True
        if self._state == FINISHED and self._result is not None:
            return self._result
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._require_done_or_elsewhere()
        self.watched = True
        return super().exception(timeout)

    def _require_done_or_elsewhere(self) -> None:
        self._from.birthplace.check("producer")  # its lock may be held for ever
        if self._state != FINISHED:
            self._from.require_elsewhere()


class Outbox:
    """The queue between threads and one started producer."""

    def __init__(self, loop: BlockingLoop, hand_over: HandOver) -> None:
        self._loop = loop
        self._hand_over = hand_over
        self._sender = hand_over.sender
        self._queue: deque[Item] = deque()
        self._lock = threading.RLock()
        """Held by a thread that puts a record, and by the loop to end a turn: no wake-up is missed.

        It is reentrant: a signal handler or a finalizer may send while its own thread does.
        """
        self._is_woken = False
        self._is_closed = False
        """True once the producer takes records of callbacks only."""
        self._is_ended = False
        """True once the producer takes no record."""
        self._late: deque[tuple[Item, int]] = deque()
        """Records of callbacks that must wait, with their sizes."""
        self._late_bytes = self._late_taken = 0
        self._late_moved = asyncio.Event()
        self._taken = 0
        """Number of records moved so far."""
        self._bytes_put = self._bytes_taken = 0

    # On the threads of the application.

    def put(self, item: Item) -> bool:
        """Queues a record. Returns False if it must wait for room, its topic or its partition.

        Raises ClientClosed, RecordTooLarge.
        """
        _, topic, value, key, _, _, headers = item
        return self._put(item, self._hand_over.size_of(topic, value, key, headers))

    def _put(self, item: Item, size: int, *, by_callback: bool = False) -> bool:
        sender, topic, partition = self._sender, item[1], item[4]
        view = sender.cluster.view.topics.get(topic)
        if view is None or not view.has(partition):
            return False
        with self._lock:
            if self._is_ended or (self._is_closed and not by_callback):
                raise ClientClosed("the producer was closed")
            # In this order, what is just being taken may count twice, but never not at all.
            held = self._bytes_put - self._bytes_taken
            if held + sender.buffered + size > sender.buffer_memory:
                return False
            if not self._is_woken:  # first: an interrupt after it costs no more than a wake-up
                self._loop.call_soon(self._drain)
                self._is_woken = True
            self._queue.append(item)
            self._bytes_put += size
        return True

    # On the loop.

    def put_by_callback(self, item: Item) -> None:
        """Queues a record of a callback, whose thread must not wait.

        Raises ClientClosed, RecordTooLarge, and BufferFull beyond another `buffer_memory`.
        """
        _, topic, value, key, _, _, headers = item
        size = self._hand_over.size_of(topic, value, key, headers)
        if not self._late and self._put(item, size, by_callback=True):
            return
        if self._is_ended:
            raise ClientClosed("the producer was closed")
        bound = self._sender.buffer_memory
        if self._late_bytes + size > bound and self._late:
            raise BufferFull(
                f"{self._late_bytes} bytes of delivery callbacks wait to be sent already, at most "
                f"{bound} (buffer_memory) may; the record was not sent"
            )
        self._late.append((item, size))
        self._late_bytes += size
        if len(self._late) == 1:
            self._loop.begin(self._hand_over_late())

    async def _hand_over_late(self) -> None:
        """Hands over the records of callbacks that had to wait, in the order of their calls."""
        while self._late:
            item, size = self._late[0]
            try:
                await self.wait(item)
            except asyncio.CancelledError:
                self.refuse(item[0], self._loop.closed())
            except Exception as error:  # noqa: BLE001 - the future has it
                self.refuse(item[0], error)
            finally:
                self._late.popleft()
                self._late_bytes -= size
                self._late_taken += 1
                self._late_moved.set()

    def _drain(self) -> None:
        """Moves queued records to their batches."""
        queue, hand_over, sender = self._queue, self._hand_over, self._sender
        for _ in range(min(SLICE, len(queue))):
            item = queue.popleft()
            before = sender.buffered
            try:
                if hand_over.home is None:
                    hand_over.require()
                if not hand_over.one(*item, waited=True):
                    self.refuse(item[0], sender.why_gone(item[1]))
            except Exception as error:  # noqa: BLE001 - what `send` raises, the future has
                self.refuse(item[0], error)
            self._bytes_taken += sender.buffered - before
            self._taken += 1
        with self._lock:
            self._is_woken = bool(queue)
            if not queue:
                self._bytes_taken = self._bytes_put  # some were refused, or interrupted half way
        if self._is_woken:
            self._loop.call_soon(self._drain)

    def refuse(self, record: Acknowledgement, error: Exception) -> None:
        """Fails a record that was not handed over; `flush` raises it unless it was reported."""
        self._hand_over.on_refused(error)
        record.settle(error, None, self._sender.runtime)
        if not record.is_told:
            self._sender.unheard.add(record, error)

    async def drained(self) -> None:
        """Waits until the records now in the queue have left it."""
        until = self._taken + len(self._queue)
        while self._taken < until:  # noqa: ASYNC110 - each turn of the loop takes some of them
            await asyncio.sleep(0)

    async def handed_over(self) -> None:
        """Waits until the records of earlier `send` calls are in their batches, or refused."""
        await self.drained()
        until = self._late_taken + len(self._late)
        while self._late_taken < until:
            self._late_moved.clear()
            await self._late_moved.wait()

    async def flush(self, timeout_ms: float | None) -> float | None:
        """Waits as `handed_over`, and returns the milliseconds that are left.

        Raises OperationTimedOut.
        """
        clock = self._sender.runtime.clock.monotonic
        end_s = None if timeout_ms is None else clock() + timeout_ms / 1000
        await self.drained()
        if self._late:
            try:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self.handed_over()
            except TimeoutError:
                raise OperationTimedOut(
                    f"{len(self._late)} records of delivery callbacks still wait for room or for "
                    f"their topic after {timeout_ms:.0f} ms"
                ) from None
        return None if end_s is None else max(0.0, (end_s - clock()) * 1000)

    async def wait(self, item: Item) -> None:
        """Hands over a record that must wait, after all earlier ones."""
        await self.drained()
        await self._hand_over.late(*item)

    async def close(self, timeout_ms: float | None) -> float | None:
        """Refuses new records, those of callbacks once every earlier record has its outcome.

        Returns the milliseconds that are left for the records of callbacks.
        """
        with self._lock:
            self._is_closed = True
        left_ms = timeout_ms
        try:
            left_ms = await self.flush(timeout_ms)
            await self._sender.flush(left_ms)
            left_ms = await self.flush(left_ms)
        except OperationTimedOut:
            left_ms = 0.0
        finally:
            with self._lock:
                self._is_ended = True
        await self.drained()
        return left_ms

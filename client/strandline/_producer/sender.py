"""Carries out the decisions of a producer's queues: routes, timers, producer ids, bounds."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from typing import TYPE_CHECKING, Final

from strandline._core.backoff import Backoff
from strandline._core.delivery_terms import Answer
from strandline._core.partition_queue import PartitionQueue
from strandline._core.splitting import remaining
from strandline._core.transactional_queue import TransactionalQueue
from strandline._net.cluster import UNKNOWN_TOPIC_S
from strandline._net.connections import MessageTooLarge
from strandline._producer.acknowledgement import Unheard
from strandline._producer.identities import IdempotentIdentities, TransactionalIdentities
from strandline._producer.stream import ProducerStream
from strandline.errors import (
    DeliveryError,
    LeaderNotAvailable,
    OperationTimedOut,
    RecordTooLarge,
    StrandlineError,
    TopicRecreated,
    UnknownTopicOrPartition,
    describe,
)
from strandline.types import RecordMetadata
from strandline_proto.errors import NONE

if TYPE_CHECKING:
    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline._core.delivery_terms import QueueOptions
    from strandline._core.partition_queue import Settled
    from strandline._core.producer_batch import ProducerBatch
    from strandline._core.transaction_state import TransactionState
    from strandline._net.session import Session
    from strandline._producer.identities import Identities
    from strandline._producer.stream import InFlight
    from strandline.errors import ClientClosed, FlushFailed, TransactionAborted

TICK_MS: Final = 50.0
"""Pause between two checks while something is overdue."""
STALL_MS: Final = 500.0
"""Silence after which metadata is refreshed for a new leader: a paused broker is silent."""

REPORT_AFTER_MS: Final = 1000.0
"""Time for the program to read a failed future before the failure is logged."""
REPORT_EVERY_MS: Final = 30_000.0
PARTITIONS_NAMED: Final = 5
UNDER_WAY: Final = "; they are still under way"


class Sender:
    """All partition queues of one producer, and the streams that send their batches."""

    def __init__(
        self,
        session: Session,
        *,
        options: QueueOptions,
        request_timeout_ms: float,
        buffer_memory: int,
        transaction: TransactionState | None = None,
    ) -> None:
        self.runtime = session.runtime
        self.connections = session.connections
        self.cluster = session.cluster
        self.options = options
        self.request_timeout_ms = request_timeout_ms
        self.buffer_memory = buffer_memory
        self.transaction = transaction
        """The state of the transactions of a transactional producer; else None."""
        self.buffered = 0
        self.queues: dict[PartitionKey, PartitionQueue] = {}
        self.acknowledged = self.failed = self.unknown = 0
        self.unheard = Unheard()
        self._session = session
        self._tasks = session.tasks
        self._streams: dict[int, ProducerStream] = {}
        self._timers: dict[PartitionQueue, asyncio.TimerHandle] = {}
        self._space: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._busy = asyncio.Event()
        self._progress: asyncio.Future[None] | None = None
        self._unreported: dict[str, None] = {}
        """Partitions with unseen failures since the last line in the log."""
        self._report: asyncio.TimerHandle | None = None
        self._reported_ms = float("-inf")
        self._homeless: dict[PartitionKey, float] = {}
        """Queues of deleted topics, with the time until which the topics may be created again."""
        idempotent = IdempotentIdentities(session, self.queues, self.dispatch, request_timeout_ms)
        self.keep_identity = idempotent.keep
        self._identities: Identities = (
            idempotent
            if transaction is None
            else TransactionalIdentities(transaction, self.dispatch)
        )
        self.cluster.watchers.append(self._on_metadata)
        session.on_broken.append(self._on_broken)

    def now_ms(self) -> float:
        return self.runtime.clock.monotonic() * 1000

    def chance(self) -> float:
        return self.runtime.rng.random()

    def queue(self, topic: str, topic_id: bytes, partition: int) -> PartitionQueue:
        queue = self.queues.get((topic_id, partition))
        if queue is None:
            kind = PartitionQueue if self.transaction is None else TransactionalQueue
            queue = kind(topic, topic_id, partition, self.options, Backoff())
            self.queues[topic_id, partition] = queue
        return queue

    # Routing.

    def dispatch(self, queue: PartitionQueue) -> None:
        """Hands a queue that may have a batch to its leader's stream."""
        if not self._busy.is_set():
            self._busy.set()
        leader = self.cluster.view.leader(queue.topic_id, queue.partition)
        if leader is None:
            if not queue.idle:
                queue.obstacle = LeaderNotAvailable(f"{queue} has no leader at the moment")
                self.cluster.request_refresh()
            return
        stream = self._streams.get(leader[0])
        if stream is None:
            stream = ProducerStream(
                self._session,
                self,
                leader[0],
                options=self.options,
                request_timeout_ms=self.request_timeout_ms,
            )
            self._streams[leader[0]] = stream
            self._tasks.start(stream.run(), f"produce to broker {leader[0]}")
        stream.offer(queue)

    def take(self, queue: PartitionQueue, broker_id: int) -> ProducerBatch | None:
        """Returns the queue's batch for `broker_id`; if None, arranges the next try."""
        leader = self.cluster.view.leader(queue.topic_id, queue.partition)
        if leader is None or leader[0] != broker_id:
            self.dispatch(queue)
            return None
        now_ms = self.now_ms()
        batch = queue.take(now_ms)
        if batch is not None:
            queue.sent_epoch = leader[1]
            return batch
        if queue.wants_identity:
            self._identities.want(queue)
        self._wake_later(queue, now_ms)
        return None

    def _wake_later(self, queue: PartitionQueue, now_ms: float) -> None:
        at_ms = queue.wake_at_ms(now_ms)
        timer = self._timers.pop(queue, None)
        if timer is not None:
            timer.cancel()
        if at_ms is not None:
            loop = asyncio.get_running_loop()
            delay_s = max(0.0, at_ms - now_ms) / 1000
            self._timers[queue] = loop.call_later(delay_s, self.dispatch, queue)

    def _on_metadata(self, changes: Changes) -> None:
        for topic_id in changes.gone:
            for key in [key for key in self.queues if key[0] == topic_id]:
                self._on_topic_gone(key)
        for key in list(self._homeless):
            if self.queues[key].topic in self.cluster.view.topics:
                self._move(key)
        for key, queue in self.queues.items():
            if (view := self.cluster.view.partition(*key)) is not None:
                queue.on_leader_moved(view.leader_epoch)  # a refusal may have named it before
            if not queue.idle:
                self.dispatch(queue)

    def _on_topic_gone(self, key: PartitionKey) -> None:
        """Holds the batches of a deleted topic for the time that a topic may be unknown.

        If the topic is created again in that time, the batches go to the new one.
        """
        queue = self.queues[key]
        if (timer := self._timers.pop(queue, None)) is not None:
            timer.cancel()
        if queue.topic in self.cluster.view.topics or queue.idle or queue.is_bound_to_id:
            self._move(key)
        else:
            self._homeless[key] = self.now_ms() + UNKNOWN_TOPIC_S * 1000
            self.cluster.request_refresh()

    def _move(self, key: PartitionKey) -> None:
        """Moves a queue to the topic that has the name now, if it has the partition."""
        self._homeless.pop(key, None)
        queue = self.queues.pop(key)
        view = self.cluster.view.topics.get(queue.topic)
        error = self.why_gone(queue.topic)
        if view is None or queue.idle or not view.has(queue.partition):
            self._settle(queue.on_hopeless(error), queue)
            return
        settled = queue.on_recreated(view.topic_id, error)
        if not queue.idle:
            self.queues[view.topic_id, queue.partition] = queue
        self._after(queue, settled)

    def why_gone(self, name: str) -> Exception:
        if name in self.cluster.view.topics:
            return TopicRecreated(f"topic {name!r} was deleted and created again")
        return UnknownTopicOrPartition(f"topic {name!r} was deleted")

    # Results.

    def on_answer(self, sent: InFlight, answer: Answer) -> None:
        queue, batch, attempt = sent
        chance = 0.0
        if answer.code != NONE:
            chance = self.chance()  # two system calls, which success has no use for
            self.cluster.request_refresh()
        settled = queue.on_answer(batch, attempt, answer, now_ms=self.now_ms(), chance=chance)
        self._after(queue, settled)

    def on_lost(self, sent: list[InFlight], error: Exception) -> None:
        """Handles batches of a message without answer. MessageTooLarge: no broker has seen them."""
        too_large = isinstance(error, MessageTooLarge)
        for each in sent:
            if too_large and (each.batch.count > 1 or len(sent) == 1):
                refused = Answer(RecordTooLarge.code, describe(error), appended=False)
                self.on_answer(each, refused)
            else:  # a batch of too large a message is sent again in one of its own
                self._send_again(each, error, sent=not too_large)

    def _send_again(self, lost: InFlight, error: Exception, *, sent: bool) -> None:
        queue, batch, attempt = lost
        settled = queue.on_lost(
            batch, attempt, error, sent=sent, now_ms=self.now_ms(), chance=self.chance()
        )
        self.cluster.request_refresh()
        self._after(queue, settled)

    async def on_unreachable(
        self, queues: list[PartitionQueue], error: StrandlineError, pause_s: float
    ) -> None:
        """Notes the obstacle, and routes the queues again after the pause."""
        for queue in queues:
            queue.obstacle = error
        self.runtime.log.info("cannot produce to a broker for now", error=describe(error))
        self.cluster.request_refresh()
        await asyncio.sleep(pause_s)
        for queue in queues:
            self.dispatch(queue)

    def _after(self, queue: PartitionQueue, settled: list[Settled]) -> None:
        if settled:
            self._settle(settled, queue)
        if queue.wants_identity:
            self._identities.want(queue)
        if queue.in_flight or queue.has_more:
            self.dispatch(queue)

    def _settle(self, settled: list[Settled], queue: PartitionQueue) -> None:
        for batch, error in settled:
            self.buffered -= batch.reserved
            if error is not None and self.transaction is not None:
                self.transaction.fail(error)
            if error is None:
                self.acknowledged += batch.count
            elif getattr(error, "may_have_been_written", False):
                self.unknown += batch.count
            else:
                self.failed += batch.count
            if batch.waiters:
                self._tell_waiters(queue, batch, error)
            for first, count, collector in batch.collectors:
                collector.on_batch(queue, batch, first, count, error)
        self._hand_out_space()
        if self._progress is not None:
            progress, self._progress = self._progress, None
            progress.set_result(None)

    def _tell_waiters(
        self, queue: PartitionQueue, batch: ProducerBatch, error: Exception | None
    ) -> None:
        if error is not None:
            for _, _, record in batch.waiters:
                record.settle(error, None, self.runtime)
                if not record.is_told and self.transaction is None:  # else the commit raises it
                    self.unheard.add(record, error)
                    self._report_soon(queue)
            return
        topic, partition, epoch = queue.topic, queue.partition, batch.leader_epoch
        base, stamped = batch.base_offset, batch.log_append_time_ms
        for index, timestamp, record in batch.waiters:
            offset = base + index if base >= 0 else -1
            time_ms = timestamp if stamped < 0 else stamped
            record.settle(
                None, RecordMetadata(topic, partition, offset, time_ms, epoch), self.runtime
            )

    def _report_soon(self, queue: PartitionQueue) -> None:
        """Schedules one line in the log for all failures of a while."""
        self._unreported[str(queue)] = None
        if self._report is None:
            now_ms = self.now_ms()
            at_ms = max(now_ms + REPORT_AFTER_MS, self._reported_ms + REPORT_EVERY_MS)
            loop = asyncio.get_running_loop()
            self._report = loop.call_later((at_ms - now_ms) / 1000, self.report)

    def report(self) -> None:
        """Logs failures since the last line whose futures were not read so far."""
        if self._report is not None:
            self._report.cancel()
            self._report = None
        partitions, self._unreported = list(self._unreported), {}
        failed = self.unheard.look()
        if not partitions or failed is None:
            return
        self._reported_ms = self.now_ms()
        more = len(partitions) - PARTITIONS_NAMED
        named = ", ".join(partitions[:PARTITIONS_NAMED]) + (f" and {more} more" if more > 0 else "")
        self.runtime.log.error(
            "records were not acknowledged, and their futures were not looked at so far; flush() "
            "raises FlushFailed for those that no caller looks at",
            partitions=named,
            records=failed.failed + failed.unknown,
            error=describe(failed.errors[0]),
        )

    def take_unheard(self) -> FlushFailed | None:
        """Returns the unseen failures, to be raised now; they are logged too."""
        self.report()
        return self.unheard.take()

    # Bounds.

    async def space(self, size: int, timeout_ms: float) -> bool:
        """Waits until `size` more bytes fit into the buffer; False on a time-out."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._space.append((size, waiter))
        self._hand_out_space()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return False
        finally:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.buffered -= size
            # The room may stay unused: then no answer would wake the next waiter.
            asyncio.get_running_loop().call_soon(self._hand_out_space)
        return True

    def _hand_out_space(self) -> None:
        """Grants room in the order of the requests; an empty buffer takes any one record.

        Granted room counts as used until its waiter resumes, which uses it in the same step.
        """
        while self._space:
            size, waiter = self._space[0]
            if not waiter.cancelled():
                if self.buffered > 0 and self.buffered + size > self.buffer_memory:
                    return
                self.buffered += size
                waiter.set_result(None)
            self._space.popleft()

    @property
    def waiting(self) -> int:
        """Number of records that were handed over and are not settled."""
        return sum(queue.waiting for queue in self.queues.values())

    async def flush(
        self, timeout_ms: float | None = None, *, commits: TransactionState | None = None
    ) -> None:
        """Waits until every earlier record has an outcome. Raises OperationTimedOut.

        `commits` ends the wait once a record of the transaction to commit has failed.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._flush(commits)
        except TimeoutError:
            late = [queue for queue in self.queues.values() if not queue.idle]
            cause = late[0].why_late if late else None
            why = "" if cause is None else f": {describe(cause)}"
            # The blocking producer has waited before: what it hands over may be nothing.
            after = "" if timeout_ms is None or timeout_ms < 1 else f" after {timeout_ms:.0f} ms"
            raise OperationTimedOut(
                f"{self.waiting} records are not acknowledged{after}, of "
                f"{', '.join(map(str, late[:10]))}{why}{UNDER_WAY}",
                cause,
            ) from None
        finally:
            for queue in self.queues.values():
                queue.flushing = False

    async def _flush(self, commits: TransactionState | None) -> None:
        waiting: list[ProducerBatch] = []
        for queue in self.queues.values():
            waiting += [*queue.in_flight, *queue.ready]
            if queue.open is not None and queue.open.count:
                waiting.append(queue.open)
                queue.flushing = True
                self.dispatch(queue)
        while waiting := list(remaining(waiting)):
            if commits is not None and not commits.may_commit:
                return  # the abort gives up the others
            if self._progress is None:
                self._progress = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._progress)

    def end_transaction(self, error: TransactionAborted | None = None) -> None:
        """Readies the queues for the next transaction; with `error`, gives up what is left."""
        for queue in self.queues.values():
            if error is not None:
                self._settle(queue.on_hopeless(error), queue)
            if isinstance(queue, TransactionalQueue):
                queue.on_transaction_ended()

    # Upkeep.

    async def watch_deadlines(self) -> None:
        """Watches deadlines, silent streams and stalled leaders, while there are records."""
        while True:
            await self._busy.wait()
            now_ms = self.now_ms()
            pending = False
            # A record handed over after this check has a later deadline.
            due_ms = now_ms + min(STALL_MS, self.options.delivery_timeout_ms)
            for queue in list(self.queues.values()):
                if queue.idle:
                    continue
                pending = True
                if queue.next_deadline_ms <= now_ms:
                    self._after(queue, queue.on_expiry(now_ms))
                if now_ms - queue.waiting_since_ms >= STALL_MS:
                    self.cluster.request_refresh()
                due_ms = min(due_ms, queue.next_deadline_ms, queue.waiting_since_ms + STALL_MS)
            for key in [key for key, end_ms in self._homeless.items() if end_ms <= now_ms]:
                self._move(key)
            for stream in self._streams.values():
                due_ms = min(due_ms, stream.check_silence(now_ms))
            due_ms = min(due_ms, *self._homeless.values(), due_ms)
            if not pending:
                self._busy.clear()
                continue
            await asyncio.sleep(max(TICK_MS, due_ms - now_ms) / 1000)

    def _on_broken(self, error: ClientClosed) -> None:
        self.fail_everything(DeliveryError(str(error), cause=error))

    def on_dropped(self) -> None:
        """Warns about a producer that was dropped without `stop`."""
        unheard = None if self._session.is_elsewhere else self.unheard.look()
        waiting = 0 if self._session.is_elsewhere else self.waiting
        if waiting == 0 and unheard is None:
            return
        lost = "" if unheard is None else f"; {unheard}"
        text = (
            f"a producer was dropped without stop() while {waiting} records waited for their "
            f"acknowledgement{lost}: use `with`, or call stop()"
        )
        self.runtime.log.error(text)
        warnings.warn(text, ResourceWarning, stacklevel=2)

    def fail_everything(self, error: Exception) -> None:
        """Settles the remaining records of a closing or broken producer, as failed or unknown."""
        for queue in self.queues.values():
            self._settle(queue.on_hopeless(error), queue)
        self.report()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for _, waiter in self._space:
            if not waiter.done():
                waiter.set_exception(error)
        self._space.clear()

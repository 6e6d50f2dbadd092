"""The push streams: one for each registered broker, dialled by the controller (P-79).

A stream begins with a full snapshot and continues with every envelope in order. So a broker's view
is a prefix of the controller's log (I-81). The next snapshot repairs every failure: a full queue, a
gap that the broker detects, a broken connection, a missing answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import grpc
import grpc.aio

from strandline_proto.errors import StaleBrokerEpoch
from strandline_runtime.cancellation import deliver_cancellation
from strandline_runtime.renewal import Renewal

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_broker.core.controller.log.state import Broker
    from strandline_broker.core.controller.push import MetadataDelta
    from strandline_broker.core.push_answer import PushAnswer
    from strandline_broker.hosts.controller.broker_calls import (
        BrokerChannel,
        Dial,
        PushCall,
    )
    from strandline_proto.ids import BrokerId
    from strandline_runtime.runtime import Runtime

QUEUE_MAX: Final = 256
BACKOFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class OnAnswer(Protocol):
    def __call__(self, receiver: Broker, answer: PushAnswer, *, full: bool) -> None:
        """The broker has answered; `full`: to a snapshot. Must not wait."""
        ...


@dataclass(frozen=True, slots=True)
class PushPlan:
    """The settings and functions that all push streams of a controller share."""

    runtime: Runtime
    snapshot: Callable[[], MetadataDelta]
    dial: Dial
    on_answer: OnAnswer
    answer_timeout_s: float
    progressed_ms: Callable[[BrokerId], int | None]
    """Time at which a broker last reported that it applied another partition."""


@dataclass(frozen=True, slots=True)
class _Sent:
    at_s: float
    full: bool


class _Over(Exception):
    """The stream is of no more use; the next one begins with a snapshot."""


class PushStream:
    """The stream to one incarnation of a broker."""

    def __init__(self, plan: PushPlan, broker: Broker) -> None:
        self._plan = plan
        self._broker = broker
        self._queue: deque[MetadataDelta] = deque()
        self._unanswered: deque[_Sent] = deque()
        self._want_full = True
        self._work = asyncio.Event()
        self._answered = False

    def publish(self, envelope: MetadataDelta) -> None:
        """Queue an envelope, unless the pending snapshot covers it."""
        if not self._want_full:
            if len(self._queue) < QUEUE_MAX:
                self._queue.append(envelope)
            else:
                self._queue.clear()
                self._want_full = True
        self._work.set()

    async def run(self) -> None:
        """Push until cancelled, over as many connections as needed."""
        channel = self._plan.dial(self._broker)
        renewal = Renewal(self._plan.runtime.clock)
        failures, is_first = 0, True
        try:
            while True:
                self._answered = False
                if is_first or await self._is_there(channel):
                    await self._converse(channel)
                is_first = False
                failures = 0 if self._answered else failures + 1
                if failures > 0 and renewal.is_due():
                    await channel.close()
                    channel = self._plan.dial(self._broker)
                await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
        finally:
            await channel.close()

    async def _is_there(self, channel: BrokerChannel) -> bool:
        """True if a process answers: a snapshot is expensive, and is not made for a broker that is
        gone.
        """
        there = False
        try:
            await channel.identify(timeout_s=self._plan.answer_timeout_s)
            there = True
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self._plan.runtime.log.debug(
                "the broker cannot be reached for a push",
                broker=self._broker.broker_id,
                why=_first_line(error),
            )
        deliver_cancellation()
        return there

    async def _converse(self, channel: BrokerChannel) -> None:
        self._queue.clear()
        self._unanswered.clear()
        self._want_full = True
        call = channel.push()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send(call))
                tasks.create_task(self._read(call))
                await self._watch()
        except* (grpc.RpcError, asyncio.InvalidStateError, _Over) as broken:
            why = broken.exceptions[0]
            self._plan.runtime.log.debug(
                "push stream broke", broker=self._broker.broker_id, why=_first_line(why)
            )
        finally:
            call.cancel()
        deliver_cancellation()

    async def _send(self, call: PushCall) -> None:
        while True:
            self._work.clear()
            while (envelope := self._next()) is not None:
                send = await call.prepare(envelope)
                now_s = self._plan.runtime.clock.monotonic()
                self._unanswered.append(_Sent(now_s, envelope.full))
                await send()
            await self._work.wait()

    def _next(self) -> MetadataDelta | None:
        if len(self._unanswered) >= QUEUE_MAX:
            return None
        if self._want_full:
            # From here to the queue's first envelope there is no await, so no batch falls between.
            self._want_full = False
            self._queue.clear()
            return self._plan.snapshot()
        return self._queue.popleft() if self._queue else None

    async def _read(self, call: PushCall) -> None:
        while (answer := await call.read()) is not None:
            if not self._unanswered:
                raise _Over("an answer to nothing")
            sent = self._unanswered.popleft()
            self._answered = self._answered or answer.error is None
            self._plan.on_answer(self._broker, answer, full=sent.full)
            if isinstance(answer.error, StaleBrokerEpoch):
                raise _Over("another incarnation answers")
            if answer.want_full:
                if sent.full:
                    raise _Over(f"the snapshot was refused: {answer.error}")
                if not any(later.full for later in self._unanswered):
                    self._want_full = True
            self._work.set()
        raise _Over("the broker ended the stream")

    async def _watch(self) -> None:
        limit_s = self._plan.answer_timeout_s
        while True:
            now_s = self._plan.runtime.clock.monotonic()
            # Later envelopes are due later, so this sleep misses nothing.
            due_s = (self._still_since_s() if self._unanswered else now_s) + limit_s
            if due_s <= now_s:
                raise _Over(f"no answer and nothing applied for {limit_s} s")
            await asyncio.sleep(due_s - now_s)

    def _still_since_s(self) -> float:
        """Time of the broker's last progress. A broker that is still applying an envelope answers
        later; a repeated envelope would only restart its work.
        """
        progressed_ms = self._plan.progressed_ms(self._broker.broker_id)
        return max(self._unanswered[0].at_s, (progressed_ms or 0) / 1000)


class Pusher:
    """All push streams: every registered broker, fenced or not, gets every envelope."""

    def __init__(self, plan: PushPlan) -> None:
        self._plan = plan
        self._streams: dict[BrokerId, tuple[PushStream, asyncio.Task[None]]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Hold the streams' tasks until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for broker in self._plan.snapshot().brokers:
                self._start(broker)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def on_registered(self, broker: Broker) -> None:
        """Replace the stream of the broker's old incarnation by one to the new incarnation."""
        self.on_unregistered(broker.broker_id)
        self._start(broker)

    def on_unregistered(self, broker_id: BrokerId) -> None:
        old = self._streams.pop(broker_id, None)
        if old is not None:
            old[1].cancel()

    def publish(self, envelope: MetadataDelta) -> None:
        for stream, _ in self._streams.values():
            stream.publish(envelope)

    def _start(self, broker: Broker) -> None:
        if self._tasks is None:
            return  # `run` starts the streams of all brokers registered by then
        stream = PushStream(self._plan, broker)
        self._streams[broker.broker_id] = (stream, self._tasks.create_task(stream.run()))


def _first_line(error: BaseException) -> str:
    text = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
    return (text or type(error).__name__).splitlines()[0]

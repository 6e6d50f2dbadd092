"""The producer's housekeeping sleeps until something is due, and does it on time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from strandline._producer.sender import STALL_MS, Sender
from strandline_proof.sim.loop.loop import SimLoop

DEADLINE_MS = 3_210.0


class Queue:
    """A partition queue with one batch under way, which nobody answers."""

    def __init__(self, sent_ms: float) -> None:
        self.idle = False
        self.next_deadline_ms = DEADLINE_MS
        self.waiting_since_ms = sent_ms
        self.expired_ms: list[float] = []
        self.wants_identity = self.has_more = False
        self.in_flight: list[Any] = []

    def on_expiry(self, now_ms: float) -> list[Any]:
        self.expired_ms.append(now_ms)
        self.idle = True
        return []


def upkeep(queue: Queue, until_s: float) -> tuple[list[float], int]:
    """When it asked for metadata, and how many steps it took."""
    loop = SimLoop()
    asked: list[float] = []

    async def main() -> None:
        session: Any = SimpleNamespace(
            runtime=SimpleNamespace(clock=SimpleNamespace(monotonic=loop.time)),
            connections=None,
            on_broken=[],
            cluster=SimpleNamespace(
                watchers=[], request_refresh=lambda: asked.append(loop.now * 1000)
            ),
            tasks=None,
        )
        options: Any = SimpleNamespace(delivery_timeout_ms=DEADLINE_MS)
        sender = Sender(session, options=options, request_timeout_ms=1000.0, buffer_memory=1)
        kept: Any = queue
        sender.queues[b"topic", 0] = kept
        sender._busy.set()
        task = asyncio.get_running_loop().create_task(sender.watch_deadlines())
        await asyncio.wait({task}, timeout=until_s)
        task.cancel()

    loop.run(main())
    return asked, loop.steps


def test_an_answer_in_time_costs_no_wake_up() -> None:
    asked, steps = upkeep(Queue(sent_ms=0.0), STALL_MS / 1000 - 0.01)
    assert asked == []
    assert steps < 10


def test_a_stall_is_noticed_when_it_is_one() -> None:
    asked, _ = upkeep(Queue(sent_ms=0.0), 1.0)
    assert STALL_MS <= asked[0] < STALL_MS + 1


def test_a_batch_is_given_up_at_its_deadline() -> None:
    queue = Queue(sent_ms=float("inf"))
    upkeep(queue, 4.0)
    assert len(queue.expired_ms) == 1
    assert DEADLINE_MS <= queue.expired_ms[0] < DEADLINE_MS + 1

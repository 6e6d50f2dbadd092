"""`flush.ms` of thousands of logs costs what those cost that somebody appends to."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from strandline_broker.hosts.flush_schedule import SWEEP_S_MAX, FlushSchedule


class FakeLog:
    def __init__(self, flush_ms: int = 1000) -> None:
        self.config = SimpleNamespace(flush_ms=flush_ms, flush_messages=10**9)
        self.deleted = False
        self.log_end_offset = 0
        self.looks = 0
        self._durable = 0

    @property
    def durable_offset(self) -> int:
        self.looks += 1
        return self._durable

    def flush(self) -> None:
        self._durable = self.log_end_offset


class FakeDirs:
    def __init__(self) -> None:
        self.asked: list[FakeLog] = []

    def request(self, log: FakeLog) -> None:
        self.asked.append(log)


def schedule(dirs: Any, now_s: list[float]) -> Any:
    clock: Any = SimpleNamespace(monotonic=lambda: now_s[0])
    config: Any = SimpleNamespace(flush_policy="replicated")
    return FlushSchedule(clock, config, dirs)


async def test_a_log_is_flushed_when_its_time_is_over_and_looked_at_no_more() -> None:
    dirs, now_s = FakeDirs(), [0.0]
    flushes = schedule(dirs, now_s)
    written, other = FakeLog(), FakeLog(flush_ms=4000)
    for log in (written, other):
        log.log_end_offset = 5
        flushes.on_append(log, rolled=False)
    assert flushes.sweep(999) == 0.5
    assert dirs.asked == []
    flushes.sweep(1000)
    assert dirs.asked == [written]
    written.flush()
    flushes.sweep(1500)
    looks = written.looks
    flushes.sweep(2500)
    assert (written.looks, dirs.asked) == (looks, [written])
    flushes.sweep(4000)
    assert dirs.asked == [written, other]
    flushes.sweep(4500)
    assert dirs.asked == [written, other], "what was asked for has its time again"
    flushes.sweep(8000)
    assert dirs.asked == [written, other, other]
    other.deleted = True
    flushes.sweep(9000)
    looks = other.looks
    flushes.sweep(10000)
    assert other.looks == looks


async def test_a_shorter_time_is_kept_beside_a_longer_one() -> None:
    flushes = schedule(FakeDirs(), [0.0])
    slow, quick = FakeLog(flush_ms=60_000), FakeLog(flush_ms=20)
    slow.log_end_offset = quick.log_end_offset = 1
    flushes.on_copied(slow)
    running = asyncio.ensure_future(flushes.run())
    await asyncio.sleep(0)
    assert flushes._pause_s == SWEEP_S_MAX
    flushes.on_copied(quick)
    async with asyncio.timeout(SWEEP_S_MAX - 0.1):
        while flushes._pause_s > 0.01:  # noqa: ASYNC110 - the loop's own next turn
            await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_with_nothing_to_flush_nothing_runs() -> None:
    flushes = schedule(FakeDirs(), [0.0])
    running = asyncio.ensure_future(flushes.run())
    await asyncio.sleep(0)
    swept = 0

    def sweep(now_ms: int) -> float:
        nonlocal swept
        swept += 1
        return 0.01

    flushes.sweep = sweep
    for _ in range(100):
        await asyncio.sleep(0)
    assert swept == 0
    log = FakeLog()
    log.log_end_offset = 1
    flushes.on_append(log, rolled=False)
    async with asyncio.timeout(30):
        while swept == 0:  # noqa: ASYNC110 - the loop's own next turn
            await asyncio.sleep(0)
    running.cancel()

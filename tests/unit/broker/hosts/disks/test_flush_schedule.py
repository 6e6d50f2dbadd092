"""`flush.ms` of thousands of logs costs what those cost whose time is over."""

import asyncio
from types import SimpleNamespace
from typing import Any

from strandline_broker.hosts.disks.flush_schedule import FLUSH_MS_MIN, FlushSchedule


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


def dirty(flushes: Any, flush_ms: int = 1000) -> FakeLog:
    log = FakeLog(flush_ms)
    log.log_end_offset = 5
    flushes.on_append(log, rolled=False)
    return log


async def test_a_log_is_flushed_when_its_time_is_over_and_looked_at_no_more() -> None:
    dirs, now_s = FakeDirs(), [0.0]
    flushes = schedule(dirs, now_s)
    written, other = dirty(flushes), dirty(flushes, 4000)
    flushes.ask(999)
    assert dirs.asked == []
    flushes.ask(1000)
    assert dirs.asked == [written]
    written.flush()
    flushes.on_flushed(written)
    looks = written.looks
    flushes.ask(2500)
    assert (written.looks, dirs.asked) == (looks, [written])
    flushes.ask(4000)
    assert dirs.asked == [written, other]
    flushes.ask(7999)
    assert dirs.asked == [written, other], "what was asked for has its time again"
    flushes.ask(8000)
    assert dirs.asked == [written, other, other]
    other.deleted = True
    flushes.ask(12_000)
    looks = other.looks
    flushes.ask(20_000)
    assert other.looks == looks


async def test_of_thousands_that_wait_one_is_looked_at_whose_time_is_over() -> None:
    dirs, now_s = FakeDirs(), [0.0]
    flushes = schedule(dirs, now_s)
    waiting = [dirty(flushes, 5000) for _ in range(3000)]
    now_s[0] = 1.0
    written = dirty(flushes, 2000)
    looks = [log.looks for log in waiting]
    for now_ms in range(1000, 3001, 100):
        flushes.ask(now_ms)
    assert dirs.asked == [written]
    assert [log.looks for log in waiting] == looks


async def test_what_is_appended_after_a_flush_has_its_whole_time() -> None:
    dirs, now_s = FakeDirs(), [0.0]
    flushes = schedule(dirs, now_s)
    log = dirty(flushes)
    log.flush()
    flushes.on_flushed(log)
    now_s[0] = 0.9
    log.log_end_offset = 6
    flushes.on_copied(log)
    flushes.ask(1000)
    assert dirs.asked == []
    flushes.ask(1900)
    assert dirs.asked == [log]


async def test_a_part_that_is_flushed_leaves_the_rest_its_time() -> None:
    dirs = FakeDirs()
    flushes = schedule(dirs, [0.0])
    log = dirty(flushes)
    log.flush()
    log.log_end_offset = 6
    flushes.on_flushed(log)
    flushes.ask(1000)
    assert dirs.asked == [log]


async def test_a_time_that_is_altered_counts_from_the_append_on() -> None:
    dirs = FakeDirs()
    flushes = schedule(dirs, [0.0])
    sooner, later, durable = dirty(flushes, 60_000), dirty(flushes), dirty(flushes)
    durable.flush()
    flushes.on_flushed(durable)
    sooner.config.flush_ms, later.config.flush_ms = 500, 60_000
    for log in (sooner, later, durable):
        flushes.on_configured(log)
    flushes.ask(500)
    assert dirs.asked == [sooner]
    flushes.ask(1000)
    assert dirs.asked == [sooner, sooner]
    sooner.deleted = True
    flushes.ask(60_000)
    assert dirs.asked == [sooner, sooner, later]


async def test_no_time_at_all_is_no_endless_round() -> None:
    dirs = FakeDirs()
    flushes = schedule(dirs, [0.0])
    log = dirty(flushes, 0)
    flushes.ask(FLUSH_MS_MIN)
    assert dirs.asked == [log]


async def test_a_shorter_time_is_kept_beside_a_longer_one() -> None:
    dirs, now_s = FakeDirs(), [0.0]
    flushes = schedule(dirs, now_s)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(flushes.run())
        dirty(flushes, 60_000)
        await asyncio.sleep(0)
        quick = dirty(flushes, 20)
        now_s[0] = 0.02
        async with asyncio.timeout(30):
            while not dirs.asked:  # noqa: ASYNC110 - the loop's own next turn
                await asyncio.sleep(0)
        assert dirs.asked == [quick]
        running.cancel()


async def test_with_nothing_to_flush_nothing_runs() -> None:
    dirs, now_s = FakeDirs(), [0.0]
    flushes = schedule(dirs, now_s)
    asked = list[int]()
    ask = flushes.ask

    def counted(now_ms: int) -> None:
        asked.append(now_ms)
        ask(now_ms)

    flushes.ask = counted
    async with asyncio.TaskGroup() as group:
        running = group.create_task(flushes.run())
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(asked) == 1
        log = dirty(flushes)
        now_s[0] = 1.0
        async with asyncio.timeout(30):
            while not dirs.asked:  # noqa: ASYNC110 - the loop's own next turn
                await asyncio.sleep(0)
        assert dirs.asked == [log]
        running.cancel()

"""Deleted segments: a log is looked at when the delay of some of them is over."""

import asyncio
from types import SimpleNamespace
from typing import Any

from strandline_broker.hosts.upkeep.segment_removals import SegmentRemovals


class FakeLog:
    def __init__(self, *due_ms: int, error: OSError | None = None) -> None:
        self.deleted_segments: Any = self
        self.due_ms = list(due_ms)
        self.purged: list[int] = []
        self.looks = 0
        self._error = error

    @property
    def next_ms(self) -> int | None:
        self.looks += 1
        return min(self.due_ms, default=None)

    def purge(self, now_ms: int) -> None:
        self.purged.append(now_ms)
        self.due_ms = [due for due in self.due_ms if due > now_ms]
        if self._error is not None:
            raise self._error


class Removing:
    """Runs beside the test; the clock is the test's."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.warnings = 0
        runtime: Any = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: self.now_s),
            log=SimpleNamespace(warning=self._warn),
        )
        dirs: Any = self
        self.removals: Any = SegmentRemovals(runtime, dirs)

    def _warn(self, *_: Any, **__: Any) -> None:
        self.warnings += 1

    async def in_disk_pool(self, _: FakeLog, work: Any) -> None:
        work()

    async def at(self, now_ms: int) -> None:
        """Let all be done that is due by then."""
        self.now_s = now_ms / 1000
        self.removals._wake.set()
        running = asyncio.ensure_future(self.removals.run())
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])


async def test_files_are_removed_when_their_delay_is_over() -> None:
    removing = Removing()
    log = FakeLog(100, 200)
    removing.removals.on_deleted(log)
    await removing.at(99)
    assert log.purged == []
    await removing.at(100)
    assert log.purged == [100]
    await removing.at(150)
    assert log.purged == [100]
    await removing.at(201)
    assert log.purged == [100, 201]
    await removing.at(10_000)
    assert log.purged == [100, 201]


async def test_of_thousands_those_are_looked_at_of_which_something_is_due() -> None:
    removing = Removing()
    waiting, log = [FakeLog(50_000) for _ in range(1000)], FakeLog(100)
    for each in (*waiting, log, FakeLog()):
        removing.removals.on_deleted(each)
    for now_ms in range(0, 2000, 100):
        await removing.at(now_ms)
    assert log.purged == [100]
    assert {each.looks for each in waiting} == {1}, "when its segments were deleted"


async def test_a_file_that_stays_is_warned_of_and_keeps_no_other() -> None:
    removing = Removing()
    bad, good = FakeLog(100, error=OSError(5, "no")), FakeLog(100)
    removing.removals.on_deleted(bad)
    removing.removals.on_deleted(good)
    await removing.at(100)
    assert (bad.purged, good.purged, removing.warnings) == ([100], [100], 1)
    await removing.at(5000)
    assert bad.purged == [100]


async def test_a_log_that_goes_as_a_whole_is_left_alone() -> None:
    removing = Removing()
    log = FakeLog(100)
    removing.removals.on_deleted(log)
    removing.removals.forget(log)
    await removing.at(100)
    assert log.purged == []

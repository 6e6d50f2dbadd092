"""The threads of a data directory: each log has one, and what waits for it is done together."""

import asyncio
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from strandline_broker.hosts.disks.disk_lanes import LANES, SIDE_BY_SIDE_MAX, DiskLane, DiskLanes
from strandline_broker.storage.files.steps import Steps

WAIT_S = 30.0


class Busy:
    """A thread that is kept until `release`."""

    def __init__(self) -> None:
        self._held = threading.Event()
        self.thread = ThreadPoolExecutor(1)
        self.thread.submit(self._held.wait, WAIT_S)

    def release(self) -> None:
        self._held.set()


def steps(name: str, seen: list[str], *, fails: Exception | None = None) -> Steps[str]:
    for number in (1, 2):
        seen.append(f"{name}{number}")
        yield
    if fails is not None:
        raise fails
    return name


async def test_what_waits_for_a_thread_is_done_side_by_side() -> None:
    busy, seen = Busy(), list[str]()
    lane = DiskLane(busy.thread)
    full = OSError(28, "No space left on device")
    waiting = [
        asyncio.ensure_future(lane.in_group(work))
        for work in (steps("a", seen), steps("b", seen, fails=full), steps("c", seen))
    ]
    await asyncio.sleep(0)
    busy.release()
    a, b, c = await asyncio.gather(*waiting, return_exceptions=True)
    assert seen == ["a1", "b1", "c1", "a2", "b2", "c2"]
    assert (a, b, c) == ("a", full, "c"), "each hears of its own"


async def test_a_group_is_bounded_so_that_others_have_the_thread_between_two() -> None:
    busy, seen = Busy(), list[str]()
    lane = DiskLane(busy.thread)
    names = [f"{number}-" for number in range(SIDE_BY_SIDE_MAX + 1)]
    waiting = [asyncio.ensure_future(lane.in_group(steps(name, seen))) for name in names]
    await asyncio.sleep(0)
    busy.release()
    await asyncio.gather(*waiting)
    assert seen[-2:] == [f"{names[-1]}1", f"{names[-1]}2"]


async def test_steps_that_were_begun_are_ended_although_their_caller_is_cancelled() -> None:
    busy, seen = Busy(), list[str]()
    lane = DiskLane(busy.thread)
    full = OSError(28, "No space left on device")
    asked = asyncio.ensure_future(lane.in_group(steps("a", seen, fails=full)))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.sleep(0)
    assert not asked.done(), "it goes on for as long as the disk does"
    busy.release()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await asked
    assert seen == ["a1", "a2"]
    assert cancelled.value.__cause__ is full


async def test_a_log_has_always_the_same_thread_and_a_topic_has_all() -> None:
    made: list[str] = []

    class Runtime:
        def serial_executor(self, name: str) -> Executor:
            made.append(name)
            return ThreadPoolExecutor(1)

    runtime: Any = Runtime()
    lanes = DiskLanes(runtime, 0)
    of_topic = [lanes.of(b"t" * 16, partition) for partition in range(2 * LANES)]
    assert len(made) == len(set(made)) == LANES
    assert of_topic[:LANES] == of_topic[LANES:]
    assert set(map(id, of_topic)) == set(map(id, lanes.all))

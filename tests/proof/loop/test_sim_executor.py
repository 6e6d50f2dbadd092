"""Threads of a simulated process: a function that stands still in its middle, and who goes on."""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.loop.executor import SimExecutor
from strandline_proof.sim.loop.loop import SimLoop
from strandline_proof.sim.loop.owner import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

STILL_S = 0.5
TAKES_S = 0.001


class Machine:
    """A disk, and two threads of one process that writes to it."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.disk = SimDisk(random.Random(0), lambda: 0.0)
        self.fs = SimFs(self.disk)
        self.threads = [
            SimExecutor(loop, lambda: TAKES_S, lambda: bool(self.disk.delays)) for _ in range(2)
        ]
        self.disk.stand_still = lambda s: any(t.stand_still(s) for t in self.threads)
        self.done: list[tuple[str, float]] = []

    def stands_still_at(self, wanted: str) -> None:
        """Once, at the next such operation."""

        def delay(operation: str, path: str) -> float:
            if operation != wanted:
                return 0.0
            self.disk.delays.remove(delay)
            return STILL_S

        self.disk.delays.append(delay)

    def write(self, name: str) -> str:
        fd = self.fs.open(f"/{name}", os.O_RDWR | os.O_CREAT)
        self.fs.pwrite(fd, b"x", 0)
        self.done.append((f"{name} written", round(self.loop.now, 2)))
        self.fs.fsync(fd)
        self.done.append((f"{name} durable", round(self.loop.now, 2)))
        return name


def ran(main: Callable[[Machine], Coroutine[Any, Any, None]]) -> Machine:
    loop = SimLoop()
    machine = Machine(loop)
    loop.run(main(machine))
    loop.close()
    assert loop.uncaught == []
    return machine


def test_the_rest_of_a_function_comes_later_and_others_go_on() -> None:
    async def main(machine: Machine) -> None:
        machine.stands_still_at("fsync")
        first, second = machine.threads
        jobs = [first.run(machine.write, "a"), first.run(machine.write, "b")]
        await asyncio.sleep(STILL_S / 2)
        assert await second.run(machine.write, "c") == "c"
        assert [job.done() for job in jobs] == [False, False]
        assert await asyncio.gather(*jobs) == ["a", "b"]

    assert ran(main).done == [
        ("a written", 0.0),
        ("c written", 0.25),
        ("c durable", 0.25),
        ("a durable", 0.5),
        ("b written", 0.5),
        ("b durable", 0.5),
    ]


def test_what_stands_still_when_its_process_ends_does_nothing_more() -> None:
    async def main(machine: Machine) -> None:
        machine.stands_still_at("fsync")
        thread = machine.threads[0]
        job = thread.run(machine.write, "a")
        await asyncio.sleep(STILL_S / 2)
        machine.fs.alive = False
        thread.end()
        await asyncio.sleep(STILL_S)
        assert not job.done()

    assert ran(main).done == [("a written", 0.0)]


def test_an_error_behind_a_standstill_is_its_callers() -> None:
    async def main(machine: Machine) -> None:
        machine.stands_still_at("unlink")
        with pytest.raises(FileNotFoundError):
            await machine.threads[0].run(machine.fs.unlink, "/none")
        assert machine.loop.now > STILL_S

    ran(main)


@pytest.mark.parametrize("hangs", [False, True])
def test_what_a_function_has_met_is_known_with_its_outcome(hangs: bool) -> None:
    async def main(machine: Machine) -> None:
        thread, other = machine.threads
        known: list[float] = []
        if not hangs:
            machine.stands_still_at("fsync")

        def meets() -> None:
            thread.when_known(lambda: known.append(round(machine.loop.now, 1)))
            if hangs:
                thread.hang(STILL_S)
            machine.write("a")

        job = thread.run(meets)
        await other.run(machine.write, "b")
        await asyncio.sleep(STILL_S / 2)
        assert not known
        assert not job.done()
        await job
        assert known == [STILL_S]
        await thread.run(machine.write, "c")
        assert known == [STILL_S], "once"

    ran(main)


def test_what_a_dead_process_would_have_known_nobody_knows() -> None:
    async def main(machine: Machine) -> None:
        machine.stands_still_at("fsync")
        thread, known = machine.threads[0], list[str]()

        def meets() -> None:
            thread.when_known(lambda: known.append("met"))
            machine.write("a")

        thread.run(meets)
        await asyncio.sleep(STILL_S / 2)
        machine.fs.alive = False
        thread.end()
        await asyncio.sleep(STILL_S)
        assert not known

    ran(main)


def test_only_a_thread_can_stand_still() -> None:
    async def main(machine: Machine) -> None:
        machine.stands_still_at("fsync")
        assert not machine.disk.stand_still(STILL_S)
        machine.write("a")
        assert machine.loop.now < STILL_S

    ran(main)


def test_an_end_that_comes_from_the_function_itself_is_no_deadlock() -> None:
    async def main(machine: Machine) -> None:
        machine.disk.delays.append(lambda operation, path: 0.0)
        thread = machine.threads[0]

        def ends() -> None:
            machine.fs.alive = False
            thread.end()
            raise Stopped

        job = thread.run(ends)
        await asyncio.sleep(STILL_S)
        assert not job.done()

    ran(main)

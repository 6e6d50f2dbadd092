"""One machine of a simulated cluster: a disk that stays, and one life of a process after the other.

The process is the real one, built over a Runtime that is bound to the simulation.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from prometheus_client import CollectorRegistry

from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import Held, SimFs
from strandline_proof.sim.disk.parts import HANG_S
from strandline_proof.sim.loop.executor import SimExecutor
from strandline_proof.sim.loop.owner import EPOCH_S, Stopped
from strandline_proof.sim.loop.timeline import SimLog
from strandline_runtime.runtime import Runtime

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from strandline_proof.sim.loop.loop import SimLoop
    from strandline_proof.sim.loop.owner import Owner
    from strandline_proof.sim.loop.timeline import Timeline
    from strandline_runtime.runtime import Clock, Network

EXECUTOR_S: Final = (0.00005, 0.002)
"""The least and the greatest duration of a thread's job, on a healthy disk."""
RECOVERY: Final = "recovery-"
"""The prefix of the names of threads that open logs, at a start or later."""


class SimClock:
    """A node's two clocks, as its owner sets them."""

    def __init__(self, loop: SimLoop, owner: Owner) -> None:
        self._loop = loop
        self._owner = owner

    def time(self) -> float:
        return self._owner.wall(self._loop.now)

    def monotonic(self) -> float:
        return self._owner.local(self._loop.now)


class Node:
    """A machine. `main` is the process: it receives its node, a Runtime and the event that asks it
    to stop. `process` is whatever `main` stores there for oracles to look at.
    """

    def __init__(
        self,
        name: str,
        loop: SimLoop,
        rng: random.Random,
        timeline: Timeline,
        network: Any,
        main: Callable[[Node, Runtime, asyncio.Event], Awaitable[None]],
    ) -> None:
        self.name = name
        self.loop = loop
        self.disk = SimDisk(rng, self._wall)
        self.disk.stalled = self._stall
        self.disk.stand_still = self._stand_still
        self.disk.refused = self._refused
        self.disk.recovers = lambda: any(thread.runs for thread in self._recoveries)
        self.owner: Owner | None = None
        self.process: Any = None
        self.incarnation = 0
        self.exits: list[str] = []
        """Reasons why processes of this node ended by themselves, oldest first."""
        self.died_of: BaseException | None = None
        """The error that ended the last of them, if it was one."""
        self.on_step: Callable[[], None] | None = None
        """Called after each step of its process, while that lives."""
        self.on_exit: Callable[[Node, str], None] = lambda node, why: None
        self.on_fate: Callable[[str], None] = lambda what: None
        """Called with the name of each thing that a nemesis does to the node."""
        self.on_crash: Callable[[Node], None] = lambda node: None
        """Called when a process has ended in any way except in order; its disk is as it left it."""
        self.stalled_until_s = 0.0
        """The time until which an operation of its disk, on whichever thread, takes."""
        self.refused_in: list[str] = []
        """Segments without room for an append, as the process's event loop has learned."""
        self.failed_before = 0
        """The number of faults that had struck its disk when its process began."""
        self.clean_epoch = -1
        """Broker epoch of the last registered process, if it ended in order."""
        self.dark_s = float("-inf")
        """The time of the last loss of power: messages sent before it still arrive."""
        self.wall_offset_s = 0.0
        self.most_ahead_s = 0.0
        """The greatest `ahead_s` in this life."""
        self.rate = 1.0
        self._rng = rng
        self._timeline = timeline
        self._network = network
        self._main = main
        self._fs: SimFs | None = None
        self._stop: asyncio.Event | None = None
        self._threads: list[SimExecutor] = []
        self._recoveries: list[SimExecutor] = []
        """Threads that open logs."""

    @property
    def running(self) -> bool:
        return self.owner is not None and self.owner.alive

    @property
    def stopping(self) -> bool:
        """True if its process was asked to end."""
        return self._stop is not None and self._stop.is_set()

    @property
    def paused(self) -> bool:
        return self.owner is not None and self.owner.frozen

    def connections(self) -> int:
        """The number of its process's connections, as client and as server."""
        count: int = self._network.connections(self.name)
        return count

    def held_files(self) -> list[Held]:
        """The open descriptors of its process."""
        return [] if self._fs is None else self._fs.held()

    @property
    def ahead_s(self) -> float:
        """The lead of its process's wall clock over one that has always been right."""
        now = self.loop.now
        return self.wall_offset_s if self.owner is None else self.owner.wall(now) - EPOCH_S - now

    def _wall(self) -> float:
        return EPOCH_S + self.wall_offset_s + self.loop.now

    def _stall(self, seconds: float) -> None:
        self.stalled_until_s = max(self.stalled_until_s, self.loop.now + seconds)
        if seconds >= HANG_S and any(thread.hang(seconds) for thread in self._threads):
            return
        if self.owner is not None:
            self.owner.busy_s += seconds

    @property
    def is_registered(self) -> bool:
        """True if its process, a broker's, has its epoch."""
        return getattr(getattr(self.process, "lifecycle", None), "broker_epoch", -1) >= 0

    @property
    def is_on_a_thread(self) -> bool:
        """True if the present code runs on a thread, and may stand still."""
        return any(thread.goes_aside for thread in self._threads)

    def tell_late(self, seconds: float) -> None:
        """The event loop learns the outcome of the thread's present function so much later."""
        self.stalled_until_s = max(self.stalled_until_s, self.loop.now + seconds)
        next(thread for thread in self._threads if thread.goes_aside).hang(seconds)

    def _stand_still(self, seconds: float) -> bool:
        """An operation of one of its threads waits. Operations of the event loop itself cannot
        stand still.
        """
        thread = next((thread for thread in self._threads if thread.goes_aside), None)
        if thread is None:
            return False
        self.stalled_until_s = max(self.stalled_until_s, self.loop.now + seconds)
        return thread.stand_still(seconds)

    def _refused(self, segment: str) -> None:
        """The event loop learns of the refusal together with the outcome of the thread's whole
        function.
        """
        known = partial(self.refused_in.append, segment)
        thread = next((thread for thread in self._threads if thread.runs), None)
        if thread is None:
            known()
        else:
            thread.when_known(known)

    def start(self) -> None:
        """Begins a new life, if there is none."""
        if self.running:
            return
        self.incarnation += 1
        self.failed_before = len(self.disk.struck)
        self.disk.no_room.clear()
        owner = self.owner = self.loop.new_owner(self.name)
        owner.wall_offset_s = self.wall_offset_s
        owner.set_rate(self.loop.now, self.rate)
        self.most_ahead_s = self.ahead_s
        owner.on_step = self.on_step
        self._fs = SimFs(self.disk)
        self.disk.faults.misread = (
            0.0  # threads that open logs get no such faults (`SimDisk.recovers`)
        )
        self.process = None
        self.refused_in = []
        self._threads.clear()
        self._recoveries.clear()
        self._stop = asyncio.Event()
        runtime = Runtime(
            clock=cast("Clock", SimClock(self.loop, owner)),
            fs=self._fs,
            rng=self._rng,
            network=cast("Network", self._network.node(self.name, owner)),
            serial_executor=self._executor,
            exit=self._exit,
            metrics=CollectorRegistry(auto_describe=False),
            log=cast("Any", SimLog(self._timeline, self.name, {})),
            pid=1000 + owner.number,
        )
        self._note("starts")
        owner.run(
            self.loop.create_task, self._live(runtime, self._stop), name=f"{self.name}: process"
        )

    async def _live(self, runtime: Runtime, stop: asyncio.Event) -> None:
        try:
            await self._main(self, runtime, stop)
        except Exception as error:  # noqa: BLE001 - the end of a process: told
            self._end(f"{type(error).__name__}: {error}", error)
            return
        self._end("")

    def _executor(self, name: str) -> SimExecutor:
        thread = SimExecutor(self.loop, self._latency, lambda: bool(self.disk.delays))
        self._threads.append(thread)
        if name.startswith(RECOVERY):
            self._recoveries.append(thread)
        return thread

    def _latency(self) -> float:
        return self._rng.uniform(*EXECUTOR_S) * self.disk.faults.slow

    def _exit(self, why: str) -> NoReturn:
        self._end(why)
        raise Stopped

    def _end(self, why: str, error: BaseException | None = None) -> None:
        """The process has ended by itself; an empty `why` stands for an orderly stop."""
        if not self.running:
            return
        fields: dict[str, object] = {"why": why or "asked to"}
        if error is not None:
            fields["exc_info"] = error
        self._timeline.add(self.name, "error" if why else "info", "process ended", fields)
        if why:
            self.exits.append(why)
        self.died_of = error
        self._remember_end(in_order=not why)
        self._die()
        if why:
            self.on_crash(self)
        self.on_exit(self, why)

    def _die(self) -> None:
        if self.owner is not None:
            self.loop.kill(self.owner)
        self._end_threads()
        self._network.kill(self.name)

    def _end_threads(self) -> None:
        if self._fs is not None:
            self._fs.alive = False
        for thread in self._threads:
            thread.end()

    def _remember_end(self, *, in_order: bool) -> None:
        epoch = getattr(getattr(self.process, "lifecycle", None), "broker_epoch", -1)
        if epoch >= 0:
            self.clean_epoch = epoch if in_order else -1

    def _note(self, what: str, **fields: object) -> None:
        self._timeline.add(self.name, "fault", what, fields)
        self.on_fate(what)

    # Acts of a nemesis

    def kill(self) -> None:
        """SIGKILL: the page cache stays, peers see their connections reset."""
        if self.running:
            self._note("killed")
            self._remember_end(in_order=False)
            self._die()
            self.on_crash(self)

    def power_off(self, survival: float) -> None:
        """The machine is dark: nothing answers, and what was not durable may be gone."""
        if self.running:
            assert self.owner is not None
            self._note("loses power")
            self.dark_s = self.loop.now
            self._remember_end(in_order=False)
            self.loop.kill(self.owner)
            self._end_threads()
            self._network.power_off(self.name)
            self.disk.lose_power(survival)

    def pause(self) -> None:
        if self.owner is not None and self.running and not self.owner.frozen:
            self._note("paused")
            self.loop.pause(self.owner)

    def stall(self, for_s: float) -> None:
        """Blocks the event loop; the threads of the process go on."""
        if self.owner is not None and self.running and not self.owner.paused:
            self._note("stalls", for_s=for_s)
            self.loop.stall(self.owner, for_s)

    def resume(self) -> None:
        if self.owner is not None and self.running and self.owner.frozen:
            self._note("resumed")
            self.loop.resume(self.owner)

    def stop(self) -> None:
        """SIGTERM."""
        if self._stop is not None and self.owner is not None and self.running:
            self._note("asked to stop")
            self.loop.post(0.0, self.owner, self._stop.set)

    def set_clock(self, *, wall_offset_s: float | None = None, rate: float | None = None) -> None:
        """Makes the wall clock jump, or both clocks run at another rate."""
        if wall_offset_s is not None:
            self.wall_offset_s = wall_offset_s
        if rate is not None:
            self.rate = rate
        self._note("clock", offset_s=self.wall_offset_s, rate=self.rate)
        if self.owner is not None and self.running:
            self.owner.wall_offset_s = self.wall_offset_s
            self.owner.set_rate(self.loop.now, self.rate)
            self.most_ahead_s = max(self.most_ahead_s, self.ahead_s)

    def halt(self) -> None:
        """The run is over."""
        if self.owner is not None:
            self.owner.alive = False
        self._end_threads()

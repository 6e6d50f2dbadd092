"""An event loop in virtual time: one process, many nodes, the same order of everything every time.

`call_soon` is first in, first out, as asyncio documents; the latencies of messages and disks differ
from seed to seed. Each step costs a microsecond of virtual time, so that time cannot stand still.
The loop reads no clock, and a set of tasks has the same order in every process.

A run that can make no progress raises Deadlock, one that makes too many steps Livelock; both name
the waiting tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import sys
from array import array
from asyncio import events
from asyncio.futures import _set_result_unless_cancelled  # type: ignore[attr-defined]
from collections import deque
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from strandline_proof.sim.loop.executor import SimExecutor
from strandline_proof.sim.loop.handle import SimHandle
from strandline_proof.sim.loop.owner import OWNER, Owner, Stopped
from strandline_proof.sim.loop.task import SimTask

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

STEP_S: Final = 1e-6
DIGEST_EVERY: Final = 8192
ON_THREAD: Final = "on_thread"
"""Name of the functions that a thread runs, in executor.py."""
WAITING_SHOWN: Final = 12
GIVES_WAY_EVERY: Final = 64

T = TypeVar("T")


class Deadlock(AssertionError):
    """No callback can ever run again, and the run has not ended."""


class Livelock(AssertionError):
    """The run made more steps than it may."""


class SimLoop:
    """The event loop, as far as asyncio uses one. `steps_max` bounds a run."""

    def __init__(self, *, steps_max: int = 20_000_000) -> None:
        self.now = 0.0
        self.steps = 0
        self.uncaught: list[dict[str, Any]] = []
        """Arguments of the exception handler's calls: an error here is a defect of the simulated
        code.
        """
        self._steps_max = steps_max
        self._ready: deque[SimHandle] = deque()
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._timer_count = 0
        self._tasks: list[SimTask] = []
        self._owners: list[Owner] = []
        self._generators: dict[int, AsyncGenerator[Any, Any]] = {}
        self._running = False
        self._closed = False
        self._failure: BaseException | None = None
        self._asked = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._trace = array("d")
        """(time, owner) of each step since the last update of the hash."""

    # Nodes

    def new_owner(self, name: str) -> Owner:
        owner = Owner(name, len(self._owners) + 1)
        owner.set_rate(self.now, 1.0)
        self._owners.append(owner)
        return owner

    def kill(self, owner: Owner) -> None:
        """Stops everything of this owner. Its tasks are kept, unfinished, to the end, as their
        `finally` blocks must not run.
        """
        owner.alive = False
        owner.backlog.clear()

    def pause(self, owner: Owner) -> None:
        """SIGSTOP: callbacks that come due wait."""
        owner.frozen = True

    def resume(self, owner: Owner) -> None:
        """SIGCONT: every callback that came due runs now, in its order."""
        owner.frozen = False
        self._catch_up(owner)

    def _catch_up(self, owner: Owner) -> None:
        if not owner.paused:
            self._ready.extend(owner.backlog)
            owner.backlog.clear()

    def record(self, what: str) -> None:
        """Makes `what` part of the digest, at this time."""
        self._flush_trace()
        self._hash.update(f"{self.now!r} {what}\n".encode())

    def digest(self) -> str:
        """Fingerprint of everything that has happened: equal for equal seeds, in every process."""
        self._flush_trace()
        return self._hash.copy().hexdigest()

    def _flush_trace(self) -> None:
        self._hash.update(self._trace.tobytes())
        del self._trace[:]

    # The interface of asyncio

    def time(self) -> float:
        owner = OWNER.get()
        return self.now if owner is None else owner.local(self.now)

    get_debug = staticmethod(bool)
    """False. Every future asks, so this is no Python function."""

    def set_debug(self, enabled: bool) -> None:
        assert not enabled

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        if context is None:
            context = copy_context()
        handle = SimHandle(callback, args, context, context.get(OWNER))
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        clock = OWNER.get()
        when = (self.now if clock is None else clock.local(self.now)) + delay
        return self._at(when, clock, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """`when` is in the clock of the caller's node."""
        return self._at(when, OWNER.get(), callback, args, context)

    def _at(
        self,
        when: float,
        clock: Owner | None,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> SimHandle:
        if context is None:
            context = copy_context()
        quiet = callback is _set_result_unless_cancelled
        handle = SimHandle(callback, args, context, context.get(OWNER), when, quiet)
        self._push(when if clock is None else clock.to_global(when), handle)
        return handle

    def post(
        self, delay_s: float, owner: Owner | None, callback: Callable[..., Any], *args: Any
    ) -> SimHandle:
        """Calls as `owner` after `delay_s` of global time, for instance when a message arrives or a
        disk operation ends.
        """
        context = Context() if owner is None else owner.context.copy()
        when = self.now + delay_s
        handle = SimHandle(callback, args, context, owner, when)
        self._push(when, handle)
        return handle

    def deliver(
        self, delay_s: float, owner: Owner | None, callback: Callable[..., Any], *args: Any
    ) -> SimHandle:
        """Calls like `post`, for a callback that only prepares something for a task to find."""
        handle = self.post(delay_s, owner, callback, *args)
        handle.quiet = True
        return handle

    def _push(self, when: float, handle: SimHandle) -> None:
        count = self._timer_count = self._timer_count + 1
        heappush(self._timers, (when, count, handle))

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> Any:
        number = len(self._tasks) + 1
        task = SimTask(
            coro, number=number, loop=self, name=name or f"task-{number}", context=context
        )
        self._tasks.append(task)
        owner = OWNER.get() if context is None else context.get(OWNER)
        if owner is not None:
            owner.tasks.append(task)
        return task

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        assert isinstance(executor, SimExecutor), "only the Runtime's executors exist here"
        return executor.run(func, *args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.uncaught.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        self._generators.clear()

    async def shutdown_default_executor(self) -> None:
        """Does nothing: there is no default executor."""

    def others_are_due(self) -> bool:
        """True if anything else of this life would run if its task yielded now. If not, the yield
        would change nothing. The answer is True now and then all the same, so that a task that
        never waits uses up its steps.
        """
        self._asked += 1
        if self._asked % GIVES_WAY_EVERY == 0:
            return True
        owner = OWNER.get()
        return any(handle.owner is owner and not handle.cancelled_ for handle in self._ready)

    def fail(self, error: BaseException) -> None:
        """Ends the run with this error after the current step."""
        if self._failure is None:
            self._failure = error

    # Running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs `main` to its end as the harness. Garbage is collected afterwards only: a finalizer
        in the middle would be a step that no seed decides.
        """
        collects = gc.isenabled()
        gc.disable()
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._keep, finalizer=self._keep)
        self._running = True
        events._set_running_loop(cast("Any", self))
        try:
            task = self.create_task(main, name="main")
            self._run_until(task)
            return task.result()  # type: ignore[no-any-return]
        finally:
            events._set_running_loop(None)
            self._running = False
            sys.set_asyncgen_hooks(*hooks)
            if collects:
                gc.enable()

    def run_until_complete(self, future: Any) -> Any:
        return self.run(future)

    def _keep(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = generator

    def _run_until(self, main: SimTask) -> None:  # noqa: C901 - a call is what it must not cost
        """The hot loop of every run: one callback after the other, each a step."""
        ready, timers, trace = self._ready, self._timers, self._trace
        take, note = ready.popleft, trace.append
        while not main.done():
            if not ready:
                if not timers:
                    raise Deadlock(
                        f"at {self.now:.6f} s nothing can run any more: {self.waiting()}"
                    )
                self.now = max(self.now, timers[0][0])
            while timers and timers[0][0] <= self.now:
                handle = heappop(timers)[2]
                if not handle.cancelled_:
                    ready.append(handle)
            for _ in range(len(ready)):
                handle = take()
                if handle.cancelled_:
                    continue
                owner = handle.owner
                if (
                    owner is not None
                    and (owner.frozen or owner.blocked or not owner.alive)
                    and self._waits(owner, handle)
                ):
                    continue
                now = self.now = self.now + STEP_S
                self.steps += 1
                note(now)
                note(0.0 if owner is None else owner.number)
                try:
                    handle.context.run(handle.callback, *handle.args)
                except Stopped:
                    pass
                except Exception as error:  # noqa: BLE001 - as in asyncio, the handler gets it
                    self.call_exception_handler(
                        {"message": "a callback failed", "exception": error}
                    )
                if owner is not None:
                    if owner.on_step is not None and not handle.quiet and owner.alive:
                        owner.on_step()
                    if owner.busy_s > 0:
                        self._block(owner)
                if self._failure is not None:
                    raise self._failure
            if len(trace) >= DIGEST_EVERY:
                self._flush_trace()
            if self.steps > self._steps_max:
                raise Livelock(f"{self.steps} steps at {self.now:.6f} s: {self.waiting()}")

    def _waits(self, owner: Owner, handle: SimHandle) -> bool:
        """True if the callback may not run now, as its life is over or stands still; it is kept if
        that life goes on later.
        """
        if not owner.alive:
            return True
        on_thread = getattr(handle.callback, "__name__", "") == ON_THREAD
        if owner.frozen or not (owner.stalled and on_thread):
            owner.backlog.append(handle)
            return True
        return False

    def _block(self, owner: Owner) -> None:
        """The step took time on its own thread: the node does nothing else meanwhile."""
        busy_s, owner.busy_s = owner.busy_s, 0.0
        if owner.alive:
            owner.blocked = True
            self.post(busy_s, None, self._unblock, owner)

    def stall(self, owner: Owner, for_s: float) -> None:
        """Blocks the event loop of this owner for so long; its threads go on."""
        owner.blocked = owner.stalled = True
        self.post(for_s, None, self._unblock, owner)

    def _unblock(self, owner: Owner) -> None:
        owner.blocked = owner.stalled = False
        self._catch_up(owner)

    def timers_of(self, owner: Owner | None) -> list[SimHandle]:
        """The timers that it has set and not cancelled."""
        handles = [handle for _, _, handle in self._timers]
        return [each for each in handles if each.owner is owner and not each.cancelled_]

    def waiting(self) -> str:
        """The unfinished tasks of live nodes, in words."""
        names = [task.get_name() for task in self._tasks if not task.done()]
        more = f" and {len(names) - WAITING_SHOWN} more" if len(names) > WAITING_SHOWN else ""
        return ", ".join(names[:WAITING_SHOWN]) + more

    def close(self) -> None:
        """Throws away unfinished tasks. The code that is cut off may not do anything more: its
        `finally` blocks run now, on a closed loop, and their errors are ignored.
        """
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                _discard(task.get_coro())
        self._tasks.clear()
        for generator in self._generators.values():
            # Closing a coroutine that awaits a generator does not close what the generator awaits.
            awaited = getattr(generator, "ag_await", None)
            if hasattr(awaited, "close"):
                _discard(awaited)
        self._generators.clear()


def _discard(coro: Any) -> None:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            coro.close()
            return

"""An asynchronous client on a thread of its own: the base of the blocking clients."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple

from strandline._net.loop_affinity import Birthplace
from strandline.admin import Admin as AsyncAdmin
from strandline.errors import ClientClosed, ClientMisused, FlushFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context
    from types import TracebackType
    from typing import Self

    from strandline.consumer import Consumer as AsyncConsumer
    from strandline.producer import Producer as AsyncProducer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Twin = TypeVar("Twin", bound="AsyncProducer[Any, Any] | AsyncConsumer[Any, Any] | AsyncAdmin")

END_S: Final = 2.0
"""Seconds that a closing loop waits for its cancelled tasks."""


class _Loop(asyncio.SelectorEventLoop):
    """A loop that ignores callbacks after it is closed.

    All loops of a process share gRPC's poller. The poller reports cancelled calls a moment later,
    and would log an error of this loop in another loop of the program.
    """

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            if not self.is_closed():
                raise
            return asyncio.Handle(callback, args, self, context)


class BlockingLoop:
    """An event loop on a daemon thread of its own: an object that is not closed ends with the
    program.
    """

    def __init__(self, name: str) -> None:
        self.birthplace = Birthplace()
        self._name = name
        self._loop = _Loop()
        self._lock = threading.RLock()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"strandline-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self._loop
        try:
            loop.run_forever()
            # What was interrupted closes what it has opened. Then calls of other threads, and what
            # a transport has not finished, come to an end.
            if ending := {task for task in asyncio.all_tasks(loop) if task.cancelling()}:
                loop.run_until_complete(asyncio.wait(ending, timeout=END_S))
            if left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left, timeout=END_S))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def is_own_thread(self) -> bool:
        """True on the loop's thread, where callbacks run.

        Raises ClientMisused in a forked child.
        """
        self.birthplace.check(self._name)
        return threading.current_thread() is self._thread

    def require_elsewhere(self) -> None:
        """Raises ClientMisused if a wait for this loop would never end."""
        if self.is_own_thread():
            raise ClientMisused(
                f"this {self._name} was called by its own delivery callback, and would wait for "
                "itself; a callback may call `send` of a producer: leave other work to another "
                "thread, by a queue for example"
            )

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts the coroutine on the loop. Raises ClientClosed."""
        with self._lock:
            if not self._is_closing:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise self.closed()

    def closed(self) -> ClientClosed:
        """The error of a call that starts after `close`, or that `close` interrupts."""
        return ClientClosed(f"the {self._name} was closed")

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine and returns its result. The caller is on another thread."""
        future = self.begin(coroutine)
        try:
            return future.result()
        except CancelledError:
            raise self.closed() from None  # by another thread, before this call had ended
        except BaseException:
            future.cancel()
            raise

    def run(self, function: Callable[[], T]) -> T:
        """Runs a plain function on the loop's thread and returns its result."""

        async def on_loop() -> T:
            return function()

        return self.call(on_loop())

    def call_soon(self, function: Callable[[], object]) -> None:
        """Schedules a plain function on the loop's thread. The loop must be running."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Stops the loop and waits for the end of its thread."""
        with self._lock:
            self._is_closing = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Blocking(Generic[Twin]):
    """Start and end of a blocking object, which has one loop from its start to its end."""

    def __init__(self, name: str, twin: Twin) -> None:
        self._name = name
        self._twin: Twin = twin
        self._loop: BlockingLoop | None = None
        self._closing = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except FlushFailed:
            if error is None:  # what ended the block matters more; the log has both
                raise

    def start(self) -> None:
        """Connects. A failed start leaves no thread or connection behind."""
        if self._loop is not None:
            self._loop.require_elsewhere()
            raise ClientClosed(f"the {self._name} has been started already")
        loop = BlockingLoop(self._name)
        try:
            loop.call(self._twin.start())
            self._loop = loop
        except BaseException:
            if self._loop is loop:  # and not that of a call on another thread
                self._loop = None
            loop.close()
            raise

    def close(self) -> None:
        """Finishes the calls under way and stops the thread."""
        loop = self._loop
        if loop is None or loop.birthplace.is_elsewhere:
            return
        loop.require_elsewhere()
        if self._closing:
            return
        self._closing = True
        try:
            self._finish(loop, self._twin)
        finally:
            self._loop = None
            self._closing = False
            loop.close()

    def _finish(self, loop: BlockingLoop, twin: Twin) -> None:
        loop.call(twin.close() if isinstance(twin, AsyncAdmin) else twin.stop())

    def _call(self, coroutine_of: Callable[[Twin], Coroutine[Any, Any, T]]) -> T:
        loop, twin = self._running()
        return loop.call(coroutine_of(twin))

    def _run(self, function_of: Callable[[Twin], T]) -> T:
        loop, twin = self._running()
        return loop.run(lambda: function_of(twin))

    def _running(self) -> tuple[BlockingLoop, Twin]:
        if self._loop is None:
            raise ClientClosed("not started, or closed; use `with`")
        self._loop.require_elsewhere()
        return self._loop, self._twin

"""An asynchronous client on a thread of its own: what the blocking clients are made of."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from strandline._acknowledgement import Acknowledgement as Record
from strandline._home import Birthplace
from strandline.admin import Admin as AsyncAdmin
from strandline.consumer import Consumer as AsyncConsumer
from strandline.errors import ClientClosed, ClientMisused, FlushFailed
from strandline.producer import Producer as AsyncProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import Self

    from strandline.types import RecordMetadata

T = TypeVar("T")
Twin = TypeVar("Twin", AsyncProducer, AsyncConsumer, AsyncAdmin)


class BlockingLoop:
    """An event loop on a thread of its own. The thread is a daemon: a forgotten object ends with
    the program.
    """

    def __init__(self, name: str) -> None:
        self.birthplace = Birthplace()
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"strandline-{name}", daemon=True
        )
        self._thread.start()

    def require_elsewhere(self) -> None:
        """Raise ClientMisused where waiting for this loop would never end."""
        self.birthplace.check(self._name)
        if threading.current_thread() is self._thread:
            raise ClientMisused(
                f"this {self._name} was called by its own delivery callback, and would wait for "
                "itself; have the callback leave the work to another thread, by a queue for example"
            )

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Have the coroutine run."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns. Whoever calls has made sure to be elsewhere."""
        future = self.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(self, function: Callable[[], T]) -> T:
        """Call a function that is not a coroutine on the loop's thread."""

        async def on_loop() -> T:
            return function()

        return self.call(on_loop())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking(Generic[Twin]):
    """Start and end of a blocking object: the loop lives as long as it does."""

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
        """Connect. If that fails, nothing is left behind."""
        if self._loop is not None:
            self._loop.require_elsewhere()
            raise ClientClosed(f"the {self._name} has been started already")
        loop = BlockingLoop(self._name)
        try:
            loop.call(self._twin.start())
        except BaseException:
            loop.close()
            raise
        self._loop = loop

    def close(self) -> None:
        """Finish what is under way, and stop the thread."""
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


class Acknowledgement(Future["RecordMetadata"]):
    """The acknowledgement of one record, to be waited for anywhere but where it comes from."""

    def __init__(self, loop: BlockingLoop) -> None:
        super().__init__()
        self._from = loop
        self._record: Record | None = None

    def follow(self, record: asyncio.Future[RecordMetadata]) -> None:
        """Become what `record` becomes. Only a look at this one counts as one at it."""
        assert isinstance(record, Record)
        self._record = record
        asyncio.Future.add_done_callback(record, self._copy)

    def _copy(self, done: asyncio.Future[RecordMetadata]) -> None:
        if done.cancelled():
            self.cancel()
        elif (error := asyncio.Future.exception(done)) is not None:
            self.set_exception(error)
        elif self.set_running_or_notify_cancel():
            self.set_result(asyncio.Future.result(done))

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        self._watch()
        super().add_done_callback(fn)

    def _watch(self) -> None:
        if self._record is not None:
            self._record.watched = True

    def result(self, timeout: float | None = None) -> RecordMetadata:
        self._require_done_or_elsewhere()
        self._watch()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._require_done_or_elsewhere()
        self._watch()
        return super().exception(timeout)

    def _require_done_or_elsewhere(self) -> None:
        self._from.birthplace.check("producer")  # its lock may be held for ever
        if not self.done():
            self._from.require_elsewhere()

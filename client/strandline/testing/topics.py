"""Topics for tests, created in batches ahead of their use.

A thread keeps a stock of topics that every broker knows. It also deletes used topics in batches.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from strandline_local.errors import ClusterError
from strandline_runtime.real import port_is_free

BATCH: Final = 16
LOW: Final = 24
"""The thread creates a batch when fewer topics are in stock."""
TAKE_S: Final = 60.0
_AGAIN_S: Final = 0.2

Names = Callable[[Sequence[str]], None]


class TopicPool:
    """A stock of topics. `take` gives each topic once; `give_back` lets the thread delete it."""

    def __init__(
        self, create: Names, delete: Names, *, prefix: str, first: int = 1, batch: int = BATCH
    ) -> None:
        """`create` returns once every broker knows the topics. Both calls may raise."""
        self._create = create
        self._delete = delete
        self._prefix = prefix
        self._next = first
        self._batch = batch
        self._changed = threading.Condition()
        self._stock: deque[str] = deque()
        self._used: list[str] = []
        self._taken: set[str] = set()
        self._takers = 0
        self._is_held = False
        self._is_closed = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="strandline-topics", daemon=True)

    def start(self) -> None:
        """Fill the stock on a thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. Unused and used topics stay; `left` names them."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def left(self) -> list[str]:
        """The topics that exist still."""
        with self._changed:
            return [*self._stock, *self._used]

    def has_spare(self, topic: str) -> bool:
        """True for a topic of the stock that no running test uses."""
        return topic.startswith(f"{self._prefix}-") and topic not in self._taken

    def hold(self, is_held: bool) -> None:
        """The thread does nothing while a test breaks the cluster, unless a taker waits."""
        with self._changed:
            self._is_held = is_held
            self._changed.notify_all()

    def take(self, *, timeout_s: float = TAKE_S) -> str:
        """Returns a topic of the stock. Raises ClusterError if none can be created in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._takers += 1
            self._changed.notify_all()
            try:
                while not self._stock:
                    if self._is_closed or not self._changed.wait(deadline - time.monotonic()):
                        raise ClusterError(
                            f"no topic could be created within {timeout_s:g} s ({self._why()})"
                        ) from self._failure
                name = self._stock.popleft()
                self._taken.add(name)
                return name
            finally:
                self._takers -= 1

    def _why(self) -> str:
        if not port_is_free("127.0.0.1", 0):
            return (
                "no port is left for connections: end what holds them, or widen"
                " net.ipv4.ip_local_port_range"
            )
        return str(self._failure or "the cluster does not answer")

    def give_back(self, name: str) -> None:
        """The test that used the topic has ended."""
        with self._changed:
            self._taken.discard(name)
            self._used.append(name)
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next_work()) is not None:
            try:
                work()
                self._failure = None
            except Exception as why:  # noqa: BLE001 - reported by `take`; tried again
                self._failure = why
                time.sleep(_AGAIN_S)

    def _next_work(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._is_closed:
                wanted = not self._stock if self._is_held else len(self._stock) < LOW
                if wanted and (not self._is_held or self._takers > 0):
                    return self._fill
                if len(self._used) >= self._batch and not self._is_held:
                    return self._empty
                self._changed.wait()
        return None

    def _fill(self) -> None:
        names = [f"{self._prefix}-{self._next + i}" for i in range(self._batch)]
        self._next += self._batch  # also after a failure, which may have created some
        self._create(names)
        with self._changed:
            self._stock.extend(names)
            self._changed.notify_all()

    def _empty(self) -> None:
        with self._changed:
            names, self._used = self._used, []
        self._delete(names)

"""The futures that `send` returns, and the failures that the program has not seen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from strandline.errors import FlushFailed, describe
from strandline.types import RecordMetadata

if TYPE_CHECKING:
    from collections.abc import Generator

    from strandline.types import OnDelivery
    from strandline_runtime.runtime import Runtime

KEPT_MAX: Final = 1000
"""Failures whose futures are checked later; failures beyond this number count as unseen."""


class Waiter(Protocol):
    """The receiver of one record's outcome."""

    def settle(
        self, error: Exception | None, metadata: RecordMetadata | None, runtime: Runtime
    ) -> None: ...

    @property
    def is_told(self) -> bool:
        """True if the program sees a failure."""


def tell(
    on_delivery: OnDelivery,
    error: Exception | None,
    metadata: RecordMetadata | None,
    runtime: Runtime,
) -> None:
    """Calls the callback, and logs its error: the producer continues."""
    try:
        on_delivery(error, metadata)
    except Exception as defect:  # noqa: BLE001
        runtime.log.error("on_delivery raised", error=describe(defect))


class Acknowledgement(asyncio.Future[RecordMetadata]):
    """The future of one record, which notes if the program waits for it or has read it."""

    watched = False
    on_delivery: OnDelivery | None = None
    observer: OnDelivery | None = None
    """The interceptors; the program does not see a failure by them."""

    def result(self) -> RecordMetadata:
        self.watched = True
        return super().result()

    def exception(self) -> BaseException | None:
        self.watched = True
        return super().exception()

    def add_done_callback(self, *args: Any, **kwargs: Any) -> None:
        self.watched = True
        super().add_done_callback(*args, **kwargs)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self.watched = True
        return super().__await__()

    def settle(
        self, error: Exception | None, metadata: RecordMetadata | None, runtime: Runtime
    ) -> None:
        """Settles the future and calls the callback; a cancelled future only calls the callback."""
        if not self.done():
            if error is None:
                assert metadata is not None
                self.set_result(metadata)
            else:
                self.set_exception(error)
                super().exception()  # the library reports unseen errors itself
        if self.observer is not None:
            self.observer(error, metadata)
        if self.on_delivery is not None:
            tell(self.on_delivery, error, metadata, runtime)

    @property
    def is_told(self) -> bool:
        return self.on_delivery is not None or (self.watched and not self.cancelled())


class _Nobody:
    """The waiter of a record whose `send_many` has ended without a result."""

    is_told = False

    def settle(
        self, error: Exception | None, metadata: RecordMetadata | None, runtime: Runtime
    ) -> None: ...


_NOBODY: Final = _Nobody()


class Unheard:
    """Records that failed, and whose failure the program has not seen."""

    def __init__(self) -> None:
        self._kept: list[tuple[Waiter, Exception]] = []
        self._failed = self._unknown = 0
        """Beyond those kept."""

    def add(self, record: Waiter, error: Exception) -> None:
        if len(self._kept) < KEPT_MAX:
            self._kept.append((record, error))
        elif getattr(error, "may_have_been_written", False):
            self._unknown += 1
        else:
            self._failed += 1

    def add_all(self, error: Exception, count: int) -> None:
        """Adds records whose failure the program cannot see otherwise."""
        for _ in range(count):
            self.add(_NOBODY, error)

    def look(self) -> FlushFailed | None:
        """Returns the failures that the program has not seen so far."""
        errors = [error for record, error in self._kept if not record.is_told]
        unknown = sum(getattr(error, "may_have_been_written", False) for error in errors)
        failed = len(errors) - unknown + self._failed
        unknown += self._unknown
        if not errors and failed + unknown == 0:
            return None
        distinct = tuple(dict.fromkeys(errors or [self._kept[0][1]]))
        return FlushFailed(failed, unknown, distinct)

    def take(self) -> FlushFailed | None:
        """Returns and removes the unseen failures."""
        found = self.look()
        self._kept.clear()
        self._failed = self._unknown = 0
        return found

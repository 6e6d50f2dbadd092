"""What `send` gives back for a record, and the failures that nobody has heard of."""

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
"""Failures of which it is looked up later whether somebody has heard of them; the rest count."""


class Waiter(Protocol):
    """Whoever is to be told of one record."""

    def settle(
        self, error: Exception | None, metadata: RecordMetadata | None, runtime: Runtime
    ) -> None: ...

    @property
    def is_told(self) -> bool:
        """Whether somebody hears of a failure."""


def tell(
    on_delivery: OnDelivery,
    error: Exception | None,
    metadata: RecordMetadata | None,
    runtime: Runtime,
) -> None:
    """Call back; what the callback raises is the caller's fault, and the producer goes on."""
    try:
        on_delivery(error, metadata)
    except Exception as defect:  # noqa: BLE001
        runtime.log.error("on_delivery raised", error=describe(defect))


class Acknowledgement(asyncio.Future[RecordMetadata]):
    """The future of one record. It knows whether anybody waits for it or has looked at it."""

    watched = False
    on_delivery: OnDelivery | None = None

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
        """Tell whoever waits; a cancelled future tells its callback alone."""
        if not self.done():
            if error is None:
                assert metadata is not None
                self.set_result(metadata)
            else:
                self.set_exception(error)
                super().exception()  # the library says itself what nobody asked for
        if self.on_delivery is not None:
            tell(self.on_delivery, error, metadata, runtime)

    @property
    def is_told(self) -> bool:
        return self.on_delivery is not None or (self.watched and not self.cancelled())


class _Nobody:
    """Who waits for a record of a `send_many` that has ended without an answer."""

    is_told = False

    def settle(
        self, error: Exception | None, metadata: RecordMetadata | None, runtime: Runtime
    ) -> None: ...


_NOBODY: Final = _Nobody()


class Unheard:
    """Records that were not acknowledged, without anybody who waits for them."""

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
        """So many records of which nobody will be told otherwise."""
        for _ in range(count):
            self.add(_NOBODY, error)

    def look(self) -> FlushFailed | None:
        """What nobody has heard of to this moment."""
        errors = [error for record, error in self._kept if not record.is_told]
        unknown = sum(getattr(error, "may_have_been_written", False) for error in errors)
        failed = len(errors) - unknown + self._failed
        unknown += self._unknown
        if not errors and failed + unknown == 0:
            return None
        distinct = tuple(dict.fromkeys(errors or [self._kept[0][1]]))
        return FlushFailed(failed, unknown, distinct)

    def take(self) -> FlushFailed | None:
        """The same, to be told now."""
        found = self.look()
        self._kept.clear()
        self._failed = self._unknown = 0
        return found

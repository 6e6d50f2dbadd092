"""Produce requests that wait for the high watermark, or for the disk.

A waiter is finished exactly once (P-25), by one of these:

- The watermark, in the leader epoch of its append.
- The end of that leadership: the outcome is then unknown.
- Its own time limit.

Nothing here awaits, so no wake-up can be missed (P-66).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.core.replication.purgatory import AckWaiters
from strandline_proto.ids import Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline_proto.errors import WireError


class ProduceOutcome(NamedTuple):
    """The outcome of one batch. With an error, `appended` means that the outcome is unknown
    (I-21).
    """

    error: WireError | None = None
    base_offset: int = -1
    log_append_time_ms: int = -1
    """The leader's clock, if the records' timestamps come from it."""
    log_start_offset: int = -1
    leader_epoch: int = -1
    appended: bool = False


class AckWaiter:
    """One appended batch whose producer waits for an answer."""

    __slots__ = ("_on_done", "_purgatory", "outcome", "required_offset")

    def __init__(
        self,
        required_offset: int,
        outcome: ProduceOutcome,
        on_done: Callable[[ProduceOutcome], None],
        purgatory: AckPurgatory,
    ) -> None:
        self.required_offset = required_offset
        self.outcome = outcome
        self._on_done: Callable[[ProduceOutcome], None] | None = on_done
        self._purgatory = purgatory

    @property
    def is_done(self) -> bool:
        return self._on_done is None

    def succeed(self) -> None:
        self._finish(self.outcome)

    def give_up(self, error: WireError) -> None:
        """Finish the waiter, whose time limit ended first."""
        if not self.is_done:
            self.fail(error)
            self._purgatory.on_given_up()

    def fail(self, error: WireError) -> None:
        """Finish the waiter with an unknown outcome: the batch was appended, and may be lost."""
        self._finish(self.outcome._replace(error=error))

    def _finish(self, outcome: ProduceOutcome) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(outcome)


class AckPurgatory:
    """The waiters of one partition, by the offset that each needs.

    Waiters that have given up are dropped together, once they are half of all. So a thousand that
    give up one after the other, while the watermark stands still, cost a few passes and not a
    thousand.
    """

    __slots__ = ("_given_up", "_waiters")

    def __init__(self) -> None:
        self._waiters: AckWaiters[AckWaiter] = AckWaiters()
        self._given_up = 0
        """Number of kept waiters that have given up."""

    def add(
        self,
        required_offset: int,
        outcome: ProduceOutcome,
        on_done: Callable[[ProduceOutcome], None],
    ) -> AckWaiter:
        waiter = AckWaiter(required_offset, outcome, on_done, self)
        self._waiters.add(Offset(required_offset), waiter)
        return waiter

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def waiting(self) -> int:
        """Number of waiters without an answer."""
        return len(self._waiters) - self._given_up

    def first_offsets(self, count: int) -> list[int]:
        """The required offsets of the waiters that are released first, at most `count`."""
        lowest = self._waiters.lowest(count)
        return [offset for offset, waiter in lowest if not waiter.is_done]

    def waiters(self) -> list[AckWaiter]:
        return self._waiters.items()

    def release(self, end_offset: int) -> None:
        """Answer the producers that wait for offsets below `end_offset`."""
        for waiter in self._waiters.release(Offset(end_offset)):
            self._given_up -= waiter.is_done
            waiter.succeed()

    def fail_all(self, error: WireError) -> None:
        self._given_up = 0
        for waiter in self._waiters.drain():
            waiter.fail(error)

    def on_given_up(self) -> None:
        """Count a waiter that has its answer."""
        self._given_up += 1
        if 2 * self._given_up >= len(self._waiters):
            self._waiters.drop(lambda waiter: waiter.is_done)
            self._given_up = 0

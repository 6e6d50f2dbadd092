"""The life of one coordinator's shard on the broker that leads its partition.

`elected` requests a load of `[log start, end)`, where `end` is the log end at which the leader
began its epoch. After the replay the shard waits until the high watermark has reached `end`, and
then serves. Its answers are therefore never older than those of an earlier leader (I-101). A load
that another event has overtaken is dropped when it returns (I-111). A loss of the leadership, the
replica or an append discards the whole state (I-110).

Answers wait here for the high watermark: for the end of their batch, or for the last record about
their entity. A waiter for an entity continues to wait if the entity was written again meanwhile
(I-131). Waiters belong to one leadership, and only its own high watermark releases them (I-105).
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from strandline_broker.core.replication.purgatory import AckWaiters
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from strandline_proto.ids import UNKNOWN_EPOCH, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.core.coordination.decision import Entity
    from strandline_proto.errors import WireError
    from strandline_proto.ids import LeaderEpoch

Ticket = TypeVar("Ticket")


class ShardState(enum.Enum):
    INACTIVE = "inactive"
    LOADING = "loading"
    WAITING_HW = "waiting for the high watermark"
    ACTIVE = "active"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Load:
    """Replay the log's records below `end` into an empty state; the result is `loaded`."""

    epoch: LeaderEpoch
    end: Offset
    number: int
    """Number of the load, unique in its shard."""


@dataclass(frozen=True, slots=True)
class Serve:
    """Serve from now on: start the timers of the loaded state."""


@dataclass(frozen=True, slots=True)
class Drop(Generic[Ticket]):
    """Drop the state, timers and streams. These waiters get an error: the result of their request
    is unknown.
    """

    waiters: tuple[Ticket, ...]


@dataclass(frozen=True, slots=True)
class Release(Generic[Ticket]):
    """Answer these waiters: their records are committed."""

    waiters: tuple[Ticket, ...]


ShardEffect: TypeAlias = Load | Serve | Drop[Ticket] | Release[Ticket]


@dataclass(frozen=True, slots=True)
class _Waiter(Generic[Ticket]):
    ticket: Ticket
    entity: Entity | None
    """The entity that it waits for; None: it waits for its offset only."""


class Shard(Generic[Ticket]):
    """The shard of one partition of a coordinator's topic. Inputs return the effects to
    carry out.
    """

    def __init__(self) -> None:
        self.state = ShardState.INACTIVE
        self.epoch: LeaderEpoch = UNKNOWN_EPOCH
        """The highest leader epoch seen: of the present leadership, or of the last one."""
        self.log_end = Offset(0)
        """End of the log after everything that was loaded and appended."""
        self.high_watermark = Offset(0)
        self._start = Offset(0)
        self._loads = 0
        self._waiters: AckWaiters[_Waiter[Ticket]] = AckWaiters()
        self._written: dict[Entity, Offset] = {}
        """Entities whose last record is not committed yet, each with the offset after that
        record.
        """
        self._touched: deque[tuple[Offset, Entity]] = deque()

    def refusal(self) -> WireError | None:
        """The error for every call at present; None: the shard serves."""
        if self.state is ShardState.ACTIVE:
            return None
        if self.state in (ShardState.LOADING, ShardState.WAITING_HW):
            return CoordinatorLoadInProgress("the coordinator is loading; try again in a moment")
        if self.state is ShardState.FAILED:
            return CoordinatorNotAvailable(
                "the coordinator's log could not be loaded; the broker's own log says why"
            )
        return NotCoordinator("this broker does not coordinate it; ask for the coordinator again")

    # Changes of the partition

    def elected(self, epoch: LeaderEpoch, end: Offset) -> list[ShardEffect[Ticket]]:
        """Begin to lead from `epoch`, when the log ends at `end`. A call of `committed`, with the
        first high watermark, follows.
        """
        if epoch <= self.epoch:
            return []
        self.epoch = epoch
        # A follower's high watermark says nothing about the appends of this leadership (P-101).
        self.high_watermark = Offset(0)
        return [self._drop(), self._load(end)]

    def loaded(self, load: Load) -> list[ShardEffect[Ticket]]:
        """Record that everything below the load's end was replayed."""
        if not self.is_current(load):
            return []
        self.state = ShardState.WAITING_HW
        return self.committed(self.high_watermark)

    def load_failed(self, load: Load) -> list[ShardEffect[Ticket]]:
        """Record a failed load: a record of a known type does not parse, or the log cannot
        be read.
        """
        if not self.is_current(load):
            return []
        self.state = ShardState.FAILED
        return [self._drop()]

    def has_failed(self, load: Load) -> bool:
        """True if this load is the reason why the shard does not serve."""
        return self.state is ShardState.FAILED and load.number == self._loads

    def load_again(self, failed: Load) -> list[ShardEffect[Ticket]]:
        """Retry a failed load, whose data may be readable now."""
        return [self._load(failed.end)] if self.has_failed(failed) else []

    def is_current(self, load: Load) -> bool:
        """True if the load is still needed; a loader checks this after each wait."""
        return self.state is ShardState.LOADING and load.number == self._loads

    def committed(self, high_watermark: Offset) -> list[ShardEffect[Ticket]]:
        """Take the high watermark of this leadership, and release the waiters below it."""
        self.high_watermark = max(self.high_watermark, high_watermark)
        effects: list[ShardEffect[Ticket]] = []
        if self.state is ShardState.WAITING_HW and self.high_watermark >= self._start:
            self.state = ShardState.ACTIVE
            effects.append(Serve())
        if self.state is ShardState.ACTIVE:
            self._forget_committed()
            released = self._release()
            if released:
                effects.append(Release(released))
        return effects

    def appended(self, entities: Iterable[Entity], end: Offset) -> None:
        """Record that a batch about these entities is in the log, which now ends at `end`."""
        assert self.state is ShardState.ACTIVE, self.state
        assert end > self.log_end, (end, self.log_end)
        self.log_end = end
        for entity in entities:
            self._written[entity] = end
            self._touched.append((end, entity))

    def append_failed(self, log_end: Offset) -> list[ShardEffect[Ticket]]:
        """Load the log again, because the batch that was replayed is not in it (I-108)."""
        return [self._drop(), self._load(log_end)]

    def resigned(self, epoch: LeaderEpoch) -> list[ShardEffect[Ticket]]:
        """End the leadership of that epoch, or of an earlier one."""
        if epoch < self.epoch:
            return []
        self.epoch = epoch
        return self._end()

    def deleted(self) -> list[ShardEffect[Ticket]]:
        """Forget the deleted replica, of any epoch; a new one may begin with any epoch."""
        self.epoch = UNKNOWN_EPOCH
        return self._end()

    # Waiters

    def park(self, ticket: Ticket, entity: Entity | None) -> bool:
        """True if all records about the entity, or of the whole shard for None, are committed. If
        not, the ticket is kept until then.
        """
        required = self.log_end if entity is None else self._written.get(entity, Offset(0))
        if required <= self.high_watermark:
            return True
        self._waiters.add(required, _Waiter(ticket, entity))
        return False

    def park_until(self, ticket: Ticket, end: Offset) -> bool:
        """True if everything below `end` is committed; if not, the ticket is kept until then."""
        if end <= self.high_watermark:
            return True
        self._waiters.add(end, _Waiter(ticket, None))
        return False

    def is_committed(self, entity: Entity) -> bool:
        """True if all records about the entity are committed."""
        return self._written.get(entity, Offset(0)) <= self.high_watermark

    def forget(self, unwanted: Callable[[Ticket], bool]) -> None:
        """Remove tickets that need no answer any more."""
        self._waiters.drop(lambda waiter: unwanted(waiter.ticket))

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def first_waiters(self, count: int) -> list[tuple[Offset, Ticket]]:
        """The tickets that are released first, at most `count`, with the offsets they require."""
        return [(offset, waiter.ticket) for offset, waiter in self._waiters.lowest(count)]

    def _release(self) -> tuple[Ticket, ...]:
        released: list[Ticket] = []
        for waiter in self._waiters.release(self.high_watermark):
            if waiter.entity is None or self.park(waiter.ticket, waiter.entity):
                released.append(waiter.ticket)
        return tuple(released)

    def _forget_committed(self) -> None:
        """Keep `_written` no larger than the uncommitted records require."""
        while self._touched and self._touched[0][0] <= self.high_watermark:
            end, entity = self._touched.popleft()
            if self._written.get(entity) == end:
                del self._written[entity]

    def _load(self, end: Offset) -> Load:
        self.state = ShardState.LOADING
        self._loads += 1
        self._start = end
        self.log_end = end
        return Load(self.epoch, end, self._loads)

    def _end(self) -> list[ShardEffect[Ticket]]:
        if self.state is ShardState.INACTIVE:
            return []
        self.state = ShardState.INACTIVE
        return [self._drop()]

    def _drop(self) -> Drop[Ticket]:
        self._written.clear()
        self._touched.clear()
        return Drop(tuple(waiter.ticket for waiter in self._waiters.drain()))

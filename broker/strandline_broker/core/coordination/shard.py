"""The life of one coordinator's shard on the broker that leads its partition.

`elected` asks for a load of `[log start, end)`, where `end` is the log end at which the leader took
its epoch. With that replayed the shard waits until the high watermark has reached `end`, and serves
from then on: what it answers is never below what an earlier leader has answered (I-101). A load
that has been overtaken by whatever else happened is dropped when it comes back (I-111). Losing the
leadership, the replica or an append throws all of it away (I-110).

What a shard says waits here for the high watermark: an answer for the end of its batch, or for the
last record about whom it tells. Who waits for an entity goes on waiting if that was written again
meanwhile (I-131). Waiters belong to one leadership, and nothing but its own high watermark releases
them (I-105).
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
    """Replay the log's records below `end` into an empty state, and come back with `loaded`."""

    epoch: LeaderEpoch
    end: Offset
    number: int
    """No two loads of a shard have the same."""


@dataclass(frozen=True, slots=True)
class Serve:
    """The shard answers from now on: start the timers of what was loaded."""


@dataclass(frozen=True, slots=True)
class Drop(Generic[Ticket]):
    """Forget the state, timers and streams. These waiters hear that nobody knows what became of
    what they wait for.
    """

    waiters: tuple[Ticket, ...]


@dataclass(frozen=True, slots=True)
class Release(Generic[Ticket]):
    """What these waited for is committed."""

    waiters: tuple[Ticket, ...]


ShardEffect: TypeAlias = Load | Serve | Drop[Ticket] | Release[Ticket]


@dataclass(frozen=True, slots=True)
class _Waiter(Generic[Ticket]):
    ticket: Ticket
    entity: Entity | None
    """None: it waits for nothing but its offset."""


class Shard(Generic[Ticket]):
    """Of one partition of a coordinator's topic. Inputs answer with what is to be done."""

    def __init__(self) -> None:
        self.state = ShardState.INACTIVE
        self.epoch: LeaderEpoch = UNKNOWN_EPOCH
        """The highest that was heard of: of the leadership at hand, or of the last one."""
        self.log_end = Offset(0)
        """After what was loaded and appended."""
        self.high_watermark = Offset(0)
        self._start = Offset(0)
        self._loads = 0
        self._waiters: AckWaiters[_Waiter[Ticket]] = AckWaiters()
        self._written: dict[Entity, Offset] = {}
        """Of entities whose last record is not committed yet, the offset after it."""
        self._touched: deque[tuple[Offset, Entity]] = deque()

    def refusal(self) -> WireError | None:
        """What every call is told at present; None: the shard serves."""
        if self.state is ShardState.ACTIVE:
            return None
        if self.state in (ShardState.LOADING, ShardState.WAITING_HW):
            return CoordinatorLoadInProgress("the coordinator is loading; try again in a moment")
        if self.state is ShardState.FAILED:
            return CoordinatorNotAvailable(
                "the coordinator's log could not be loaded; the broker's own log says why"
            )
        return NotCoordinator("this broker does not coordinate it; ask for the coordinator again")

    # What happens to the partition

    def elected(self, epoch: LeaderEpoch, end: Offset) -> list[ShardEffect[Ticket]]:
        """This broker leads from `epoch` on, with `end` its log's end then; `committed` follows,
        with the high watermark that it begins with.
        """
        if epoch <= self.epoch:
            return []
        self.epoch = epoch
        # A follower's says nothing of what this leadership appends (P-101).
        self.high_watermark = Offset(0)
        return [self._drop(), self._load(end)]

    def loaded(self, load: Load) -> list[ShardEffect[Ticket]]:
        """All below its end has been replayed."""
        if not self.is_current(load):
            return []
        self.state = ShardState.WAITING_HW
        return self.committed(self.high_watermark)

    def load_failed(self, load: Load) -> list[ShardEffect[Ticket]]:
        """A record of a known type does not parse, or the log cannot be read."""
        if not self.is_current(load):
            return []
        self.state = ShardState.FAILED
        return [self._drop()]

    def has_failed(self, load: Load) -> bool:
        """Whether this load is why nothing is served."""
        return self.state is ShardState.FAILED and load.number == self._loads

    def load_again(self, failed: Load) -> list[ShardEffect[Ticket]]:
        """What this load could not read may be there now."""
        return [self._load(failed.end)] if self.has_failed(failed) else []

    def is_current(self, load: Load) -> bool:
        """Whether it is still asked for; a loader looks after each time that it waited."""
        return self.state is ShardState.LOADING and load.number == self._loads

    def committed(self, high_watermark: Offset) -> list[ShardEffect[Ticket]]:
        """The high watermark of this leadership."""
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
        """A batch about these is in the log, which ends there now."""
        assert self.state is ShardState.ACTIVE, self.state
        assert end > self.log_end, (end, self.log_end)
        self.log_end = end
        for entity in entities:
            self._written[entity] = end
            self._touched.append((end, entity))

    def append_failed(self, log_end: Offset) -> list[ShardEffect[Ticket]]:
        """The batch that was replayed is not in the log, which is to be loaded again (I-108)."""
        return [self._drop(), self._load(log_end)]

    def resigned(self, epoch: LeaderEpoch) -> list[ShardEffect[Ticket]]:
        """The leadership of that epoch, or an earlier one, is over."""
        if epoch < self.epoch:
            return []
        self.epoch = epoch
        return self._end()

    def deleted(self) -> list[ShardEffect[Ticket]]:
        """The replica is gone, whatever its epoch; one that is made anew may begin with any."""
        self.epoch = UNKNOWN_EPOCH
        return self._end()

    # Who waits

    def park(self, ticket: Ticket, entity: Entity | None) -> bool:
        """Whether all about the entity is committed, of the whole shard if it is None; if it is
        not, the ticket is kept until then.
        """
        required = self.log_end if entity is None else self._written.get(entity, Offset(0))
        if required <= self.high_watermark:
            return True
        self._waiters.add(required, _Waiter(ticket, entity))
        return False

    def park_until(self, ticket: Ticket, end: Offset) -> bool:
        """Whether all below `end` is committed; if it is not, the ticket is kept until then."""
        if end <= self.high_watermark:
            return True
        self._waiters.add(end, _Waiter(ticket, None))
        return False

    def is_committed(self, entity: Entity) -> bool:
        """Whether all about the entity is."""
        return self._written.get(entity, Offset(0)) <= self.high_watermark

    def forget(self, unwanted: Callable[[Ticket], bool]) -> None:
        """Nobody waits for these any more."""
        self._waiters.drop(lambda waiter: unwanted(waiter.ticket))

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def _release(self) -> tuple[Ticket, ...]:
        released: list[Ticket] = []
        for waiter in self._waiters.release(self.high_watermark):
            if waiter.entity is None or self.park(waiter.ticket, waiter.entity):
                released.append(waiter.ticket)
        return tuple(released)

    def _forget_committed(self) -> None:
        """Keep `_written` no larger than what waits to be committed."""
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

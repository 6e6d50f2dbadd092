"""The run's record of its transactions: what their producers have sent, asked and been told.

A value names its transaction by number, so that logs can be judged by it. Each answer to a producer
is written down when it is given; oracles compare it with the logs, then and at the end.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strandline.types import ConsumerRecord
    from strandline_proof.sim.cluster.world import World

Place = tuple[str, int]
"""A topic's name and a partition."""
OPEN: Final = "open"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
UNKNOWN: Final = "unknown"


class Producer(NamedTuple):
    """A producer's identity, as its coordinator has told it."""

    producer_id: int
    epoch: int
    raises_epoch: bool
    """True if each of its transactions has an epoch of its own (TV2)."""


@dataclass(slots=True)
class Attempt:
    """One transaction."""

    number: int
    transactional_id: str
    producer: Producer
    sent: dict[bytes, Place] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Offsets by value."""
    outcome: str = OPEN
    """The outcome that its producer was told."""


class Fence(NamedTuple):
    """A producer was told an epoch: nothing of a lower one is written after that."""

    producer: Producer
    ends: Mapping[Place, int]
    """The ends of all logs when it was told."""


@dataclass(slots=True)
class Life:
    """The records that one consumer was given, from the first offset on."""

    is_committed: bool
    """True if it reads committed records only."""
    given: dict[Place, list[tuple[int, bytes]]] = field(default_factory=dict)
    is_whole: bool = False
    """True if it has read to the end of all."""


class Ledger:
    def __init__(self, world: World) -> None:
        self.attempts: list[Attempt] = []
        self.fences: list[Fence] = []
        self.lives: list[Life] = []
        self.sometimes: Counter[str] = Counter()
        self.commits: dict[str, float] = {}
        """The time of the last acknowledged commit, by transactional id."""
        self.finish = False
        """True if nothing more is written, and readers read to the end."""
        self.log_ends: Callable[[], Mapping[Place, int]] = dict
        """Returns the greatest log end of any replica, by partition."""
        self.on_commit: Callable[[Attempt], None] = lambda attempt: None
        """Called when a commit is acknowledged."""
        self.on_given: Callable[[Place, int, bytes], None] = lambda place, offset, value: None
        """Called with each record that a reader of committed records is given."""
        self._world = world
        self._values = itertools.count()

    def begin(self, transactional_id: str, producer: Producer) -> Attempt:
        attempt = Attempt(len(self.attempts), transactional_id, producer)
        self.attempts.append(attempt)
        return attempt

    def value(self, attempt: Attempt, topic: str, partition: int, of: str = "") -> bytes:
        """A value that is sent once; `of`: the place of the record that it is a copy of."""
        value = f"{attempt.number} {next(self._values)} {of}".encode()
        attempt.sent[value] = topic, partition
        return value

    def opened(self, producer: Producer) -> None:
        """InitProducerId was answered."""
        self.fences.append(Fence(producer, dict(self.log_ends())))

    def committed(self, attempt: Attempt) -> None:
        attempt.outcome = COMMITTED
        self.sometimes["transaction committed"] += 1
        self.commits[attempt.transactional_id] = self._world.loop.now
        self.on_commit(attempt)

    def ended(self, attempt: Attempt, outcome: str) -> None:
        """Notes a transaction that was aborted, or whose outcome is not known."""
        attempt.outcome = outcome
        self.sometimes[f"transaction {outcome}"] += 1

    def begin_life(self, *, is_committed: bool) -> Life:
        life = Life(is_committed)
        self.lives.append(life)
        return life

    def given(self, life: Life, topic: str, partition: int, records: list[ConsumerRecord]) -> None:
        place = topic, partition
        for record in records:
            value = record.value or b""
            life.given.setdefault(place, []).append((record.offset, value))
            if life.is_committed:
                self.on_given(place, record.offset, value)

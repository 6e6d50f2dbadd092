"""Settings of a simulated cluster's clients: how they send, and how they read."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Any, Final

from strandline_proto.batch import SEQUENCE_MAX

CODECS: Final = ("none", "snappy", "lz4", "zstd")
"""Codecs of the clients; gzip is missing, as its output contains the time."""
BOUNDS: Final = {
    "burst": (1, 500),
    "linger_ms": (0, 10_000),
    "batch_bytes": (1, 1 << 20),
    "spread_ms": (-1, 1_000_000),
    "delivery_ms": (100, 1_000_000),
    "first_sequence": (0, SEQUENCE_MAX),
    "expiry_ms": (0, 1_000_000_000),
}
"""Least and greatest value of each number."""
BURSTS: Final = (5, 20, 60)
LINGERS_MS: Final = (0, 5, 50, 200)
BATCHES: Final = (300, 1500, 16 << 10, 256 << 10)
SPREADS_MS: Final = (-1, 0, 300)
DELIVERIES_MS: Final = (4000, 4000, 12_000)
BEFORE_WRAP_MAX: Final = 60
"""Records until a sequence restarts at 0: most producers reach that."""
EXPIRIES_MS: Final = (4000, 5000)
DELIVERIES_EXPIRING_MS: Final = (1000,) * len(DELIVERIES_MS)  # all other draws stay the same
"""Delivery timeouts with expiring producers. A producer must be forgotten later than the last
attempt of a batch can arrive, by a clock that runs fast: a later attempt is appended again. So it
must be in any cluster (`producer.id.expiration.ms` above `delivery.timeout.ms`). Messages stuck in
a stream that was given up come later still.
"""
SEEKS: Final = 0.3
LOOSE: Final = 0.2
EXPIRES: Final = 0.15
KAFKA: Final = 1 / 3
"""Probability of Kafka's protocol."""


class ImpossibleWork(ValueError):
    """Clients cannot be like that; the message says why."""


@dataclass(frozen=True, slots=True)
class Work:
    """The settings. Plans without one of them get its default."""

    burst: int = 1
    """Most records that a writer hands over at once."""
    linger_ms: int = 0
    batch_bytes: int = 256 << 10
    compression: str = CODECS[0]
    keyed: bool = False
    """True if records have keys, by which the library chooses their partitions."""
    spread_ms: int = -1
    """The range of the records' own times around the writer's clock; -1: the library sets the
    times.
    """
    delivery_ms: int = 4000
    first_sequence: int = 0
    """The first sequence of every idempotent producer in every partition and epoch."""
    expiry_ms: int = 0
    """Time after which brokers forget a producer, and writers pause for longer; 0: longer than any
    run.
    """
    lasting: bool = False
    """True if clients are never replaced: the same ones go on, and reach the end."""
    seeker: bool = False
    """True if a reader seeks, pauses, saves its position, and looks up offsets."""
    loose: bool = False
    """True if there is a topic whose producers use acks of 0 and 1."""
    kafka: bool = False
    """True if the writers and the reader of the main topic speak Kafka's protocol."""

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ImpossibleWork(f"{name}={value!r} is not a whole number from {low} to {high}")
        for name in ("keyed", "lasting", "seeker", "loose"):
            if type(getattr(self, name)) is not bool:
                raise ImpossibleWork(f"{name}={getattr(self, name)!r} is not true or false")
        if self.compression not in CODECS:
            raise ImpossibleWork(
                f"compression={self.compression!r} is not one of {', '.join(CODECS)}"
            )


def work_of(found: Any) -> Work:
    """The work as a plan names it, which a person may have written. Raises ImpossibleWork."""
    if isinstance(found, Work):
        return found
    known = [each.name for each in dataclasses.fields(Work)]
    if not isinstance(found, dict) or not set(found) <= set(known):
        raise ImpossibleWork(f"work={found!r} is not an object of {', '.join(known)}")
    return Work(**found)


def draw_work(seed: int) -> Work:
    """The work of a seed, from a random stream of its own: other draws of the seed do not depend on
    it.
    """
    rng = random.Random(f"work {seed}")
    has_bursts, wraps, expires = (rng.random() < share for share in (0.5, 0.25, EXPIRES))
    seeks = rng.random() < SEEKS
    work = Work(
        burst=rng.choice(BURSTS) if has_bursts else 1,
        linger_ms=rng.choice(LINGERS_MS) if has_bursts else 0,
        batch_bytes=rng.choice(BATCHES) if has_bursts else 256 << 10,
        compression=rng.choice(("none", *CODECS)) if has_bursts else CODECS[0],
        keyed=rng.random() < 0.5,
        spread_ms=rng.choice(SPREADS_MS[1:] if seeks else SPREADS_MS),
        delivery_ms=rng.choice(DELIVERIES_EXPIRING_MS if expires else DELIVERIES_MS),
        first_sequence=SEQUENCE_MAX - rng.randint(0, BEFORE_WRAP_MAX) if wraps else 0,
        expiry_ms=rng.choice(EXPIRIES_MS) if expires else 0,
        lasting=rng.random() < 0.7,
        seeker=seeks,
        loose=rng.random() < LOOSE,
    )
    if rng.random() < KAFKA:  # its clients are replaced after an error
        return dataclasses.replace(work, kafka=True, lasting=False)
    return work

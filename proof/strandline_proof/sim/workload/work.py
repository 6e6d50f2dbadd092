"""What the clients of a simulated cluster are like: how they send, and how they read."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Any, Final

from strandline_proto.batch import SEQUENCE_MAX

CODECS: Final = ("none", "snappy", "lz4", "zstd")
"""Not gzip: what it makes holds the time."""
BOUNDS: Final = {
    "burst": (1, 500),
    "linger_ms": (0, 10_000),
    "batch_bytes": (1, 1 << 20),
    "spread_ms": (-1, 1_000_000),
    "delivery_ms": (100, 1_000_000),
    "first_sequence": (0, SEQUENCE_MAX),
    "expiry_ms": (0, 1_000_000_000),
}
"""Least and most of each number."""
BURSTS: Final = (5, 20, 60)
LINGERS_MS: Final = (0, 5, 50, 200)
BATCHES: Final = (300, 1500, 16 << 10, 256 << 10)
SPREADS_MS: Final = (-1, 0, 300)
DELIVERIES_MS: Final = (4000, 4000, 12_000)
BEFORE_WRAP_MAX: Final = 60
"""Records until a sequence begins anew at 0: most producers come to that."""
EXPIRIES_MS: Final = (4000, 5000)
DELIVERIES_EXPIRING_MS: Final = (1000,) * len(DELIVERIES_MS)  # what else is drawn stays
"""Producers are forgotten later than the last attempt of a batch may arrive, by a clock that runs
fast: an attempt that comes after that is appended again. So it must be in any cluster
(`producer.id.expiration.ms` above `delivery.timeout.ms`), and what is stuck in a stream that was
given up comes later still.
"""
SEEKS: Final = 0.3
LOOSE: Final = 0.2
EXPIRES: Final = 0.15


class ImpossibleWork(ValueError):
    """No clients can be like that; the message says why."""


@dataclass(frozen=True, slots=True)
class Work:
    """The defaults are what plans have that do not speak of it."""

    burst: int = 1
    """Most records that a writer hands over at once."""
    linger_ms: int = 0
    batch_bytes: int = 256 << 10
    compression: str = CODECS[0]
    keyed: bool = False
    """Records have keys, by which the library chooses their partitions."""
    spread_ms: int = -1
    """Records have times of their own, so far around the writer's clock; -1: the library's."""
    delivery_ms: int = 4000
    first_sequence: int = 0
    """Of every idempotent producer in every partition and epoch."""
    expiry_ms: int = 0
    """After which brokers forget a producer, and writers pause for longer; 0: longer than any run.
    """
    lasting: bool = False
    """A client is never exchanged for a new one: the same ones go on, and reach the end."""
    seeker: bool = False
    """There is a reader that seeks, pauses, saves where it is, and asks for offsets."""
    loose: bool = False
    """There is a topic of which producers hear with acks of 0 and 1."""

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
    """As a plan has it that somebody may have written. Raises ImpossibleWork."""
    if isinstance(found, Work):
        return found
    known = [each.name for each in dataclasses.fields(Work)]
    if not isinstance(found, dict) or not set(found) <= set(known):
        raise ImpossibleWork(f"work={found!r} is not an object of {', '.join(known)}")
    return Work(**found)


def draw_work(seed: int) -> Work:
    """By a stream of its own: what else a seed draws does not depend on it."""
    rng = random.Random(f"work {seed}")
    has_bursts, wraps, expires = (rng.random() < share for share in (0.5, 0.25, EXPIRES))
    seeks = rng.random() < SEEKS
    return Work(
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

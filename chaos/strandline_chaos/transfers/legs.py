"""A transfer between two accounts: two records, each a delta, in one transaction.

An account belongs to one partition, so most transfers span two. The sum of all deltas is 0 wherever
each transfer is whole.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

AMOUNT_MAX: Final = 100
ABORTED_SHARE: Final = 0.1
"""Share of the transfers that their mover aborts on purpose."""
_WORDS: Final = 3


class CorruptLeg(Exception):
    """The bytes do not come from `Leg.encode`."""


class Leg(NamedTuple):
    """One record: the change of one account."""

    transfer: str
    account: int
    delta: int

    def encode(self) -> bytes:
        return f"{self.transfer} {self.account} {self.delta}".encode("ascii")


class Transfer(NamedTuple):
    """A transfer as a mover begins it; the mover says its outcome later."""

    name: str
    source: int
    target: int
    amount: int

    @property
    def legs(self) -> tuple[Leg, Leg]:
        return Leg(self.name, self.source, -self.amount), Leg(self.name, self.target, self.amount)


def decode_leg(payload: bytes | None) -> Leg:
    """The leg in a record's value. Raises CorruptLeg."""
    words = (payload or b"").decode("ascii", "replace").split(" ")
    try:
        if len(words) == _WORDS:
            leg = Leg(words[0], int(words[1]), int(words[2]))
            if leg.encode() == payload:
                return leg
    except (ValueError, UnicodeEncodeError):
        pass
    raise CorruptLeg(f"{(payload or b'')[:60]!r} is no leg of a transfer")


def partition_of(account: int, partitions: int) -> int:
    return account % partitions


class Mover:
    """The transfers of one mover, drawn from a seed."""

    def __init__(self, name: str, accounts: int, seed: int) -> None:
        self._name = name
        self._accounts = accounts
        self._rng = random.Random(f"{name} {seed}")
        self._count = 0

    def next(self) -> tuple[Transfer, bool]:
        """The next transfer, and whether it is to be aborted on purpose."""
        self._count += 1
        source, target = self._rng.sample(range(self._accounts), 2)
        amount = self._rng.randint(1, AMOUNT_MAX)
        transfer = Transfer(f"{self._name}-{self._count}", source, target, amount)
        return transfer, self._rng.random() < ABORTED_SHARE

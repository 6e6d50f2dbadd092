"""The transactions of a simulated cluster: their producers, and the loops that copy records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

LEDGER: Final = "ledger"
"""The topic of transactional producers, and the node of its readers."""
COPIES: Final = "copies"
"""The topic to which the loops copy each committed record of the other."""
COPIERS: Final = "copiers"
"""The group of the loops."""
OURS: Final = "ours"
"""A producer of the library: transactions with an epoch of their own (TV2)."""
KAFKA: Final = "kafka"
"""A scripted producer of Kafka frames, as librdkafka speaks (TV1)."""
PRODUCERS: Final = (OURS, KAFKA)
TELLERS_MAX: Final = 10
DECIDER: Final = "decider"
"""`decider-0` is the broker that leads the first partition of `__transaction_state`."""
KEEPER: Final = "keeper"
"""`keeper-0` is the broker that leads the first partition of the groups' offsets."""
TRANSACTION_ROLES: Final = (DECIDER, LEDGER, COPIES, KEEPER)
BOUNDS: Final = {
    "state_partitions": (1, 20),
    "partitions": (1, 20),
    "copiers": (0, 10),
    "timeout_ms": (100, 900_000),
}
DRAWN: Final = 0.2
"""The share of the seeds that have transactions."""
TIMEOUTS_MS: Final = (700, 1500, 4000)
"""Timeouts below, about and above what a fault lasts."""


class ImpossibleTransactions(ValueError):
    """Transactions cannot be like that; the message says why."""


@dataclass(frozen=True, slots=True)
class Transacting:
    tellers: tuple[str, ...] = (OURS, OURS)
    """The kind of each transactional producer."""
    copiers: int = 2
    """Loops that consume, transform and produce, in one group."""
    partitions: int = 2
    """Partitions of each of the two topics."""
    state_partitions: int = 2
    timeout_ms: int = 1500

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ImpossibleTransactions(
                    f"transactions: {name}={value!r} is not a whole number from {low} to {high}"
                )
        if not 1 <= len(self.tellers) <= TELLERS_MAX or not set(self.tellers) <= set(PRODUCERS):
            raise ImpossibleTransactions(
                f"tellers={self.tellers!r} are not 1 to {TELLERS_MAX} of {', '.join(PRODUCERS)}"
            )

    @property
    def teller_names(self) -> tuple[str, ...]:
        """Names of the producers' machines, which are their transactional ids too."""
        return tuple(f"teller-{number}" for number in range(len(self.tellers)))

    @property
    def copier_names(self) -> tuple[str, ...]:
        return tuple(f"copier-{number}" for number in range(self.copiers))


def transacting(found: Any) -> Transacting | None:
    """The transactions as a plan names them, which a person may have written. Raises
    ImpossibleTransactions.
    """
    if found is None or isinstance(found, Transacting):
        return found
    known = Transacting.__dataclass_fields__
    if not isinstance(found, dict) or not set(found) <= set(known):
        raise ImpossibleTransactions(
            f"transactions={found!r} is not null, nor an object of {', '.join(known)}"
        )
    fields = dict(found)
    if isinstance(fields.get("tellers"), list):
        fields["tellers"] = tuple(fields["tellers"])
    if not isinstance(fields.get("tellers", ()), tuple):
        raise ImpossibleTransactions(f"tellers={fields['tellers']!r} is not a list")
    return Transacting(**fields)


def draw_transactions(rng: random.Random) -> Transacting:
    return Transacting(
        tellers=rng.choice(((OURS,), (OURS, OURS), (OURS, KAFKA), (OURS, OURS, KAFKA))),
        copiers=rng.choice((0, 1, 2, 2)),
        partitions=rng.choice((1, 2, 3)),
        state_partitions=rng.choice((1, 2)),
        timeout_ms=rng.choice(TIMEOUTS_MS),
    )

"""The end marker of a transaction, as its coordinator asks a partition's leader to write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId

EPOCH_OF_ITS_OWN: Final = 2
"""First transaction version whose markers raise the producer's epoch (KIP-890)."""


@dataclass(frozen=True, slots=True)
class EndMarker:
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: LeaderEpoch
    """Leader epoch of the partition of `__transaction_state` that decided."""
    transaction_version: int
    """2: the marker's epoch is above that of the data. 0 and 1: it is equal, or above."""

    @property
    def raises_epoch(self) -> bool:
        return self.transaction_version >= EPOCH_OF_ITS_OWN

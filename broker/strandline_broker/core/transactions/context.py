"""The surroundings of decisions about transactional ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_proto.ids import NO_PRODUCER_ID

if TYPE_CHECKING:
    from strandline_broker.core.transactions.commands import Inputs
    from strandline_broker.core.transactions.settings import TransactionSettings
    from strandline_broker.core.transactions.transaction import Transaction
    from strandline_proto.ids import ProducerId


class NoProducerIdLeft(Exception):
    """The decision needs a producer id, and the host has none at hand."""


@dataclass(frozen=True, slots=True)
class Context:
    settings: TransactionSettings
    inputs: Inputs

    @property
    def now_ms(self) -> int:
        return self.inputs.wall_ms

    def new_producer_id(self) -> ProducerId:
        """Returns a producer id that no producer has. Raises NoProducerIdLeft."""
        found = self.inputs.take_producer_id()
        if found is None:
            raise NoProducerIdLeft
        return found

    def id_after_bump(self, transaction: Transaction) -> ProducerId:
        """Returns the id for the producer after its last epoch; -1 if the next is not the last."""
        return self.new_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID

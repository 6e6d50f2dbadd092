"""Questions of this broker's partitions to its own coordinator of transactions: the call that other
brokers make, without a network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.rpc.transactions.codec import added_from_wire, additions_to_wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.hosts.transactions.broker_calls import PartitionsToAdd, Results


class OwnCoordinator:
    def __init__(self, calls: Any) -> None:
        """`calls` serves AddPartitionsToTxn."""
        self._calls = calls

    async def __call__(self, transactions: Sequence[PartitionsToAdd]) -> Results:
        answer = await self._calls.AddPartitionsToTxn(additions_to_wire(transactions), None)
        return added_from_wire(transactions, answer)

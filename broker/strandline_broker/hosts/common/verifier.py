"""The verification of transactional writes: a partition's leader asks the coordinator of the
transactional id before the first batch of a transaction (KIP-890).

The protocol stands below all that ask. `hosts/transactions/verifying.py` asks the coordinators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from strandline_broker.hosts.common.fetch_messages import Key


class Verifier(Protocol):
    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tp: Key,
        *,
        verify_only: bool,
    ) -> asyncio.Future[None]:
        """Adds the partition (topic id, index) to the producer's transaction, or only verifies that
        it was added.

        The future ends when the coordinator's answer is durable there. It fails with the
        coordinator's WireError; ConcurrentTransactions is tried again until the asker cancels the
        future, which is the asker's deadline. What the answer says was true at some moment since
        the call, so the asker checks its own state again.
        """
        ...

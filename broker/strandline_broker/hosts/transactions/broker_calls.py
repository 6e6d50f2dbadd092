"""The calls of brokers to each other about transactions, as plain data.

`rpc/transactions/broker_client.py` carries them over the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from strandline_broker.core.addresses import Endpoint
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_proto.errors import WireError

    Results = list[list[WireError | None]]
    """For each element of the request, the result of each of its partitions, in order."""


class PartitionsToAdd(NamedTuple):
    """Partitions to add to one transaction, or to verify."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: Sequence[Key]


class MarkerToWrite(NamedTuple):
    """An end marker, and the partitions that need it."""

    marker: EndMarker
    partitions: Sequence[Key]


class BrokerCalls(Protocol):
    """A call that gets no answer raises NetworkException: its outcome is unknown."""

    async def add_partitions(
        self, broker: Endpoint, transactions: Sequence[PartitionsToAdd], *, timeout_s: float
    ) -> Results: ...

    async def write_markers(
        self, broker: Endpoint, markers: Sequence[MarkerToWrite], *, timeout_s: float
    ) -> Results: ...


if TYPE_CHECKING:
    AddHere = Callable[[Sequence[PartitionsToAdd]], Awaitable[Results]]
    """Adds or verifies partitions at the coordinator of this broker."""
    WriteHere = Callable[[Sequence[MarkerToWrite]], Awaitable[Results]]
    """Writes markers to partitions that this broker leads."""

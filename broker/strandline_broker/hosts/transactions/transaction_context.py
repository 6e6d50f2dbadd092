"""The parts that all shards of transactions share on a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from strandline_broker.core.transactions.commands import Inputs
from strandline_broker.core.transactions.transactions import Transactions
from strandline_broker.hosts.transactions.transaction_metrics import TransactionMetrics
from strandline_broker.hosts.transactions.transaction_settings import transaction_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from strandline_broker.config.transactions import TransactionCoordinatorConfig
    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.replication.end_marker import EndMarker
    from strandline_broker.hosts.coordination.shard_context import ShardContext
    from strandline_broker.hosts.transactions.transaction_metrics import Counted
    from strandline_proto.ids import LeaderEpoch, ProducerId, TopicId

Place = tuple["TopicId", int]
"""A partition, by its topic's id."""


class MarkerSender(Protocol):
    """The sender of markers to the leaders of partitions, for all shards of the broker."""

    def send(
        self,
        transactional_id: str,
        marker: EndMarker,
        partitions: Collection[Place],
        done: Callable[[Place], None],
    ) -> None:
        """Sends the marker to each partition until it is committed there. Calls `done` once for
        each: then, or when its topic's id is not in the metadata any more.
        """

    def cancel(self, transactional_id: str, coordinator_epoch: LeaderEpoch) -> None:
        """Sends no more for the id in that leadership."""


class NewProducerIds(Protocol):
    def take(self) -> ProducerId | None:
        """Returns a producer id that no producer has; None: there is none at hand."""

    async def have_some(self) -> None:
        """Gets some from the controller, if it can."""


class TransactionContext:
    def __init__(
        self,
        shared: ShardContext,
        config: TransactionCoordinatorConfig,
        metadata: MetadataCache,
        is_sure: Callable[[], bool],
        shards: Callable[[], Collection[Counted]],
        producer_ids: NewProducerIds,
        sender: MarkerSender,
    ) -> None:
        """`shards`: the present ones. `is_sure`: no other broker leads because the controller took
        this one for dead.
        """
        self.shared = shared
        self.metadata = metadata
        self.is_sure = is_sure
        self.settings = transaction_settings(config)
        self.timeout_s = config.offsets_commit_timeout_ms / 1000
        self.timers = shared.timers
        self.producer_ids = producer_ids
        self.sender = sender
        self.metrics = TransactionMetrics(shared.runtime.metrics, shards)

    def new_transactions(self) -> Transactions:
        return Transactions(self.settings)

    def inputs(self) -> Inputs:
        """Returns the inputs of a decision now."""
        return Inputs(
            wall_ms=self.shared.wall_ms(),
            take_producer_id=self.producer_ids.take,
            is_sure=self.is_sure(),
        )

"""The calls of transactions over Kafka's protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.groups.markers import write_marker
from strandline_broker.hosts.groups.txn_commits import TxnCommits
from strandline_broker.hosts.serving.producers.describe import ProducersService
from strandline_broker.hosts.serving.producers.markers import MarkersService
from strandline_broker.hosts.serving.transactions import TransactionsService
from strandline_broker.kafka.transactions.coordinator import TransactionCoordinatorCalls
from strandline_broker.kafka.transactions.describe import (
    DescribeProducersCalls,
    TransactionsInfoCalls,
)
from strandline_broker.kafka.transactions.markers import TxnMarkersCalls
from strandline_broker.kafka.transactions.offset_commits import TxnOffsetCommitCalls
from strandline_broker.kafka.transactions.producer_ids import ProducerIdsCalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.kafka.services import Services


def transaction_parts(services: Services) -> Iterable[Any]:
    metadata = services.metadata
    transactions = TransactionsService(
        services.runtime.clock, services.transactions, metadata, services.producer_ids
    )
    markers = MarkersService(services.replicas, metadata, partial(write_marker, services.shards))
    yield ProducerIdsCalls(services.producer_ids, transactions)
    yield TransactionCoordinatorCalls(transactions)
    yield TxnOffsetCommitCalls(TxnCommits(services.shards, services.verifier))
    yield TransactionsInfoCalls(transactions)
    yield DescribeProducersCalls(ProducersService(services.replicas, metadata), metadata)
    yield TxnMarkersCalls(markers, metadata)

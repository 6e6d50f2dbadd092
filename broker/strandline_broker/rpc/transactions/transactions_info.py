"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.transactions import open_since_ms
from strandline_broker.hosts.serving.turns import in_turns
from strandline_proto.errors import WireError
from strandline_proto.v1 import transactions_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView
    from strandline_broker.core.transactions.transaction import Transaction
    from strandline_broker.hosts.serving.transactions import TransactionsService


class TransactionsInfoRpc:
    def __init__(
        self, transactions: TransactionsService, metadata: MetadataCache, node_id: int
    ) -> None:
        self._transactions = transactions
        self._metadata = metadata
        self._node_id = node_id

    async def ListTransactions(
        self, request: transactions_pb2.ListTransactionsRequest, context: Any
    ) -> transactions_pb2.ListTransactionsResponse:
        try:
            found = await self._transactions.list_transactions(
                request.state_filters,
                request.producer_id_filters,
                duration_ms=request.duration_filter_ms,
                pattern=request.transactional_id_pattern,
            )
        except WireError as error:
            return transactions_pb2.ListTransactionsResponse(
                error_code=error.code, error_message=str(error)
            )
        response = transactions_pb2.ListTransactionsResponse(
            unknown_state_filters=found.unknown_states
        )
        if found.error is not None:
            response.error_code, response.error_message = found.error.code, str(found.error)
        async for name, transaction in in_turns(found.transactions):
            response.transactions.add(
                transactional_id=name,
                producer_id=transaction.producer_id,
                state=transaction.state.text,
            )
        return response

    async def DescribeTransactions(
        self, request: transactions_pb2.DescribeTransactionsRequest, context: Any
    ) -> transactions_pb2.DescribeTransactionsResponse:
        response = transactions_pb2.DescribeTransactionsResponse()
        found = self._transactions.describe_transactions(request.transactional_ids)
        async for name, transaction in found:
            told = response.transactions.add(
                transactional_id=name, coordinator_id=self._node_id, start_time_ms=-1
            )
            if isinstance(transaction, WireError):
                told.error_code, told.error_message = transaction.code, str(transaction)
                continue
            told.state = transaction.state.text
            told.timeout_ms = transaction.timeout_ms
            told.start_time_ms = open_since_ms(transaction)
            told.producer_id = transaction.producer_id
            told.producer_epoch = transaction.producer_epoch
            told.topics.extend(_topics(transaction, self._metadata.view))
        return response


def _topics(transaction: Transaction, view: MetadataView) -> Iterator[transactions_pb2.TxnTopic]:
    """The partitions by topic; a topic that is deleted has no id any more, and no partitions."""
    for name, found in groupby(transaction.partitions, lambda each: each.topic):
        topic_id = view.ids_by_name.get(name)
        if topic_id is not None:
            yield transactions_pb2.TxnTopic(
                topic_id=topic_id, partitions=[each.partition for each in found]
            )

"""The calls of transactions: of producers and administrators, and between brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.rpc.lazy_calls import LazyCalls, imported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.member.producer_ids import ProducerIds
    from strandline_broker.hosts.transactions.transaction_shard import TransactionShard
    from strandline_broker.rpc.records.producer_ids import ProducerIdsRpc
    from strandline_proto.v1 import metadata_pb2
    from strandline_runtime.runtime import Runtime


class TransactionCalls(LazyCalls):
    """The calls of clients on one listener, with InitProducerId of every producer."""

    EndTxn = imported("EndTxn")
    ListTransactions = imported("ListTransactions")
    DescribeTransactions = imported("DescribeTransactions")

    def __init__(
        self,
        runtime: Runtime,
        shards: Shards[TransactionShard],
        metadata: MetadataCache,
        producer_ids: ProducerIds,
        idempotent: ProducerIdsRpc,
        node_id: int,
    ) -> None:
        super().__init__(runtime, "transaction-calls-loading", self._handlers)
        self._shards = shards
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._idempotent = idempotent
        self._node_id = node_id

    async def InitProducerId(
        self, request: metadata_pb2.InitProducerIdRequest, context: Any
    ) -> metadata_pb2.InitProducerIdResponse:
        if not request.HasField("transactional_id"):
            return await self._idempotent.InitProducerId(request, context)
        found: metadata_pb2.InitProducerIdResponse
        found = await (await self.calls())["InitProducerId"](request, context)
        return found

    def _handlers(self) -> Iterable[Any]:
        from strandline_broker.hosts.serving.transactions import TransactionsService
        from strandline_broker.rpc.transactions.producers import TransactionProducersRpc
        from strandline_broker.rpc.transactions.transactions_info import TransactionsInfoRpc

        service = TransactionsService(
            self._runtime.clock, self._shards, self._metadata, self._producer_ids
        )
        return (
            TransactionProducersRpc(service),
            TransactionsInfoRpc(service, self._metadata, self._node_id),
        )


class CoordinatorCalls(LazyCalls):
    """The calls of partitions' leaders to the coordinator."""

    AddPartitionsToTxn = imported("AddPartitionsToTxn")

    def __init__(
        self,
        runtime: Runtime,
        shards: Shards[TransactionShard],
        metadata: MetadataCache,
        producer_ids: ProducerIds,
    ) -> None:
        super().__init__(runtime, "transaction-calls-loading", self._handlers)
        self._shards = shards
        self._metadata = metadata
        self._producer_ids = producer_ids

    def _handlers(self) -> Iterable[Any]:
        from strandline_broker.hosts.serving.transactions import TransactionsService
        from strandline_broker.rpc.transactions.add_partitions import AddPartitionsRpc

        service = TransactionsService(
            self._runtime.clock, self._shards, self._metadata, self._producer_ids
        )
        return (AddPartitionsRpc(service, self._metadata),)

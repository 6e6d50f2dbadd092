"""ListTransactions, DescribeTransactions, DescribeProducers and WriteTxnMarkers over Kafka's
protocol: what an administrator sees and ends (KIP-664).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.groups.markers import write_marker
from strandline_broker.hosts.serving.producers.describe import ProducersService
from strandline_broker.hosts.serving.producers.markers import MarkersService
from strandline_broker.hosts.serving.transactions import TransactionsService
from strandline_broker.kafka.transactions.describe import (
    DescribeProducersCalls,
    TransactionsInfoCalls,
)
from strandline_broker.kafka.transactions.markers import TxnMarkersCalls
from strandline_proto.errors import (
    InvalidProducerEpoch,
    InvalidRegularExpression,
    InvalidRequest,
    NotLeaderOrFollower,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from support.group_broker import ORDERS, group_broker
from support.kafka_calls import KafkaCalls
from support.transaction_broker import TIMEOUT_MS, transaction_broker
from support.transactional_broker import PRODUCER_ID, TransactionalProducer

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker
    from support.transaction_broker import TransactionBroker

OFFSETS = "__consumer_offsets"


def of_transactions(broker: TransactionBroker) -> KafkaCalls:
    service = TransactionsService(
        broker.txn.context.shared.runtime.clock,
        broker.transactions,
        broker.metadata,
        broker.ids,  # type: ignore[arg-type] # as far as the service needs it
    )
    return KafkaCalls(TransactionsInfoCalls(service))


def of_partitions(broker: GroupBroker) -> KafkaCalls:
    markers = MarkersService(broker.replicas, broker.metadata, partial(write_marker, broker.shards))
    producers = ProducersService(broker.replicas, broker.metadata)
    return KafkaCalls(
        DescribeProducersCalls(producers, broker.metadata),
        TxnMarkersCalls(markers, broker.metadata),
    )


@pytest.mark.parametrize("version", range(3))
async def test_transactions_are_listed_by_the_filters_of_the_version(
    tmp_path: Path, version: int
) -> None:
    async with transaction_broker(tmp_path) as broker:
        await broker.lead(1, isr=(1,))
        call = of_transactions(broker)
        opened = broker.begun(0, name="x")
        idle = broker.replicated(broker.init("y"))

        async def listed(**fields: Any) -> list[tuple[str, int, str]]:
            given = {"state_filters": [], "producer_id_filters": [], **fields}
            answer = await call("ListTransactions", version, **given)
            assert answer.error_code == 0
            return [
                (each.transactional_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ]

        first, second = ("x", opened.producer_id, "Ongoing"), ("y", idle.producer_id, "Empty")
        assert await listed() == [first, second]
        assert await listed(producer_id_filters=[idle.producer_id]) == [second]
        assert await listed(state_filters=["Ongoing"]) == [first]
        answer = await call(
            "ListTransactions", version, state_filters=["odd"], producer_id_filters=[]
        )
        assert (answer.unknown_state_filters, answer.transaction_states) == (["odd"], [])
        if version >= 1:
            assert await listed(duration_filter=60_000) == []
        if version >= 2:
            assert await listed(transactional_id_pattern="x|z") == [first]
            assert await listed(transactional_id_pattern=None) == [first, second]
            answer = await call(
                "ListTransactions",
                version,
                state_filters=[],
                producer_id_filters=[],
                transactional_id_pattern="(",
            )
            assert answer.error_code == InvalidRegularExpression.code


async def test_transactions_are_described_with_their_partitions(tmp_path: Path) -> None:
    async with transaction_broker(tmp_path) as broker:
        await broker.lead(1, isr=(1,))
        producer = broker.begun(0, 2, name="x")
        answer = await of_transactions(broker)(
            "DescribeTransactions", 0, transactional_ids=["x", "unknown"]
        )
        first, second = answer.transaction_states
        assert (first.error_code, first.transactional_id) == (0, "x")
        assert (first.transaction_state, first.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
        assert (first.producer_id, first.producer_epoch) == producer
        assert first.transaction_start_time_ms > 0
        assert [(topic.topic, topic.partitions) for topic in first.topics] == [(ORDERS, [0, 2])]
        assert (second.error_code, second.topics) == (TransactionalIdNotFound.code, [])


async def test_producers_of_partitions_are_described(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1, isr=(1,))
        producer = TransactionalProducer(broker)
        await producer.commit(5)
        answer = await of_partitions(broker)(
            "DescribeProducers",
            0,
            topics=[
                {"name": OFFSETS, "partition_indexes": [0]},
                {"name": ORDERS, "partition_indexes": [0]},
                {"name": "none", "partition_indexes": [3]},
            ],
        )
        (led,), (elsewhere,), (unknown,) = (topic.partitions for topic in answer.topics)
        (found,) = led.active_producers
        assert (led.error_code, led.error_message) == (0, None)
        assert (found.producer_id, found.producer_epoch) == (PRODUCER_ID, 0)
        assert (found.last_sequence, found.coordinator_epoch) == (0, -1)
        assert found.current_txn_start_offset == 0
        assert found.last_timestamp > 0
        assert elsewhere.error_code == NotLeaderOrFollower.code
        assert elsewhere.active_producers == []
        assert (unknown.partition_index, unknown.error_code) == (3, UnknownTopicOrPartition.code)
        assert "none" in unknown.error_message


async def write(call: KafkaCalls, version: int, **fields: Any) -> list[list[int]]:
    """The codes of each topic's partitions."""
    marker = {
        "producer_id": PRODUCER_ID,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": OFFSETS, "partition_indexes": [0]}],
        **fields,
    }
    answer = await call("WriteTxnMarkers", version, markers=[marker])
    (found,) = answer.markers
    assert found.producer_id == PRODUCER_ID
    return [[each.error_code for each in topic.partitions] for topic in found.topics]


@pytest.mark.parametrize("version", [1, 2])
async def test_an_administrator_aborts_a_hanging_transaction(tmp_path: Path, version: int) -> None:
    """Its marker has the epoch of the data, and passes through the group's shard."""
    async with group_broker(tmp_path) as broker:
        await broker.lead(1, isr=(1,))
        call, producer = of_partitions(broker), TransactionalProducer(broker)
        await producer.commit(5, epoch=1)
        topics = [
            {"name": "none", "partition_indexes": [0, 1]},
            {"name": OFFSETS, "partition_indexes": [0]},
        ]
        unknown = UnknownTopicOrPartition.code
        stale = InvalidProducerEpoch.code
        assert await write(call, version, topics=topics) == [[unknown, unknown], [stale]]
        assert broker.host.groups.table.pending
        refused = await write(call, version, producer_epoch=1, transaction_result=True)
        assert refused == [[InvalidRequest.code]], "only the coordinator commits"
        assert await write(call, version, producer_epoch=1, topics=topics) == [
            [unknown, unknown],
            [0],
        ]
        assert not broker.host.groups.table.pending
        found = await producer.fetch()
        assert (found.offset, found.error) == (-1, None)
        await producer.commit(6, epoch=1)
        await producer.end(epoch=2, coordinator_epoch=4)
        fenced = await write(call, version, producer_epoch=3)
        assert fenced == [[TransactionCoordinatorFenced.code]]
        assert (await producer.fetch()).offset == 6
        if version == 2:
            odd = await write(call, version, producer_epoch=3, transaction_version=9)
            assert odd[0][0] != 0

"""TxnOffsetCommit over Kafka's protocol in each version, and OffsetFetch of stable offsets."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.kafka.groups.offset_fetch import OffsetFetchCalls
from strandline_broker.kafka.transactions.offset_commits import TxnOffsetCommitCalls
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    WireError,
)
from support.group_broker import OFFSETS_ID, ORDERS, ORDERS_ID, GroupBroker, answered, group_broker
from support.kafka_calls import KafkaCalls
from support.scripted_verifier import ScriptedVerifier
from support.transactional_broker import PRODUCER_ID, PromptVerifier, TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

VERSIONS = range(6)
STABLE_SINCE = 7


class RefusingVerifier(ScriptedVerifier):
    def __init__(self, error: WireError) -> None:
        super().__init__()
        self.error = error

    def ask(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().ask(*args, **kwargs)
        answer.set_exception(self.error)
        return answer


@asynccontextmanager
async def leading(
    path: Path, verifier: ScriptedVerifier | None = None
) -> AsyncIterator[tuple[GroupBroker, KafkaCalls]]:
    async with group_broker(path) as broker:
        await broker.lead(1, isr=(1,))
        groups = GroupsService(broker.shards, verifier or PromptVerifier())
        yield broker, KafkaCalls(TxnOffsetCommitCalls(groups.txn_commits), OffsetFetchCalls(groups))


async def commit(
    call: KafkaCalls, version: int, *partitions: int, topic: str = ORDERS, **fields: Any
) -> list[int]:
    """The error code of each partition."""
    answer = await call(
        "TxnOffsetCommit",
        version,
        **{
            "transactional_id": "tx-a",
            "group_id": "g",
            "producer_id": PRODUCER_ID,
            "producer_epoch": 0,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": index,
                            "committed_offset": 5,
                            "committed_leader_epoch": 3,
                            "committed_metadata": None if index else "m",
                        }
                        for index in partitions
                    ],
                }
            ],
            **fields,
        },
    )
    assert [found.name for found in answer.topics] == [topic]
    found = [(each.partition_index, each.error_code) for each in answer.topics[0].partitions]
    assert [index for index, _ in found] == list(partitions)
    return [code for _, code in found]


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_are_pending_until_the_end(tmp_path: Path, version: int) -> None:
    """From version 5 on the shard adds its partition; before, the client has done so."""
    verifier = PromptVerifier()
    async with leading(tmp_path, verifier) as (broker, call):
        assert await commit(call, version, 0, 1, 9) == [0, 0, UnknownTopicOrPartition.code]
        (asked,) = verifier.asked
        assert (asked.tp, asked.verify_only) == ((OFFSETS_ID, 0), version < 5)
        assert asked.transactional_id == "tx-a"
        producer = TransactionalProducer(broker)
        assert isinstance((await producer.fetch()).error, UnstableOffsetCommit)
        await producer.end()
        found = await producer.fetch()
        assert (found.offset, found.metadata) == (5, "m")
        assert found.leader_epoch == (3 if version >= 2 else -1)
        assert (await producer.fetch(1)).metadata == ""
        unknown = UnknownTopicOrPartition.code
        assert await commit(call, version, 0, topic="none", producer_epoch=1) == [unknown]


@pytest.mark.parametrize("version", range(3, 6))
async def test_a_member_commits_with_its_present_epoch(tmp_path: Path, version: int) -> None:
    """KIP-447."""
    async with leading(tmp_path) as (broker, call):
        await answered(broker.beat("m", instance_id="i"))
        member: dict[str, Any] = {"member_id": "m", "generation_id": 1, "group_instance_id": "i"}
        assert await commit(call, version, 0, **member) == [0]
        stale: dict[str, Any] = member | {"generation_id": 0}
        assert await commit(call, version, 0, 1, **stale) == [IllegalGeneration.code] * 2
        unknown: dict[str, Any] = {"member_id": "x", "generation_id": 1}
        assert await commit(call, version, 0, **unknown) == [UnknownMemberId.code]
        assert await commit(call, version, 0) == [0], "one that names no member is not checked"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (ProducerFenced, [90] * 6),
        (InvalidProducerEpoch, [47] * 6),
        (InvalidTxnState, [48] * 6),
        (TransactionAbortable, [48] * 4 + [120] * 2),
        (ConcurrentTransactions, [CoordinatorNotAvailable.code] * 2 + [14] * 4),
        (CoordinatorLoadInProgress, [CoordinatorNotAvailable.code] * 2 + [14] * 4),
    ],
)
async def test_errors_of_the_transactions_coordinator(
    tmp_path: Path, version: int, error: type[WireError], codes: list[int]
) -> None:
    async with leading(tmp_path, RefusingVerifier(error("why"))) as (broker, call):
        assert await commit(call, version, 0, 1) == [codes[version]] * 2
        assert broker.partition.log.log_end_offset == 0


async def test_a_request_in_no_transaction_is_refused(tmp_path: Path) -> None:
    async with leading(tmp_path) as (_, call):
        assert await commit(call, 5, 0, transactional_id="") == [InvalidRequest.code]
        assert await commit(call, 5, 0, producer_id=-1) == [InvalidRequest.code]
        with pytest.raises(MalformedRequest, match="partitions"):
            await commit(call, 5, *range(10_001))


@pytest.mark.parametrize("version", range(1, 11))
async def test_stable_offsets_are_read_with_require_stable(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        await answered(broker.commit(3))
        producer = TransactionalProducer(broker)
        await producer.commit(5)
        name = {"topic_id": ORDERS_ID.hex()} if version >= 10 else {"name": ORDERS}
        one = [{**name, "partition_indexes": [0, 1]}]
        for topics in (one, None) if version >= 2 else (one,):
            fields: dict[str, Any] = {"group_id": "g", "topics": topics}
            if version >= 8:
                fields = {"groups": [fields]}
            if version >= STABLE_SINCE:
                fields["require_stable"] = True
            answer = await call("OffsetFetch", version, **fields)
            found = (answer.groups[0] if version >= 8 else answer).topics[0].partitions
            if version >= STABLE_SINCE:
                assert (found[0].error_code, found[0].committed_offset) == (88, -1)
            else:
                assert (found[0].error_code, found[0].committed_offset) == (0, 3)
            if topics is not None:
                assert (found[1].error_code, found[1].committed_offset) == (0, -1)

"""TxnOffsetCommit by gRPC: transactions with an epoch each (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.rpc.groups.offset_commits import OffsetCommitsRpc
from strandline_proto.errors import (
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    UnsupportedVersion,
)
from strandline_proto.v1 import committed_offsets_pb2, transactions_pb2
from support.group_broker import OFFSETS_ID, ORDERS_ID, answered, group_broker
from support.transactional_broker import PRODUCER_ID, PromptVerifier, TransactionalProducer

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker


def request(*partitions: int, group_id: str = "g") -> transactions_pb2.TxnOffsetCommitRequest:
    made = transactions_pb2.TxnOffsetCommitRequest(
        transactional_id="tx-a",
        group_id=group_id,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        generation_id_or_member_epoch=-1,
    )
    topic = made.topics.add(topic_id=ORDERS_ID)
    for partition in partitions:
        topic.partitions.add(
            partition=partition,
            committed_offset=5,
            committed_leader_epoch=3,
            committed_metadata="m",
        )
    return made


def rpc(b: GroupBroker) -> tuple[OffsetCommitsRpc, PromptVerifier]:
    verifier = PromptVerifier()
    return OffsetCommitsRpc(GroupsService(b.shards, verifier)), verifier


async def test_offsets_are_staged_and_read_after_the_end(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        calls, verifier = rpc(b)
        answer = await calls.TxnOffsetCommit(request(0, 9), None)
        assert (answer.error_code, len(answer.topics)) == (0, 1)
        assert [p.error_code for p in answer.topics[0].partitions] == [
            0,
            UnknownTopicOrPartition.code,
        ]
        (asked,) = verifier.asked
        assert (asked.transactional_id, asked.producer) == ("tx-a", (PRODUCER_ID, 0))
        assert (asked.tp, asked.verify_only) == ((OFFSETS_ID, 0), False)
        fetch = committed_offsets_pb2.OffsetFetchRequest(require_stable=True)
        fetch.groups.add(group_id="g", member_epoch=-1).topics.topics.add(
            topic_id=ORDERS_ID, partitions=[0]
        )
        unstable = (await calls.OffsetFetch(fetch, None)).groups[0].topics[0].partitions[0]
        assert unstable.error_code == UnstableOffsetCommit.code
        assert unstable.committed_offset == -1
        assert "ask again" in unstable.error_message
        await TransactionalProducer(b).end()
        found = (await calls.OffsetFetch(fetch, None)).groups[0].topics[0].partitions[0]
        assert (found.error_code, found.committed_offset) == (0, 5)
        assert (found.committed_leader_epoch, found.committed_metadata) == (3, "m")


async def test_a_refused_request_has_one_error(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        calls, _ = rpc(b)
        stale = request(0)
        stale.generation_id_or_member_epoch, stale.member_id = 2, "m"
        no_id, no_group, long = request(0), request(0, group_id=""), request(0)
        no_id.transactional_id = ""
        long.transactional_id = "x" * 40_000
        for refused, error in (
            (stale, IllegalGeneration),
            (no_id, InvalidRequest),
            (no_group, InvalidGroupId),
            (long, InvalidRequest),
        ):
            answer = await calls.TxnOffsetCommit(refused, None)
            assert answer.error_code == error.code
            assert answer.error_message
            assert not answer.topics


async def test_a_broker_without_coordinators_of_transactions_says_so(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        calls = OffsetCommitsRpc(GroupsService(b.shards))
        answer = await calls.TxnOffsetCommit(request(0), None)
        assert answer.error_code == UnsupportedVersion.code
        await answered(b.commit(5))
        assert b.partition.log.log_end_offset == 1

"""TxnOffsetCommit at the group's shard: its question to the transaction's coordinator, and what may
happen until the answer comes (I-157, I-158).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.coordination.decision import Producer
from strandline_broker.core.groups.commands import TxnOffsetCommit
from strandline_broker.hosts.groups.txn_commits import TxnCommits
from strandline_proto.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTxnState,
    NotCoordinator,
    ProducerFenced,
    TransactionAbortable,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import ProducerEpoch, ProducerId
from support.group_broker import OFFSETS_ID, answered, group_broker
from support.scripted_verifier import ScriptedVerifier
from support.transactional_broker import (
    PRODUCER_ID,
    TRANSACTIONAL_ID,
    PromptVerifier,
    TransactionalProducer,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("version", "verify_only"), [(1, True), (2, False)])
async def test_the_first_offsets_of_a_transaction_wait_for_its_coordinator(
    tmp_path: Path, version: int, verify_only: bool
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        first = producer.commit(5, version=version)
        await b.turns()
        (asked,) = producer.verifier.asked
        assert (asked.transactional_id, asked.producer) == (TRANSACTIONAL_ID, (PRODUCER_ID, 0))
        assert (asked.tp, asked.verify_only) == ((OFFSETS_ID, 0), verify_only)
        assert not first.done()
        assert b.partition.log.log_end_offset == 0
        producer.verifier.asked[0].answer.set_result(None)
        assert (await first).errors == (None,)
        await producer.commit(6, version=version)
        assert len(producer.verifier.asked) == 1, "it is open here"
        assert b.partition.log.log_end_offset == 2
        assert not b.host.guards


async def test_the_next_transaction_is_verified_again(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        for _ in range(2):
            await producer.commit(5)
            await producer.end()
        assert [asked.producer[1] for asked in producer.verifier.asked] == [0, 1]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InvalidProducerEpoch, InvalidProducerEpoch),
        (ProducerFenced, ProducerFenced),
        (TransactionAbortable, TransactionAbortable),
        (InvalidTxnState, InvalidTxnState),
        (ConcurrentTransactions, CoordinatorLoadInProgress),
        (NotCoordinator, CoordinatorLoadInProgress),
        (CoordinatorNotAvailable, CoordinatorLoadInProgress),
    ],
)
async def test_a_refusal_of_the_coordinator_leaves_nothing(
    tmp_path: Path, error: type[WireError], told: type[WireError]
) -> None:
    """A retriable error is none of the group's coordinator: the client asks this broker again."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        commit = producer.commit(5)
        await b.turns()
        producer.verifier.asked[0].answer.set_exception(error("why"))
        with pytest.raises(told, match="why"):
            await commit
        assert b.partition.log.log_end_offset == 0
        assert not b.host.guards
        assert not b.host.groups.table.pending


async def test_a_coordinator_that_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path, offsets_commit_timeout_ms="50") as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        with pytest.raises(CoordinatorLoadInProgress, match=r"0\.05 s"):
            await producer.commit(5)
        assert producer.verifier.asked[0].answer.cancelled()
        assert not b.host.guards


@pytest.mark.parametrize(
    ("version", "marker_epoch", "error"),
    [(2, 1, InvalidProducerEpoch), (1, 0, InvalidTxnState)],
)
async def test_a_marker_between_answer_and_append_refuses_the_offsets(
    tmp_path: Path, version: int, marker_epoch: int, error: type[WireError]
) -> None:
    """I-158: what they would open nobody would end (P-106)."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        commit = producer.commit(5, version=version)
        await b.turns()
        await producer.end(epoch=marker_epoch, version=version, is_commit=False)
        producer.verifier.asked[0].answer.set_result(None)
        with pytest.raises(error):
            await commit
        assert not b.host.groups.table.pending
        assert b.partition.log.log_end_offset == 1


async def test_calls_about_one_transaction_share_a_guard_and_fail_alone(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        first, second = producer.commit(5), producer.commit(6)
        await b.turns()
        assert len(b.host.guards) == 1
        producer.verifier.asked[0].answer.set_exception(
            CoordinatorNotAvailable("a lost connection")
        )
        with pytest.raises(CoordinatorLoadInProgress):
            await first
        producer.verifier.asked[1].answer.set_result(None)
        assert (await second).errors == (None,)
        assert not b.host.guards


async def test_a_cancelled_call_ends_its_question(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        commit = producer.commit(5)
        await b.turns()
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        assert producer.verifier.asked[0].answer.cancelled()
        assert not b.host.guards


async def test_an_answer_of_an_earlier_leadership_writes_nothing(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b, ScriptedVerifier())
        commit = producer.commit(5)
        await b.turns()
        await b.follow(2)
        await b.lead(3, isr=(1,))
        await b.serves()
        producer.verifier.asked[0].answer.set_result(None)
        with pytest.raises(NotCoordinator):
            await commit
        assert b.partition.log.log_end_offset == 0


async def test_a_member_that_is_fenced_until_the_answer_commits_nothing(tmp_path: Path) -> None:
    """KIP-447: the group decides after the answer, in the step that writes."""
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        await answered(b.beat("m"))
        producer = TransactionalProducer(b, ScriptedVerifier())
        commit = producer.commit(5, partition=3, member_id="m", member_epoch=1)
        await b.turns()
        await answered(b.beat("n"))
        await answered(b.beat("m", 1, owned={}))
        producer.verifier.asked[0].answer.set_result(None)
        (error,) = (await commit).errors
        assert isinstance(error, IllegalGeneration)
        assert "its epoch is 2" in str(error)
        assert not b.host.groups.table.pending


async def test_an_old_epoch_is_fenced_by_the_marker_of_a_newer_one(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        await producer.commit(5, epoch=3)
        await producer.end(epoch=4)
        written = b.partition.log.log_end_offset
        with pytest.raises(InvalidProducerEpoch):
            await producer.commit(6, epoch=3)
        assert b.partition.log.log_end_offset == written
        assert (await producer.fetch()).offset == 5


async def test_offsets_of_a_later_epoch_wait_for_the_end_of_the_open_transaction(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        await producer.commit(5, epoch=3)
        with pytest.raises(InvalidTxnState, match="still open"):
            await producer.commit(6, epoch=4)


async def test_too_many_offsets_for_a_batch_are_refused_and_the_shard_goes_on(
    tmp_path: Path,
) -> None:
    async with group_broker(tmp_path, message_max_bytes="100") as b:
        await b.lead(1, isr=(1,))
        producer = TransactionalProducer(b)
        groups = b.host.groups
        with pytest.raises(InvalidCommitOffsetSize):
            await producer.commit(5)
        assert b.host.groups is groups, "nothing was loaded again"
        assert not b.host.groups.table.pending


@pytest.mark.parametrize(
    ("transactional_id", "producer", "error"),
    [
        ("", (7, 0), InvalidRequest),
        ("t", (-1, 0), InvalidRequest),
        ("t", (7, -1), InvalidRequest),
    ],
)
async def test_a_commit_names_a_transaction(
    tmp_path: Path, transactional_id: str, producer: tuple[int, int], error: type[WireError]
) -> None:
    async with group_broker(tmp_path) as b:
        await b.lead(1, isr=(1,))
        commits = TxnCommits(b.shards, PromptVerifier())
        who = Producer(ProducerId(producer[0]), ProducerEpoch(producer[1]))
        command = TxnOffsetCommit(group_id="g", partitions=(), producer=who)
        with pytest.raises(error):
            await commits.commit(command, transactional_id, transaction_version=2)
        with pytest.raises(UnsupportedVersion):
            await TxnCommits(b.shards, None).commit(command, "t", transaction_version=2)

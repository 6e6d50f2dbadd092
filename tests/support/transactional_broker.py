"""Transactions at a broker that coordinates groups: a producer, and the transaction's coordinator
as the test plays it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline_broker.core.coordination.decision import Producer
from strandline_broker.core.groups.commands import (
    FetchOffsets,
    OffsetsFetched,
    PartitionCommit,
    TopicPartitionsRef,
    TopicRef,
    TxnOffsetCommit,
)
from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.groups.markers import write_marker
from strandline_broker.hosts.groups.txn_commits import TxnCommits
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId
from support.group_broker import OFFSETS_ID, ORDERS_ID, answered
from support.scripted_verifier import ScriptedVerifier

if TYPE_CHECKING:
    from strandline_broker.core.groups.commands import FetchedOffset, OffsetsCommitted
    from strandline_broker.hosts.common.fetch_messages import Key
    from support.group_broker import GroupBroker

PRODUCER_ID = ProducerId(7)
TRANSACTIONAL_ID = "tx-a"


class PromptVerifier(ScriptedVerifier):
    """Says yes at once."""

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tp: Key,
        *,
        verify_only: bool,
    ) -> asyncio.Future[None]:
        answer = super().ask(
            transactional_id, producer_id, producer_epoch, tp, verify_only=verify_only
        )
        answer.set_result(None)
        return answer


class TransactionalProducer:
    """A producer whose group is `g`, at broker 1."""

    def __init__(self, broker: GroupBroker, verifier: ScriptedVerifier | None = None) -> None:
        self.broker = broker
        self.verifier = verifier or PromptVerifier()
        self.commits = TxnCommits(broker.shards, self.verifier)
        self.epoch = 0

    def commit(
        self,
        offset: int,
        *,
        partition: int = 0,
        version: int = 2,
        epoch: int | None = None,
        member_id: str = "",
        member_epoch: int = -1,
    ) -> asyncio.Task[OffsetsCommitted]:
        """The commit as a task under way."""
        command = TxnOffsetCommit(
            group_id="g",
            partitions=(PartitionCommit(TopicRef(ORDERS_ID), partition, offset),),
            producer=Producer(PRODUCER_ID, ProducerEpoch(self.epoch if epoch is None else epoch)),
            member_id=member_id,
            member_epoch=member_epoch,
        )
        return asyncio.get_running_loop().create_task(
            self.commits.commit(command, TRANSACTIONAL_ID, transaction_version=version)
        )

    def end(
        self,
        *,
        is_commit: bool = True,
        epoch: int | None = None,
        coordinator_epoch: int = 1,
        version: int = 2,
    ) -> asyncio.Task[None]:
        """The transaction's marker as the coordinator sends it; the epoch rises with it (TV2)."""
        if epoch is None:
            self.epoch += version >= 2
            epoch = self.epoch
        marker = EndMarker(
            PRODUCER_ID, ProducerEpoch(epoch), is_commit, LeaderEpoch(coordinator_epoch), version
        )
        return asyncio.get_running_loop().create_task(
            write_marker(self.broker.shards, (OFFSETS_ID, 0), marker)
        )

    async def fetch(self, partition: int = 0, *, stable: bool = True) -> FetchedOffset:
        ref = TopicPartitionsRef(TopicRef(ORDERS_ID), (partition,))
        command = FetchOffsets(group_id="g", topics=(ref,), require_stable=stable)
        reply = await answered(self.broker.submit(command))
        assert isinstance(reply, OffsetsFetched), reply
        return reply.offsets[0]

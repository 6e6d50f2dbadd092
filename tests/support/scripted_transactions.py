"""The transaction calls of a scripted broker: one coordinator for all transactional ids, told by
tests to refuse, to lose answers and to be slow.

The rules are those of COORDINATION's tables for our protocol (TV2), in a few lines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc

from strandline_proto import errors as wire
from strandline_proto.batch import EndMarkerRecord, build_end_marker
from strandline_proto.v1 import metadata_pb2, transactions_pb2

if TYPE_CHECKING:
    from support.scripted_log import Partition


def end_marker(producer_id: int, producer_epoch: int, *, committed: bool) -> bytes:
    """The control batch that ends a transaction in one partition."""
    marker = EndMarkerRecord(committed, 0)
    return build_end_marker(producer_id, producer_epoch, marker, timestamp_ms=0)


@dataclass(frozen=True)
class Reply:
    """What the coordinator does with the next call instead of its duty."""

    code: int = 0
    carries_out: bool = False
    answers: bool = True
    """False: the stream breaks where the answer would be."""


@dataclass
class ScriptedTransaction:
    """One transactional id."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    partitions: list[Partition] = field(default_factory=list)
    pending: dict[str, dict[tuple[bytes, int], tuple[int, int, str]]] = field(default_factory=dict)
    """Offsets of groups."""


class Transactions:
    """What the scripted brokers know of transactions."""

    def __init__(self) -> None:
        self.coordinator = 1
        self.ids: dict[str, ScriptedTransaction] = {}
        self.ends: deque[Reply] = deque()
        self.inits: deque[Reply] = deque()
        self.offset_commits: deque[Reply] = deque()
        self.calls: list[str] = []
        self.held = asyncio.Event()
        """Cleared, every call waits."""
        self.held.set()
        self._next_id = 5000

    def init(self, name: str) -> tuple[int, int]:
        known = self.ids.get(name)
        if known is None:
            self._next_id += 1
            known = self.ids[name] = ScriptedTransaction(self._next_id, -1)
        elif known.state == "Ongoing":
            self._finish(known, committed=False)
        known.epoch += 1
        known.state = "Empty"
        return known.producer_id, known.epoch

    def add(self, name: str, producer_id: int, epoch: int) -> int:
        """Error code for a partition or group that asks to belong to the transaction."""
        known = self.ids.get(name)
        if known is None or known.producer_id != producer_id:
            return wire.InvalidProducerIdMapping.code
        if epoch != known.epoch:
            return wire.ProducerFenced.code
        known.state = "Ongoing"
        return 0

    def end(self, name: str, producer_id: int, epoch: int, committed: bool) -> int:
        known = self.ids.get(name)
        if known is None or known.producer_id != producer_id:
            return wire.InvalidProducerIdMapping.code
        if known.state == "Ongoing" and epoch == known.epoch:
            self._finish(known, committed=committed)
            return 0
        ended = "CompleteCommit" if committed else "CompleteAbort"
        if epoch == known.epoch - 1 and known.state == ended:
            return 0  # repeated
        if epoch != known.epoch:
            return wire.ProducerFenced.code
        if committed:
            return wire.InvalidTxnState.code
        self._finish(known, committed=False)
        return 0

    def _finish(self, known: ScriptedTransaction, *, committed: bool) -> None:
        known.epoch += 1
        known.state = "CompleteCommit" if committed else "CompleteAbort"
        for partition in known.partitions:
            partition.end_transaction(known.producer_id, known.epoch, committed=committed)
        known.partitions = []
        self.settled = known.pending if committed else {}
        known.pending = {}

    settled: dict[str, dict[tuple[bytes, int], tuple[int, int, str]]]

    def expire(self, name: str) -> None:
        """Aborts an ongoing transaction as its timeout does."""
        self._finish(self.ids[name], committed=False)


class ScriptedTransactions:
    cluster: Any
    awake: asyncio.Event
    id: int

    async def _scripted(self, call: str, replies: deque[Reply], context: Any) -> Reply:
        transactions: Transactions = self.cluster.transactions
        transactions.calls.append(call)
        await self.awake.wait()
        await transactions.held.wait()
        if transactions.coordinator != self.id:
            return Reply(wire.NotCoordinator.code)
        return replies.popleft() if replies else Reply(carries_out=True)

    @staticmethod
    async def _lose(reply: Reply, context: Any) -> None:
        if not reply.answers:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "lost by the script")

    async def init_transactional(self, request: Any, context: Any) -> Any:
        transactions: Transactions = self.cluster.transactions
        reply = await self._scripted("InitProducerId", transactions.inits, context)
        found = (-1, -1)
        if reply.carries_out:
            found = transactions.init(request.transactional_id)
        await self._lose(reply, context)
        return metadata_pb2.InitProducerIdResponse(
            error_code=reply.code,
            error_message="as scripted" if reply.code else "",
            producer_id=found[0],
            producer_epoch=found[1],
        )

    async def EndTxn(self, request: Any, context: Any) -> Any:
        transactions: Transactions = self.cluster.transactions
        what = "commit" if request.committed else "abort"
        reply = await self._scripted(what, transactions.ends, context)
        code = reply.code
        if reply.carries_out:
            code = transactions.end(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                request.committed,
            )
            self._settle_offsets(transactions)
        await self._lose(reply, context)
        known = transactions.ids.get(request.transactional_id)
        return transactions_pb2.EndTxnResponse(
            error_code=code,
            error_message="as scripted" if code else "",
            producer_id=-1 if known is None else known.producer_id,
            producer_epoch=-1 if known is None else known.epoch,
        )

    def _settle_offsets(self, transactions: Transactions) -> None:
        for group_id, offsets in getattr(transactions, "settled", {}).items():
            group = self.cluster.groups.group(group_id)
            group.offsets |= offsets
            group.commits.append({key: at[0] for key, at in offsets.items()})
        transactions.settled = {}

    async def TxnOffsetCommit(self, request: Any, context: Any) -> Any:
        transactions: Transactions = self.cluster.transactions
        reply = await self._scripted("offsets", transactions.offset_commits, context)
        answer = transactions_pb2.TxnOffsetCommitResponse(
            error_code=reply.code, error_message="as scripted" if reply.code else ""
        )
        if reply.carries_out:
            answer.error_code = self._stage(transactions, request)
        await self._lose(reply, context)
        if not answer.error_code:
            for topic in request.topics:
                results = answer.topics.add(topic_id=topic.topic_id)
                for p in topic.partitions:
                    results.partitions.add(partition=p.partition)
        return answer

    def _stage(self, transactions: Transactions, request: Any) -> int:
        group = self.cluster.groups.group(request.group_id)
        if request.member_id or request.generation_id_or_member_epoch >= 0:
            member = group.members.get(request.member_id)
            if member is None:
                return wire.UnknownMemberId.code
            if request.generation_id_or_member_epoch != member.epoch:
                return wire.IllegalGeneration.code
        code = transactions.add(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        if code:
            return code
        pending = transactions.ids[request.transactional_id].pending
        staged = pending.setdefault(request.group_id, {})
        for topic in request.topics:
            for p in topic.partitions:
                staged[topic.topic_id, p.partition] = (
                    p.committed_offset,
                    p.committed_leader_epoch,
                    p.committed_metadata,
                )
        return 0

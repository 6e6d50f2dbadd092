"""Commits of offsets in a producer's transaction: TxnOffsetCommit.

The partition of the group's shard takes part in the transaction like any other. So before its first
offsets the shard asks the transaction's coordinator, which adds the partition or, for clients that
add it themselves, verifies that it was added (I-157). A guard ties the answer to the question: the
offsets are written only if the transaction has not ended since (I-158). The group admits the commit
after the answer, in the step that writes it (KIP-447).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strandline_broker.core.groups.commands import OffsetsCommitted
from strandline_broker.core.replication.end_marker import EPOCH_OF_ITS_OWN
from strandline_broker.hosts.coordination.shard_host import FIRST_SEQUENCE
from strandline_proto.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    NotCoordinator,
    UnsupportedVersion,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.core.groups.commands import TxnOffsetCommit
    from strandline_broker.core.replication.verification import Guard
    from strandline_broker.hosts.common.verifier import Verifier
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.groups.group_shard import GroupShard

ADDED_BY_CLIENT: Final = EPOCH_OF_ITS_OWN - 1
"""Transaction version in which the client adds the partition (AddOffsetsToTxn)."""
ADDS_ITSELF: Final = EPOCH_OF_ITS_OWN
"""First transaction version in which the shard adds its partition to the transaction."""


class TxnCommits:
    def __init__(self, shards: Shards[GroupShard], verifier: Verifier | None) -> None:
        """`verifier` asks the coordinators of transactions; None: transactions are refused."""
        self._shards = shards
        self._verifier = verifier
        self._asking: Counter[Guard] = Counter()
        """The number of calls that wait for an answer under each guard."""

    async def commit(
        self, command: TxnOffsetCommit, transactional_id: str, *, transaction_version: int
    ) -> OffsetsCommitted:
        """Returns the result of each partition. Raises WireError.

        `transaction_version`: 2 if the shard adds its partition to the transaction, 1 if the client
        has added it.
        """
        if self._verifier is None:
            raise UnsupportedVersion("this broker asks no coordinator; unset transactional.id")
        if not transactional_id:
            raise InvalidRequest("transactional_id is empty; name the producer's transactional id")
        shard, producer = self._shards.of(command.group_id), command.producer
        if producer.producer_id < 0 or producer.producer_epoch < 0:
            raise InvalidRequest(
                f"producer_id is {producer.producer_id} and producer_epoch"
                f" {producer.producer_epoch}; both must be 0 or above, as InitProducerId gave them"
            )
        if shard.is_in_transaction(producer.producer_id, producer.producer_epoch):
            return await self._write(shard, command)
        adds = transaction_version >= ADDS_ITSELF
        with self._asks(shard, command, raises_epoch=adds) as guard:
            answer = self._verifier.ask(
                transactional_id,
                producer.producer_id,
                producer.producer_epoch,
                shard.shard.partition.key,
                verify_only=not adds,
            )
            epoch = shard.machine.epoch
            await _answered(answer, shard.context.timeout_s)
            if self._shards.of(command.group_id) is not shard or shard.machine.epoch != epoch:
                raise NotCoordinator(
                    f"{shard.shard.name}: the leadership in which the transaction was verified is"
                    " over; nothing was committed: try again"
                )
            verified = replace(command, producer=producer._replace(guard=guard))
            return await self._write(shard, verified)

    async def _write(self, shard: GroupShard, command: TxnOffsetCommit) -> OffsetsCommitted:
        reply = await shard.ask(command).answered()
        if isinstance(reply, WireError):
            raise reply
        assert isinstance(reply, OffsetsCommitted), reply
        return reply

    @contextmanager
    def _asks(
        self, shard: GroupShard, command: TxnOffsetCommit, *, raises_epoch: bool
    ) -> Iterator[Guard]:
        """Holds the guard of a question, which calls about the same transaction share."""
        guards, producer = shard.guards, command.producer
        guard = guards.take(
            producer.producer_id,
            producer.producer_epoch,
            FIRST_SEQUENCE,
            raises_epoch=raises_epoch,
        )
        self._asking[guard] += 1
        try:
            yield guard
        finally:
            self._asking[guard] -= 1
            if self._asking[guard] == 0:
                del self._asking[guard]
                guards.drop(guard)


async def _answered(answer: asyncio.Future[None], timeout_s: float) -> None:
    """Waits for the coordinator of the transaction. A retriable error says nothing about the
    coordinator of the group, so its caller only tries again.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await answer
    except TimeoutError as error:
        raise CoordinatorLoadInProgress(
            f"the coordinator of the transaction has not answered within {timeout_s:g} s; nothing"
            " was committed: try again"
        ) from error
    except WireError as error:
        if not error.retriable:
            raise
        raise CoordinatorLoadInProgress(
            f"the coordinator of the transaction: {error}; nothing was committed: try again"
        ) from error

"""A coordinator of transactions, as a partition's leader meets it: the test gives the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline_broker.hosts.replica.leading import check_leader
from support.producer_log import TRANSACTIONAL, idempotent_batch, with_attributes

if TYPE_CHECKING:
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_proto.errors import WireError


@dataclass
class Asked:
    transactional_id: str
    producer: tuple[int, int]
    tp: Key
    verify_only: bool
    answer: asyncio.Future[None]


@dataclass
class ScriptedVerifier:
    """Keeps the questions in order."""

    asked: list[Asked] = field(default_factory=list)

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tp: Key,
        *,
        verify_only: bool,
    ) -> asyncio.Future[None]:
        answer = asyncio.get_running_loop().create_future()
        producer = (producer_id, producer_epoch)
        self.asked.append(Asked(transactional_id, producer, tp, verify_only, answer))
        return answer

    @property
    def open(self) -> list[Asked]:
        return [each for each in self.asked if not each.answer.done()]

    async def answer(self, error: WireError | None = None) -> None:
        """Answers the oldest open question, and lets the answer arrive."""
        answer = self.open[0].answer
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
        await asyncio.sleep(0)


def transactional(sequence: int = 0, *values: bytes, producer_id: int = 7, epoch: int = 0) -> bytes:
    """A batch of a transaction, of one record if no values are given."""
    batch = idempotent_batch(producer_id, sequence, *(values or (b"v",)), producer_epoch=epoch)
    return with_attributes(batch, TRANSACTIONAL)


def waiting(partition: Partition) -> int:
    """The number of batches that wait for a coordinator."""
    return len(check_leader(partition, None).appends.unverified)

"""Builds a producer's partition queue and moves it along, for the tests of its cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline._core.backoff import Backoff
from strandline._core.chosen_queue import ChosenQueue
from strandline._core.delivery_terms import Answer, Identity, QueueOptions
from strandline._core.partition_queue import PartitionQueue
from strandline_proto.batch import check_batch

if TYPE_CHECKING:
    from strandline._core.producer_batch import ProducerBatch

DONE = Answer(0, "", True, 100, 3)

if TYPE_CHECKING:
    from strandline._core.producer_batch import ProducerBatch


def make(
    *,
    idempotent: bool = True,
    linger_ms: float = 0,
    max_in_flight: int = 5,
    chosen: Identity | None = None,
) -> PartitionQueue:
    options = QueueOptions(
        acks=-1 if idempotent else 1,
        idempotent=idempotent,
        max_in_flight=max_in_flight,
        linger_ms=linger_ms,
        batch_size=1000,
        compression=0,
        delivery_timeout_ms=1000,
    )
    if chosen is not None:
        return ChosenQueue("orders", b"i" * 16, 0, options, Backoff(), identity=chosen)
    queue = PartitionQueue("orders", b"i" * 16, 0, options, Backoff())
    if idempotent:
        queue.on_identity(Identity(9, 0))
    return queue


def add(queue: PartitionQueue, now_ms: float = 0, *, records: int = 1) -> ProducerBatch:
    """One closed batch of so many records."""
    batch = queue.open_batch(now_ms)
    for _ in range(records):
        batch.append(batch.count, 0, None, b"v", [])
        batch.count += 1
    queue.close_open()
    return batch


def take(queue: PartitionQueue, now_ms: float = 0) -> ProducerBatch:
    batch = queue.take(now_ms)
    assert batch is not None
    return batch


def sequence(batch: ProducerBatch) -> tuple[int, int]:
    header = check_batch(batch.data)
    return header.producer_epoch, header.base_sequence


def refuse(
    queue: PartitionQueue, batch: ProducerBatch, code: int, *, appended: bool = False
) -> list[tuple[ProducerBatch, Exception | None]]:
    answer = Answer(code, "why", appended)
    return queue.on_answer(batch, batch.attempt, answer, now_ms=0, chance=0)

"""Whole batches through a producer: the caller decides which records form a batch.

A repeated job sends the same batches again, under an identity of its own that is the same each
time. Their sequence numbers are then the same too, and a leader that has the batches does not
append them twice (I-55).

Nothing here depends on time. Batches are neither joined nor split. After the first failure nothing
more is sent, since a later batch would take the numbers of the failed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._core.backoff import Backoff
from strandline._core.chosen_queue import ChosenQueue
from strandline.errors import ConfigurationError, UnknownTopicOrPartition
from strandline.producer import sender_of
from strandline_proto.batch import HEADER_SIZE
from strandline_proto.ids import CHOSEN_PRODUCER_IDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline._core.delivery_terms import Identity
    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.producer_batch import ProducerBatch
    from strandline.producer import Producer
    from strandline.types import Headers

EPOCH_MAX: Final = 2**15 - 1
_FRAME_BYTES: Final = 16
"""Bytes that a record's lengths and deltas may take beyond `size_of`."""

Row = tuple[int, "bytes | None", "bytes | None", "Headers"]
"""Timestamp in milliseconds, key, value, headers."""


class Topic(NamedTuple):
    """A topic at the time of its first use."""

    name: str
    topic_id: bytes
    partitions: int


class Batches:
    """Sends batches through a started producer, which sends no other records meanwhile."""

    def __init__(self, producer: Producer) -> None:
        self._sender, self._hand_over = sender_of(producer)
        if self._sender.transaction is not None:
            raise ConfigurationError(
                "batches have identities of their own: give a producer without a transactional_id"
            )
        self.size_of = self._hand_over.size_of
        """Bytes of one record (topic, value, key, headers). Raises RecordTooLarge."""
        self.acknowledged = 0
        self._error: Exception | None = None

    async def topic(self, name: str) -> Topic:
        """Returns the topic of this name. Raises UnknownTopicOrPartition."""
        view = await self._hand_over.topic(name)
        return Topic(name, view.topic_id, len(view.partitions))

    async def send(
        self,
        topic: Topic,
        partition: int,
        rows: Sequence[Row],
        size: int,
        identity: Identity | None = None,
    ) -> None:
        """Hands over one batch of `size` bytes at most, the next of its partition.

        Waits only for room in the producer's buffer. All batches of a partition must have the same
        identity; with one, the first batch has sequence 0. Raises the error of an earlier batch,
        and TopicRecreated or UnknownTopicOrPartition if the topic has changed.
        """
        sender = self._sender
        _check(topic, partition, identity, is_idempotent=sender.options.idempotent)
        if sender.buffered + size > sender.buffer_memory:
            await self._hand_over.room(size)
        self._hand_over.require()
        self._raise_failure()
        view = sender.cluster.view.topics.get(topic.name)
        if view is None or view.topic_id != topic.topic_id:
            raise sender.why_gone(topic.name)
        queue = self._queue(topic, partition, identity)
        batch = queue.new_batch(sender.now_ms(), HEADER_SIZE + size + _FRAME_BYTES * len(rows))
        append = batch.append
        for index, (time_ms, key, value, headers) in enumerate(rows):
            taken = append(index, time_ms, key, value, list(headers))
            assert taken is not None, (index, len(rows), size)
        batch.count = len(rows)
        batch.reserved = size
        batch.collectors.append((0, len(rows), self))
        sender.buffered += size
        queue.ready.append(batch)
        sender.dispatch(queue)

    def _queue(self, topic: Topic, partition: int, identity: Identity | None) -> PartitionQueue:
        sender, key = self._sender, (topic.topic_id, partition)
        if identity is not None and key not in sender.queues:
            sender.queues[key] = ChosenQueue(
                topic.name, *key, sender.options, Backoff(), identity=identity
            )
        return sender.queue(topic.name, *key)

    async def finish(self) -> int:
        """Waits for every batch; returns the number of acknowledged records.

        Raises the error of a failed batch.
        """
        await self._sender.flush()
        self._raise_failure()
        return self.acknowledged

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    def on_batch(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        first: int,
        count: int,
        error: Exception | None,
    ) -> None:
        if error is None:
            self.acknowledged += count
        elif self._error is None:
            self._error = error


def _check(topic: Topic, partition: int, identity: Identity | None, *, is_idempotent: bool) -> None:
    if not 0 <= partition < topic.partitions:
        raise UnknownTopicOrPartition(
            f"topic {topic.name!r} has {topic.partitions} partitions; there is no {partition}"
        )
    if identity is None:
        return
    if not is_idempotent:
        raise ConfigurationError("an identity needs a producer with enable_idempotence")
    if identity.producer_id not in CHOSEN_PRODUCER_IDS:
        raise ConfigurationError(
            f"producer id {identity.producer_id} may belong to another producer; those from"
            f" {CHOSEN_PRODUCER_IDS.start} on are there to be chosen"
        )
    if not 0 <= identity.producer_epoch <= EPOCH_MAX:
        raise ConfigurationError(
            f"producer epoch {identity.producer_epoch} is not one from 0 to {EPOCH_MAX}"
        )

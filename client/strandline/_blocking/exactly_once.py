"""Consume, transform, produce with the blocking clients.

The steps are those of the asynchronous form. Each of its coroutines calls blocking clients here, so
it never waits, and ends in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from strandline.exactly_once import Steps, check_clients
from strandline.types import Key, Value

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType
    from typing import Self

    from strandline._blocking.consumer import Consumer
    from strandline._blocking.producer import Producer
    from strandline._core.transaction_state import TransactionState
    from strandline._reading.positions import Taken
    from strandline.exactly_once import Found
    from strandline.types import ConsumerRecord, TopicPartition

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError(f"{coroutine} waits for a loop")


class _BlockingClients:
    def __init__(self, consumer: Consumer[Any, Any], producer: Producer[Any, Any]) -> None:
        self._consumer = consumer
        self._producer = producer

    @property
    def state(self) -> TransactionState:
        return self._producer._run(
            lambda twin: twin._transacting("ConsumeTransformProduce")[0].state
        )

    def note(self, text: str, error: str) -> None:
        self._producer._run(lambda twin: twin._parts()[0].runtime.log.info(text, error=error))

    async def poll(self, max_records: int | None) -> tuple[Found, Taken]:
        found = self._consumer.getmany(timeout_ms=None, max_records=max_records)
        return found, self._consumer._run(lambda twin: twin._taken(found))

    async def still_has(self, taken: Taken) -> bool:
        return self._consumer._run(lambda twin: twin._still_has(taken))

    async def give_back(self, taken: Taken) -> None:
        self._consumer._call(lambda twin: twin._return(taken))

    async def begin(self) -> None:
        self._producer.begin_transaction()

    async def send_offsets(self, taken: Taken) -> None:
        metadata = self._consumer.group_metadata()
        self._producer.send_offsets_to_transaction(taken.offsets, metadata)

    async def commit(self) -> None:
        self._producer._call(lambda twin: twin._ending().commit())

    async def abort(self, error: BaseException | None) -> None:
        self._producer._call(lambda twin: twin._ending().abort(error))


class TransactionalBatch(Generic[Key, Value]):
    """Records of one poll, and the transaction of what is made of them.

    `with batch as records` begins the transaction and returns the records. The end of the block
    sends the offsets and commits; an error in the block aborts. After an abort, the consumer
    returns to the committed offsets, and the records come again.
    """

    def __init__(self, steps: Steps, found: Found, taken: Taken) -> None:
        self._steps = steps
        self._taken = taken
        self.by_partition: Mapping[TopicPartition, list[ConsumerRecord[Key, Value]]] = found
        self.is_committed: bool | None = None
        """None until the block has ended; False after an abort, by a rebalance for example."""

    @property
    def records(self) -> list[ConsumerRecord[Key, Value]]:
        """All records, partition by partition."""
        return [record for records in self.by_partition.values() for record in records]

    def __enter__(self) -> list[ConsumerRecord[Key, Value]]:
        at_once(self._steps.begin())
        return self.records

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_committed = at_once(self._steps.end(self._taken, error))


class ConsumeTransformProduce(Generic[Key, Value]):
    """The blocking form of `strandline.ConsumeTransformProduce`; an iterator."""

    def __init__(
        self,
        consumer: Consumer[Key, Value],
        producer: Producer[Any, Any],
        *,
        max_records: int | None = None,
    ) -> None:
        check_clients(consumer._twin, producer._twin)
        self._steps = Steps(_BlockingClients(consumer, producer), max_records)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TransactionalBatch[Key, Value]:
        return TransactionalBatch(self._steps, *at_once(self._steps.next()))

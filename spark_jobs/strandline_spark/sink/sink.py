"""The `strandline` sink for Spark: the code of its tasks, and of the driver.

A streaming batch that runs again writes nothing twice: each task chooses the same producer id and
epoch as before, and sends the same batches. A batch write has no number that stays the same in the
next run. So its tasks get an id from a broker, and a retried task writes its rows again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from strandline.batches import Batches
from strandline.errors import (
    InvalidProducerEpoch,
    OutOfOrderSequenceNumber,
    StrandlineError,
    describe,
)
from strandline_spark.errors import EnvironmentProblem, WriteFailed
from strandline_spark.sink.batches import Cutter, chosen_identity
from strandline_spark.sink.options import Guarantee
from strandline_spark.sink.rows import Rows
from strandline_spark.source.later_names import DataSourceStreamArrowWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strandline.batches import Topic
    from strandline_spark.sink.batches import Cut
    from strandline_spark.sink.options import SinkOptions

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
_END: Final = object()
_logger = logging.getLogger(__name__)
_WHY_OUT_OF_ORDER: Final = (
    "the rows of this micro-batch do not go on where those of its first run ended: the number of"
    " tasks, the order of the rows, batch.size or the topic's max.message.bytes is another now, or"
    " the brokers have forgotten the producer (producer.id.expiration.ms). Make it what it was, or"
    " set deliveryGuarantee=at-least-once, with which a rerun writes its rows again"
)
_WHY_FENCED: Final = (
    "a later micro-batch of this query has been written already, and nothing of this one is added:"
    " another driver runs the query, or its checkpoint was set back. Stop the other one, or begin"
    " with a new checkpoint"
)


@dataclass(frozen=True, slots=True)
class Task:
    """The identity of this task and its run. Without a query, a retry writes its rows again."""

    number: int
    attempt: int
    query_id: str | None = None
    batch_id: int = 0


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The rows that one task has written, all acknowledged."""

    records: int
    attempt: int


class StrandlineWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(self.options, iterator, _task())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        again = [one for one in messages if isinstance(one, Written) and one.attempt > 0]
        if again:
            _logger.warning(
                "%d of %d tasks were tried again: rows of their earlier attempts may be in the"
                " topic twice",
                len(again),
                len(messages),
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _logger.warning(
            "the write has failed; what its tasks had written is in the topic, and will be there"
            " twice if it is run again"
        )


class StrandlineStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query.

    The rows of its tasks are in the log before Spark's commit. If that commit does not happen, the
    leaders recognize the rows in the rerun.
    """

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = _task(is_repeatable=self.options.guarantee is not Guarantee.AT_LEAST_ONCE)
        return write_rows(self.options, iterator, task)


def _task(*, is_repeatable: bool = False) -> Task:
    """Returns the task of this process. Raises EnvironmentProblem if Spark does not name it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise EnvironmentProblem("the sink writes in tasks of Spark, and this is none")
    number, attempt = context.partitionId(), context.attemptNumber()
    if not is_repeatable:
        return Task(number, attempt)
    query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if not query_id or not batch_id:
        raise EnvironmentProblem(
            f"Spark does not tell its tasks {QUERY_ID} and {BATCH_ID}, without which a rerun is not"
            " known again: set deliveryGuarantee=at-least-once"
        )
    return Task(number, attempt, query_id, int(batch_id))


def write_rows(options: SinkOptions, iterator: Iterator[Any], task: Task) -> Written:
    """Writes all rows of one task and waits for their acknowledgement. Raises WriteFailed."""
    try:
        return Written(asyncio.run(_write(options, iterator, task)), task.attempt)
    except InvalidProducerEpoch as error:
        raise WriteFailed(f"task {task.number}: {_WHY_FENCED} ({describe(error)})") from error
    except OutOfOrderSequenceNumber as error:
        raise WriteFailed(f"task {task.number}: {_WHY_OUT_OF_ORDER} ({describe(error)})") from error
    except StrandlineError as error:
        raise WriteFailed(f"task {task.number}: {describe(error)}") from error


async def _write(options: SinkOptions, iterator: Iterator[Any], task: Task) -> int:
    loop = asyncio.get_running_loop()
    async with options.producer() as producer:
        sink = _TaskSink(Batches(producer), options, task)
        # Spark may be slow to give the next rows; acknowledgements arrive meanwhile.
        while (batch := await loop.run_in_executor(None, next, iterator, _END)) is not _END:
            await sink.add(batch)
        return await sink.finish()


class _TaskSink:
    """Places, cuts and sends the rows of one task."""

    def __init__(self, out: Batches, options: SinkOptions, task: Task) -> None:
        self._out = out
        self._task = task
        self._rows = Rows(options.topic)
        self._topics: dict[str, Topic] = {}
        self._cutter = Cutter(
            start=task.number + task.batch_id,
            batch_bytes=options.batch_bytes,
            open_bytes=options.buffer_memory // 2,
        )

    async def add(self, batch: Any) -> None:
        for name, partition, row in self._rows.of(batch, time.time_ns() // 1_000_000):
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = await self._out.topic(name)
            _, key, value, headers = row
            size = self._out.size_of(name, value, key, headers)
            for cut in self._cutter.add(name, topic.partitions, partition, row, size):
                await self._send(cut)

    async def finish(self) -> int:
        for cut in self._cutter.rest():
            await self._send(cut)
        return await self._out.finish()

    async def _send(self, cut: Cut) -> None:
        topic, task = self._topics[cut.topic], self._task
        identity = None
        if task.query_id is not None:
            identity = chosen_identity(task.query_id, task.number, task.batch_id, topic.partitions)
        await self._out.send(topic, cut.partition, cut.rows, cut.size, identity)
        await asyncio.sleep(0)  # sends this one before the next is filled

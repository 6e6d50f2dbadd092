"""The result of a `send_many`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strandline.types import OffsetRange, SendManyResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from strandline._core.partition_queue import PartitionQueue
    from strandline._core.producer_batch import ProducerBatch
    from strandline._producer.acknowledgement import Unheard

    Observe = Callable[[PartitionQueue, ProducerBatch, int, int, Exception | None], None]


class Collector:
    """Counts the outcomes of records, batch by batch."""

    def __init__(self, observe: Observe | None = None) -> None:
        self.handed_over = 0
        self._observe = observe
        self._acknowledged = self._failed = self._unknown = 0
        self._ranges: list[OffsetRange] = []
        self._last: dict[int, int] = {}
        """Where the newest range of each partition stands in the list."""
        self._errors: list[tuple[Exception, int]] = []
        """Each with its number of records."""
        self._complete: asyncio.Future[None] | None = None
        self._unheard: Unheard | None = None
        """The receiver of errors after `send_many` has ended without a result."""

    def on_batch(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        first: int,
        count: int,
        error: Exception | None,
    ) -> None:
        if self._observe is not None:
            self._observe(queue, batch, first, count, error)
        if error is None:
            self._acknowledged += count
            self._add_range(queue, batch, first, count)
        else:
            self._errors.append((error, count))
            if self._unheard is not None:
                self._unheard.add_all(error, count)
            if getattr(error, "may_have_been_written", False):
                self._unknown += count
            else:
                self._failed += count
        if self._complete is not None and self._missing == 0 and not self._complete.done():
            self._complete.set_result(None)

    def _add_range(
        self, queue: PartitionQueue, batch: ProducerBatch, first: int, count: int
    ) -> None:
        start = batch.base_offset + first if batch.base_offset >= 0 else -1
        end = start + count if start >= 0 else -1
        at = self._last.get(queue.partition)
        if at is not None:
            last = self._ranges[at]
            joins = last.end == start and last.leader_epoch == batch.leader_epoch
            if joins and last.topic == queue.topic:
                self._ranges[at] = OffsetRange(
                    last.topic,
                    last.partition,
                    last.start,
                    end,
                    last.count + count,
                    last.leader_epoch,
                )
                return
        self._last[queue.partition] = len(self._ranges)
        self._ranges.append(
            OffsetRange(queue.topic, queue.partition, start, end, count, batch.leader_epoch)
        )

    @property
    def _missing(self) -> int:
        return self.handed_over - self._acknowledged - self._failed - self._unknown

    async def result(self) -> SendManyResult:
        """Waits for the outcome of every record."""
        if self._missing > 0:
            self._complete = asyncio.get_running_loop().create_future()
            await self._complete
        return SendManyResult(
            records=self.handed_over,
            acknowledged=self._acknowledged,
            failed=self._failed,
            unknown=self._unknown,
            ranges=tuple(self._ranges),
            errors=tuple(error for error, _ in self._errors),
        )

    def abandon(self, unheard: Unheard) -> None:
        """Ends without a result: `flush` raises present and later failures."""
        self._unheard = unheard
        for error, count in self._errors:
            unheard.add_all(error, count)

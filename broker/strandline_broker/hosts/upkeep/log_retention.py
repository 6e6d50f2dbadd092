"""Retention of all logs of a broker, whether it leads or follows them (I-74, I-75).

The steps for each log:

- Choose the segments to remove, and raise the log's start in memory.
- Write its checkpoint, and shorten the epochs.
- Take the segments out of the log, and rename their files. The files are removed after
  `file.delete.delay.ms`.

A crash between any two steps leaves a log that begins at the old start or the new one. A later
round removes the remaining files.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline_broker.core.retention import RetentionLimits, SegmentFacts, expired
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.log.reader import damage_met
from strandline_proto.errors import WireError
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.disks.log_starts import LogStarts
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.upkeep.segment_removals import SegmentRemovals
    from strandline_broker.storage.segment.segment import Segment
    from strandline_runtime.runtime import Runtime

AT_ONCE: Final = 64
"""Partitions whose log starts share one write of the checkpoint."""


class LogRetention:
    """Owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        dirs: LogDirs,
        log_starts: LogStarts,
        removals: SegmentRemovals,
        partitions: Callable[[], Iterable[Partition]],
    ) -> None:
        self._clock = runtime.clock
        self._log = runtime.log
        self._config = config
        self._dirs = dirs
        self._log_starts = log_starts
        self._removals = removals
        self._partitions = partitions
        self._wanted: dict[Partition, None] = {}
        self._wake = asyncio.Event()

    def log_start_raised(self, partition: Partition, on_durable: Callable[[], None]) -> None:
        """Schedule the removal of segments below the log start; `on_durable` is called once that
        start is durable.
        """
        self._request(partition)
        self._log_starts.persist(partition.log, on_durable)

    async def until_durable(self, partition: Partition) -> None:
        """Does the same as `log_start_raised`, for a caller who waits; KafkaStorageError if it
        cannot be durable.
        """
        self._request(partition)
        await self._log_starts.durable(partition.log)

    def _request(self, partition: Partition) -> None:
        self._wanted[partition] = None
        self._wake.set()

    async def run(self) -> None:
        interval_s = self._config.current.log_retention_check_interval_ms / 1000
        loop = asyncio.get_running_loop()
        due = loop.time() + interval_s
        while True:
            try:
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
            except TimeoutError:
                due = loop.time() + interval_s
                self._wanted = dict.fromkeys(self._partitions())
            self._wake.clear()
            wanted, self._wanted = list(self._wanted), {}
            await self.check(wanted)

    async def check(self, partitions: list[Partition]) -> None:
        """One round over these partitions."""
        for i in range(0, len(partitions), AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for each in partitions[i : i + AT_ONCE]:
                    group.create_task(self._check(each))

    async def _check(self, partition: Partition) -> None:
        log = partition.log
        try:
            # Nothing truncates or replaces segments under the gate; a leader may append.
            async with partition.gate:
                if log.deleted or log.damaged is not None or partition.out_of_service is not None:
                    return
                facts = await self._dirs.in_disk_pool(log, partial(_facts, log.segments[:-1]))
                await self._carry_out(partition, self._decide(partition, facts))
        except (OSError, WireError, BadBatch) as error:
            # A later round, or the next start, does the rest.
            if isinstance(error, BadBatch):
                damage_met(log, error)  # to be healed; a later round reads it again
            self._log.warning(
                "retention stopped half-way", partition=partition.name, reason=str(error)
            )

    def _decide(
        self, partition: Partition, facts: dict[Segment, SegmentFacts]
    ) -> tuple[Segment, ...]:
        """The segments that go. The log start lies behind them when this returns."""
        log, now_ms = partition.log, wall_ms(self._clock)
        config, segments = log.config, log.segments
        count = expired(
            [facts.get(segment) or _fact(segment) for segment in segments],
            RetentionLimits(
                deletes="delete" in config.cleanup_policy,
                retention_ms=config.retention_ms,
                retention_bytes=config.retention_bytes,
            ),
            log_start_offset=log.log_start_offset,
            last_stable_offset=partition.last_stable_offset,
            now_ms=now_ms,
        )
        if count == 0:
            return ()
        if count == len(segments):
            log.roll()
            segments = log.segments
        gone = segments[:count]
        partition.raise_log_start(gone[-1].end_offset)
        return gone

    async def _carry_out(self, partition: Partition, gone: tuple[Segment, ...]) -> None:
        """Remove the segments, in an order that a crash may interrupt anywhere."""
        log = partition.log
        await self._log_starts.durable(log)
        start = log.state.durable_start  # it may have risen meanwhile
        if any(begin < start for _, begin in log.leader_epochs.entries[:1]):
            await self._dirs.in_disk_pool(log, lambda: log.leader_epochs.truncate_from_start(start))
        ranges = log.damaged_ranges
        if len(ranges.above(start)) < len(ranges.entries):
            ranges.set(ranges.above(start))
            await self._dirs.in_disk_pool(log, ranges.save)
        if gone:
            if not gone[-1].flushed:
                await self._flush(partition)
            if not log.drop_segments(gone):
                return
            self._log.info(
                "segments deleted",
                partition=partition.name,
                segments=len(gone),
                bytes=sum(segment.size for segment in gone),
                log_start_offset=start,
            )
        if gone or log.deleted_segments.is_behind:
            # An error may have left some behind; they are renamed first, in any case.
            rename = partial(
                log.deleted_segments.add,
                gone,
                now_ms=monotonic_ms(self._clock),
                delay_ms=log.config.file_delete_delay_ms,
            )
            try:
                await self._dirs.in_disk_pool(log, rename)
            finally:
                self._removals.on_deleted(log)

    async def _flush(self, partition: Partition) -> None:
        """Flush the sealed segments' producer snapshot, from which the log continues: a later flush
        does not reach it once the segment has left the log.
        """
        log = partition.log
        ticket = log.flush_snapshot()
        await self._dirs.flushing(self._dirs.of(log), self._dirs.in_disk_pool(log, ticket.run))
        log.flushed(ticket)
        partition.on_flushed()


def _facts(segments: tuple[Segment, ...]) -> dict[Segment, SegmentFacts]:
    """The facts of sealed segments; blocks, as their timestamps may have to be read."""
    return {segment: _fact(segment) for segment in segments}


def _fact(segment: Segment) -> SegmentFacts:
    timestamp = segment.latest()[0]
    return SegmentFacts(
        end_offset=segment.end_offset,
        size_bytes=segment.size,
        timestamp_ms=timestamp if timestamp >= 0 else segment.modified_ms(),
    )

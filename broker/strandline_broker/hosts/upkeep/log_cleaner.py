"""The log cleaner of a broker: one compacted log at a time, on a separate thread, at a bounded
rate.

A cleaning runs step by step. Between two steps the loop checks that it may continue. If the log was
truncated, removed or put out of service meanwhile, the loop leaves it and removes the unfinished
files. Code that truncates or removes a log calls `abandon` first, under the partition's gate. So no
file of a cleaning stays in a directory whose log has changed. A log that cannot be read is marked
uncleanable and reported; other logs are cleaned.

Nothing at or above the last stable offset and the flushed end is touched (I-69, I-161). New
segments replace old ones under the gate, so that a crash leaves either the old or the new (I-73).
"""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from strandline_broker.core.cleaning import (
    INT64_MAX,
    CompactedLog,
    LogToClean,
    SealedSegment,
    judge,
    next_to_clean,
    within_log,
)
from strandline_broker.storage.cleaner.cleaner import (
    CannotClean,
    Cleaner,
    CleaningResult,
    Progress,
    Replace,
    Task,
)
from strandline_broker.storage.cleaner.swap import Swap
from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.log.segment_check import check_segment
from strandline_proto.errors import WireError
from strandline_runtime.milliseconds import monotonic_ms, wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from prometheus_client import CollectorRegistry

    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.disks.log_dirs import LogDirs
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.upkeep.segment_removals import SegmentRemovals
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.segment import Segment
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")
Step = Progress | Replace | CleaningResult


class CleanerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge

        self.bytes = Counter(
            "strandline_log_cleaner_bytes",
            "Bytes that the log cleaner has read and written.",
            registry=registry,
        )
        self.records_removed = Counter(
            "strandline_log_cleaner_records_removed",
            "Records that compaction has removed.",
            registry=registry,
        )
        self.dirty_ratio = Gauge(
            "strandline_log_cleaner_dirty_ratio_max",
            "The greatest share of a compacted log that is not compacted.",
            registry=registry,
        )
        self.uncleanable = Gauge(
            "strandline_log_cleaner_uncleanable_partitions",
            "Compacted logs that could not be cleaned, for what their files hold.",
            registry=registry,
        )


class _Cleaning:
    """The one that is under way."""

    def __init__(
        self, partition: Partition, steps: Generator[Progress | Replace, None, CleaningResult]
    ) -> None:
        self.partition = partition
        self.steps = steps
        self.stepping = asyncio.Lock()
        self.abandoned = False
        self.truncations = partition.log.state.truncations
        self.replacements = partition.log.state.replacements

    @property
    def may_go_on(self) -> bool:
        log = self.partition.log
        return not (
            self.abandoned
            or log.state.unusable is not None
            or log.state.truncations != self.truncations
            or log.damaged_ranges.entries
            or self.partition.out_of_service is not None
            or "compact" not in log.config.cleanup_policy
        )


class LogCleaner:
    """Owned by `LogUpkeep`, whose task group runs `run`."""

    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        dirs: LogDirs,
        removals: SegmentRemovals,
    ) -> None:
        self._fs = runtime.fs
        self._clock = runtime.clock
        self._log = runtime.log
        self._config = config
        self._dirs = dirs
        self._removals = removals
        self._compacted: dict[Partition, None] = {}
        """The partitions whose configuration asks for compaction."""
        self._thread = runtime.serial_executor("log-cleaner")
        self._metrics = CleanerMetrics(runtime.metrics)
        self._current: _Cleaning | None = None
        self._uncleanable: dict[Partition, tuple[int, int]] = {}
        """The uncleanable partitions with the facts of that verdict, see `_grounds`."""
        self._free_at_s = 0.0

    def on_configured(self, partition: Partition) -> None:
        """Take over the partition's configuration, which may have changed."""
        if "compact" in partition.log.config.cleanup_policy:
            self._compacted[partition] = None
        else:
            self.forget(partition)

    def forget(self, partition: Partition) -> None:
        """Drop the partition, which is not compacted, or no longer held."""
        self._compacted.pop(partition, None)
        self._uncleanable.pop(partition, None)

    async def run(self) -> None:
        if not self._config.current.log_cleaner_enable:
            return
        while True:
            if not await self.clean_next():
                await asyncio.sleep(self._config.current.log_cleaner_backoff_ms / 1000)

    async def abandon(self, partition: Partition) -> None:
        """Stop cleaning this log, and remove the cleaning's files from its directory; returns once
        that is done.

        The caller holds the partition's gate, or the partition is no longer among those held.
        """
        cleaning = self._current
        if cleaning is None or cleaning.partition is not partition:
            return
        cleaning.abandoned = True
        async with cleaning.stepping:
            await self._in_own_thread(cleaning.steps.close)

    async def clean_next(self) -> bool:
        """Clean the log that needs it most; False if none does, or it could not be cleaned."""
        logs = await self._judge_all()
        self._metrics.dirty_ratio.set(max((log.dirty_ratio for _, log in logs), default=0.0))
        partition = next_to_clean(logs)
        if partition is None:
            return False
        chosen = next(log for p, log in logs if p is partition)
        log_start = partition.log.log_start_offset
        task = Task(
            segments=tuple(
                s
                for s in partition.log.segments[:-1]
                # Segments below the log's start wait for deletion, and are not merged.
                if log_start < s.end_offset <= chosen.first_uncleanable
            ),
            first_dirty=chosen.first_dirty,
            config=partition.log.config,
            live_producers={
                producer_id: last_offset
                for producer_id, _, _, last_offset, *_ in partition.producers.entries()
            },
            live_markers=partition.producers.last_markers(),
            later=tuple(
                s for s in partition.log.segments if s.base_offset >= chosen.first_uncleanable
            ),
            now_ms=wall_ms(self._clock),
        )
        cleaner = self._cleaner()
        cleaning = self._current = _Cleaning(partition, cleaner.steps(task))
        try:
            return await self._clean(cleaning, cleaner)
        finally:
            self._current = None
            async with cleaning.stepping:
                await self._in_own_thread(cleaning.steps.close)

    def _cleaner(self) -> Cleaner:
        config = self._config.current
        return Cleaner(
            self._fs,
            dedupe_bytes=config.log_cleaner_dedupe_buffer_size,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer_bytes=config.log_cleaner_io_buffer_size,
        )

    # The choice of a log

    async def _judge_all(self) -> list[tuple[Partition, LogToClean]]:
        now_ms = wall_ms(self._clock)
        found = []
        self._metrics.uncleanable.set(len(self._uncleanable))
        for partition in list(self._compacted):
            if not self._is_candidate(partition):
                continue
            log = partition.log
            log.clean_to(
                within_log(
                    log.cleaned_to, log_start=log.log_start_offset, log_end=log.log_end_offset
                )
            )
            asks_age = log.config.max_compaction_lag_ms < INT64_MAX
            seen = log.state.generation
            try:
                # One that was flushed before it was sealed has files for the next flush (I-182).
                flushed = tuple(takewhile(attrgetter("flushed"), log.segments[:-1]))
                sealed = await self._in_own_thread(partial(_facts, flushed, asks_age))
            except CannotClean as error:
                # Files that went meanwhile are no fault of the log.
                if self._is_candidate(partition) and seen == log.state.generation:
                    self._give_up(partition, str(error))
                continue
            compacted = CompactedLog(
                cleaned_to=log.cleaned_to,
                committed=min(partition.last_stable_offset, log.durable_offset),
                sealed=sealed,
                min_dirty_ratio=log.config.min_cleanable_dirty_ratio,
                min_lag_ms=log.config.min_compaction_lag_ms,
                max_lag_ms=log.config.max_compaction_lag_ms,
            )
            found.append((partition, seen[0], judge(compacted, now_ms=now_ms)))
        # Records after a truncation that came meanwhile may not be committed (I-69).
        still = [each for each in found if each[1] == each[0].log.state.truncations]
        return [(p, log) for p, _, log in still if self._is_candidate(p)]

    def _is_candidate(self, partition: Partition) -> bool:
        log = partition.log
        if self._uncleanable.get(partition) != _grounds(log):
            self._uncleanable.pop(partition, None)
        return (
            "compact" in log.config.cleanup_policy
            and log.state.unusable is None
            and log.damaged is None
            and log.producers is not None  # else the last batch of each is not known (I-79)
            and not log.damaged_ranges.entries
            and partition.out_of_service is None
            and partition not in self._uncleanable
        )

    # One cleaning

    async def _clean(self, cleaning: _Cleaning, cleaner: Cleaner) -> bool:
        """Step by step to the end; False if it was left."""
        partition = cleaning.partition
        try:
            async with partition.gate:
                if not cleaning.may_go_on:
                    return False
                await partition.in_disk_pool(partition.log.gaps.expect)
            return await self._steps(cleaning, cleaner)
        except CannotClean as error:
            if cleaning.may_go_on and partition.log.state.replacements == cleaning.replacements:
                self._give_up(partition, str(error))
                if error.damaged_segment is not None:
                    await self._mark_damage(partition, error.damaged_segment)
        except OSError as error:
            # The output is gone with the log's directory, or the disk is full or bad.
            if cleaning.may_go_on:
                self._report(partition, str(partition.refuse_write(error)))
        except WireError as error:
            self._report(partition, str(error))
        return False

    async def _steps(self, cleaning: _Cleaning, cleaner: Cleaner) -> bool:
        while True:
            async with cleaning.stepping:
                if not cleaning.may_go_on:
                    return False
                step = await self._in_own_thread(partial(_next, cleaning.steps))
            if isinstance(step, CleaningResult):
                return await self._finished(cleaning, step)
            if isinstance(step, Progress):
                await self._pace(step.bytes)
            elif not await self._swap(cleaning, cleaner, step):
                return False

    async def _pace(self, moved: int) -> None:
        """Wait until so many bytes fit into log.cleaner.io.max.bytes.per.second."""
        self._metrics.bytes.inc(moved)
        loop = asyncio.get_running_loop()
        pause_s = moved / self._config.current.log_cleaner_io_max_bytes_per_second
        self._free_at_s = max(self._free_at_s, loop.time()) + pause_s
        await asyncio.sleep(self._free_at_s - loop.time())

    async def _swap(self, cleaning: _Cleaning, cleaner: Cleaner, step: Replace) -> bool:
        partition, log = cleaning.partition, cleaning.partition.log
        async with partition.gate:
            swap = Swap(cleaner.fs, log, step.old, step.new)
            if not cleaning.may_go_on or not swap.show():
                return False
            step.done = True
            await partition.in_disk_pool(swap.set_old_aside)
            swap.name()
            await partition.in_disk_pool(partial(swap.settle, now_ms=monotonic_ms(self._clock)))
            self._removals.on_deleted(log)
            cleaning.replacements = log.state.replacements
        return True

    async def _finished(self, cleaning: _Cleaning, result: CleaningResult) -> bool:
        partition, log = cleaning.partition, cleaning.partition.log
        if not cleaning.may_go_on:
            return False
        log.clean_to(max(log.cleaned_to, result.cleaned_to))
        cleaned = {(log.topic, log.partition): log.cleaned_to}
        log_dir = self._dirs.of(log)
        await self._dirs.save_in(log_dir, lambda to: to.write_cleaned_offsets(cleaned))
        counts = result.counts
        self._metrics.records_removed.inc(counts.records_read - counts.records_kept)
        self._log.info(
            "log cleaned",
            partition=partition.name,
            cleaned_to=result.cleaned_to,
            records_read=counts.records_read,
            records_kept=counts.records_kept,
            bytes_read=counts.bytes_read,
            bytes_written=counts.bytes_written,
        )
        if counts.keyless_dropped > 0:
            self._log.warning(
                "records without a key were removed: a compacted log cannot keep them",
                partition=partition.name,
                records=counts.keyless_dropped,
            )
        return True

    async def _mark_damage(self, partition: Partition, base_offset: int) -> None:
        """Mark the damage; `DamageWatch` reports and heals it. A healed log counts as a different
        one here.
        """
        try:
            await self._in_own_thread(partial(check_segment, partition.log, base_offset))
        except (OSError, WireError) as error:
            self._report(partition, f"the damage was not looked at closely: {error}")

    def _give_up(self, partition: Partition, reason: str) -> None:
        self._uncleanable[partition] = _grounds(partition.log)
        self._metrics.uncleanable.set(len(self._uncleanable))
        self._report(partition, reason)

    def _report(self, partition: Partition, reason: str) -> None:
        self._log.error("log not cleaned", partition=partition.name, reason=reason)

    async def _in_own_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work to its end, even if the caller is cancelled."""
        job = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            await asyncio.wait([job])
            raise


def _grounds(log: Log) -> tuple[int, int]:
    """The facts that may make an uncleanable log cleanable: a truncated log is a different one, and
    a batch that unpacks to too much may be within a higher bound.
    """
    return log.state.truncations, log.config.max_message_decompressed_bytes


def _next(steps: Generator[Progress | Replace, None, CleaningResult]) -> Step:
    try:
        return next(steps)
    except StopIteration as end:
        result: CleaningResult = end.value
        return result
    except (CannotClean, OSError):
        raise
    except Exception as error:
        raise CannotClean(f"{type(error).__name__}: {error}") from error


def _facts(segments: tuple[Segment, ...], asks_age: bool) -> tuple[SealedSegment, ...]:
    """The facts of sealed segments; blocks, as their timestamps may have to be read. Raises
    CannotClean.
    """
    try:
        return tuple(
            SealedSegment(
                base_offset=segment.base_offset,
                end_offset=segment.end_offset,
                size=segment.size,
                latest_timestamp=segment.latest()[0],
                first_timestamp=segment.first_timestamp() if asks_age else -1,
            )
            for segment in segments
        )
    except (OSError, BadBatch, struct.error) as error:
        raise CannotClean(str(error)) from error

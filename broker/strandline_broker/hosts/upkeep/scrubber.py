"""The scrub of segments in the background, which finds bytes that the disk changed, and bytes that
read well again: a mark on sound bytes is removed.

A start does not read below the recovery point, and a reader notices a wrong CRC only in its own
range. So every `log.scrub.interval` each sealed segment is read once, and an active one of which a
part is marked. The scrub has a separate thread and reads no faster than
`log.scrub.io.max.bytes.per.second`. Findings are marked in the log; `damage_watch` reports them to
the controller and heals them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.log.segment_check import SegmentCheck
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from concurrent.futures import Executor

    from strandline_broker.hosts.common.dynamic_config import DynamicConfig
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.segment import Segment
    from strandline_runtime.runtime import Runtime

FIRST_ROUND_MS: Final = 600_000
"""Time until the first round, so that a broker that restarts more often than it scrubs is scrubbed
nevertheless.
"""


class Scrubber:
    """Owned by the replica manager, whose task group runs `run`."""

    def __init__(
        self,
        runtime: Runtime,
        config: DynamicConfig,
        partitions: Callable[[], Collection[Partition]],
        *,
        thread: Executor,
    ) -> None:
        from prometheus_client import Counter

        self._clock = runtime.clock
        self._log = runtime.log
        self._config = config
        self._partitions = partitions
        self._thread = thread
        registry = runtime.metrics
        self._bytes = Counter(
            "strandline_scrub_bytes", "Bytes of segments read and checked.",
            registry=registry,
        )  # fmt: skip
        self._rounds = Counter(
            "strandline_scrub_rounds",
            "Rounds over all segments that are scrubbed.",
            registry=registry,
        )
        self._found = Counter(
            "strandline_scrub_damaged_ranges", "Damaged ranges that the scrub found.",
            registry=registry,
        )  # fmt: skip

    async def run(self) -> None:
        interval_ms = self._config.current.log_scrub_interval
        if interval_ms <= 0:
            return
        await asyncio.sleep(min(interval_ms, FIRST_ROUND_MS) / 1000)
        while True:
            begun_ms = monotonic_ms(self._clock)
            await self.round()
            spent_ms = monotonic_ms(self._clock) - begun_ms
            await asyncio.sleep(max(interval_ms - spent_ms, 1) / 1000)

    async def round(self) -> None:
        """Read every segment that is sealed now, and the active one if a part of it is marked,
        once.
        """
        begun_ms = monotonic_ms(self._clock)
        segments = size = found = 0
        for partition in list(self._partitions()):
            for segment in _worth_reading(partition.log):
                if partition.log.deleted or partition.out_of_service is not None:
                    break
                read, damaged = await self._check(partition, segment)
                segments, size, found = segments + 1, size + read, found + damaged
        self._rounds.inc()
        self._log.info(
            "scrubbed",
            segments=segments,
            bytes=size,
            damaged_ranges=found,
            seconds=round((monotonic_ms(self._clock) - begun_ms) / 1000, 1),
        )

    async def _check(self, partition: Partition, segment: Segment) -> tuple[int, int]:
        """(bytes read, damaged ranges found)."""
        loop = asyncio.get_running_loop()
        check = SegmentCheck(partition.log, segment)
        size = 0
        while (read := await loop.run_in_executor(self._thread, check.step)) > 0:
            size += read
            self._bytes.inc(read)
            rate = self._config.current.log_scrub_io_max_bytes_per_second
            await asyncio.sleep(read / rate)
        known = partition.log.damaged_ranges.entries
        found = [r for r in check.settle() if r not in known]
        if found:
            self._found.inc(len(found))
            self._log.error(
                "scrub: damage found", partition=partition.name, ranges="; ".join(map(str, found))
            )
        return size, len(found)


def _worth_reading(log: Log) -> list[Segment]:
    *sealed, active = log.segments
    marked = any(r.segment == active.base_offset for r in log.damaged_ranges.entries)
    return [*sealed, active] if marked else sealed

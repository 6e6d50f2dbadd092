"""Spark's side of a stream, without Spark: what its engine asks of a source, in its order, and what
it keeps. Offsets pass through JSON text, as they do there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strandline_spark.cluster.offsets import stream_from_json
from strandline_spark.data_source import RangePartition, StrandlineStreamReader
from strandline_spark.source.later_names import ReadAllAvailable, ReadLimit, ReadMaxRows
from strandline_spark.source.options import parse_options

if TYPE_CHECKING:
    from strandline_spark.source.splitting import PlannedRange

Task = tuple[int, int, int]
"""partition, start, stop"""


class EngineOfSpark:
    """One query and its checkpoint: end offsets as logged, and how many batches are done."""

    def __init__(self, address: str, **options: str) -> None:
        given = {"bootstrap.servers": address, "subscribe": "t"} | options
        self.options = {name: value for name, value in given.items() if value}
        self.log: list[str] = []
        self.done = 0
        self.reader = self._reader()

    def _reader(self) -> StrandlineStreamReader:
        return StrandlineStreamReader(parse_options(self.options))

    def restart(self, **options: str) -> list[Task]:
        """Another process: it knows the log alone, and runs a batch again that is not done."""
        self.options |= options
        self.reader = self._reader()
        if self.done == len(self.log):
            return []
        return self._run()

    def available_now(self) -> None:
        self.restart()
        self.reader.prepareForTriggerAvailableNow()

    def plan(self, limit: int | None = None) -> bool:
        """Logs the next batch's end, if there is a next batch."""
        start = self._start()
        read = self.reader.getDefaultReadLimit() if limit is None else ReadMaxRows(limit)
        return self._plan(start, read)

    def once(self) -> list[Task] | None:
        """As `trigger`, by a trigger that fires once: Spark asks for all that there is."""
        return self._run() if self._plan(self._start(), ReadAllAvailable()) else None

    def _plan(self, start: str, read: ReadLimit) -> bool:
        end = json.dumps(self.reader.latestOffset(json.loads(start), read))
        for data, known in self.reader.seen:
            assert stream_from_json(data) == known, (data, known)
        if end == start:
            return False
        self.log.append(end)
        return True

    def trigger(self, limit: int | None = None) -> list[Task] | None:
        """The tasks of the next batch, which is done then; None if there is none."""
        return self._run() if self.plan(limit) else None

    def tasks(self) -> list[PlannedRange]:
        """Those of the batch that was logged last."""
        self.done = len(self.log) - 1
        start, end = json.loads(self._start()), json.loads(self.log[self.done])
        partitions = self.reader.partitions(start, end)
        return [one.planned for one in partitions if isinstance(one, RangePartition)]

    def _run(self) -> list[Task]:
        planned = self.tasks()
        self.done += 1
        return [(one.tp.partition, one.start, one.stop) for one in planned]

    def _start(self) -> str:
        """Where the next batch begins. Spark asks twice for the initial offset."""
        if self.done > 0:
            return self.log[self.done - 1]
        self.reader.initialOffset()
        return json.dumps(self.reader.initialOffset())

    @property
    def ends(self) -> dict[str, dict[str, int]]:
        """The offsets that were logged last, without their lineage."""
        found: dict[str, Any] = json.loads(self.log[-1])
        return {topic: ends for topic, ends in found.items() if topic != "@lineage"}

    @property
    def lineage(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.log[-1])["@lineage"]
        return found

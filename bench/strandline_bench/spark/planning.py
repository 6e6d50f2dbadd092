"""The time that the driver needs to plan a micro-batch: Metadata, ListOffsets, and the plan.

The source's reader is called as Spark calls it, with offsets as JSON text in between, in this
process.
"""

import asyncio
import json
import time
from typing import Final

from strandline_bench.report import Report, median, percentile
from strandline_bench.spark.options import SparkOptions
from strandline_bench.target import fresh_topic, own_running

WARM_UP: Final = 3
FILL_S: Final = 120.0


def run(options: SparkOptions, report: Report) -> None:
    import uvloop

    with own_running(options) as target:
        uvloop.run(_rounds(target.bootstrap, options, report))


async def _rounds(bootstrap: str, options: SparkOptions, report: Report) -> None:
    from strandline import Producer

    taken: dict[str, list[float]] = {"planning": [], "planning-still": []}
    async with (
        fresh_topic(bootstrap, "bench-planning", options) as topic,
        Producer(bootstrap, acks="all") as producer,
    ):
        stream = await asyncio.to_thread(_Stream, bootstrap, topic)
        for number in range(WARM_UP + options.rounds):
            async with asyncio.timeout(FILL_S):
                for partition in range(options.partitions):
                    await producer.send(topic, b"new", partition=partition)
                await producer.flush()
            moved_ms = await asyncio.to_thread(stream.plan, options.partitions)
            still_ms = await asyncio.to_thread(stream.plan, 0)
            if number >= WARM_UP:
                taken["planning"].append(moved_ms)
                taken["planning-still"].append(still_ms)
    for measure, each in taken.items():
        report.measured(
            measure,
            {
                "partitions": options.partitions,
                "p50_ms": median(each),
                "p90_ms": percentile(each, 0.9),
                "rounds": len(each),
            },
        )


class _Stream:
    """One query, as Spark's engine drives it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from strandline_spark.data_source import StrandlineStreamReader
        from strandline_spark.source.options import parse_options

        options = {"bootstrap.servers": bootstrap, "subscribe": topic}
        self._reader = StrandlineStreamReader(
            parse_options(options | {"startingOffsets": "earliest"})
        )
        self._end = json.dumps(self._reader.initialOffset())

    def plan(self, tasks: int) -> float:
        """Milliseconds until the tasks of the next micro-batch are known."""
        from strandline_spark.source.later_names import ReadAllAvailable

        started = time.perf_counter()
        end = json.dumps(self._reader.latestOffset(json.loads(self._end), ReadAllAvailable()))
        self._reader.reportLatestOffset()
        planned = 0
        if end != self._end:
            planned = len(self._reader.partitions(json.loads(self._end), json.loads(end)))
        taken_s = time.perf_counter() - started
        assert planned == tasks, f"{planned} tasks, not {tasks}"
        self._end = end
        return taken_s * 1e3

"""Lookups by offset and by time, anywhere in a log of many segments."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from strandline_bench.log.options import LogOptions
from strandline_bench.log.store import START_MS, Hurried, Store, batch_of, progress
from strandline_bench.report import Report, percentile
from strandline_broker.storage.log.log import Log, LogConfig

CONFIG: Final = LogConfig(segment_bytes=256 << 10)
BATCH_BYTES: Final = 4 << 10
LOOKUPS: Final = 5000


def run(options: LogOptions, report: Report, path: Path) -> None:
    store = Store(path / "log", CONFIG, Hurried())
    log = store.create()
    batches = 0
    while len(log.state.tail[0]) < options.segments:
        batch, header = batch_of(BATCH_BYTES, first_ms=START_MS + batches)
        log.append_as_leader(batch, header, leader_epoch=0)
        batches += 1
        if batches % 10_000 == 0:
            progress(f"lookup: {len(log.state.tail[0])} of {options.segments} segments")
    store.stop()
    store.open()
    (log,) = store.load()
    rng = random.Random(options.segments)
    offsets = [rng.randrange(log.log_end_offset) for _ in range(LOOKUPS)]
    times = [START_MS + rng.randrange(batches) for _ in range(LOOKUPS)]
    end = log.log_end_offset
    by_offset = _timed(offsets, lambda offset: _found(log, offset, end))
    by_time = _timed(times, lambda timestamp: log.offset_for_timestamp(timestamp) is not None)
    store.kill()
    shutil.rmtree(path / "log")
    report.measured(
        "log-lookup",
        {
            "offset_p50_us": percentile(by_offset, 0.5),
            "offset_p99_us": percentile(by_offset, 0.99),
            "offset_max_us": max(by_offset),
            "time_p50_us": percentile(by_time, 0.5),
            "time_p99_us": percentile(by_time, 0.99),
            "time_first_us": by_time[0],
            "segments": options.segments,
            "batches": batches,
            "lookups": LOOKUPS,
        },
    )


def _found(log: Log, offset: int, end: int) -> bool:
    return log.read(offset, max_bytes=1, limit=end).base_offset <= offset


def _timed(values: list[int], look: Callable[[int], bool]) -> list[float]:
    """Microseconds of each lookup."""
    took = []
    for value in values:
        began = time.perf_counter()
        found = look(value)
        took.append((time.perf_counter() - began) * 1e6)
        assert found, value
    return took

"""A whole log read from its start as a consumer fetches it. Each round runs beside bare reads of
the same bytes at the same places. The bytes are in the page cache; the log was just opened.
"""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from strandline_bench.log.append import SIZES
from strandline_bench.log.options import LogOptions
from strandline_bench.log.store import Stopwatch, Store, alternate, batch_of, progress
from strandline_bench.report import Report, median
from strandline_broker.storage.log.log import Log

FETCH_BYTES: Final = 1 << 20
Places = list[tuple[int, int]]
"""(length, position) of each read."""


def run(options: LogOptions, report: Report, path: Path) -> None:
    for name, size in SIZES.items():
        batch, header = batch_of(size)
        count = max(options.round_bytes // len(batch), 1)
        store = Store(path / name)
        log = store.create()
        for _ in range(count):
            log.append_as_leader(batch, header, leader_epoch=0)
        store.stop()
        store.open()
        (log,) = store.load()
        places = _places(log, len(batch))
        logs: list[Stopwatch] = []
        bare: list[Stopwatch] = []
        for number in range(options.rounds):
            progress(f"read {name}: round {number + 1} of {options.rounds}")
            ours = partial(_fetch, log)
            theirs = partial(_read, Path(log.path) / f"{0:020d}.log", places)
            alternate(number, (logs, ours), (bare, theirs))
        store.kill()
        shutil.rmtree(path / name)
        megabytes = count * len(batch) / 1e6
        mb_s, floor = (median([megabytes / each.wall_s for each in s]) for s in (logs, bare))
        report.measured(
            f"log-read-{name}",
            {
                "read_mb_s": mb_s,
                "bare_mb_s": floor,
                "bare_share": median(
                    [b.wall_s / o.wall_s for o, b in zip(logs, bare, strict=True)]
                ),
                "cpu_us_batch": median([each.cpu_s for each in logs]) / count * 1e6,
                "bare_cpu_us_batch": median([each.cpu_s for each in bare]) / count * 1e6,
                "batch_bytes": len(batch),
                "batches": count,
                "rounds": options.rounds,
            },
        )


def _places(log: Log, batch_bytes: int) -> Places:
    """The start and length of a consumer's fetches, in a log of one segment."""
    places, position = [], 0
    for records in _fetches(log):
        assert len(records) % batch_bytes == 0
        places.append((len(records), position))
        position += len(records)
    return places


def _fetches(log: Log) -> "list[bytes]":
    found, offset, end = [], log.log_start_offset, log.log_end_offset
    while offset < end:
        run = log.read(offset, max_bytes=FETCH_BYTES, limit=end)
        found.append(run.records)
        offset = run.next_offset
    return found


def _fetch(log: Log) -> Stopwatch:
    offset, end = log.log_start_offset, log.log_end_offset
    with Stopwatch() as watch:
        while offset < end:
            offset = log.read(offset, max_bytes=FETCH_BYTES, limit=end).next_offset
    return watch


def _read(path: Path, places: Places) -> Stopwatch:
    fd = os.open(path, os.O_RDONLY)
    try:
        with Stopwatch() as watch:
            for length, position in places:
                os.pread(fd, length, position)
    finally:
        os.close(fd)
    return watch

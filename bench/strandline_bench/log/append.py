"""Appends of batches of several sizes, each round beside bare writes of the same bytes."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from strandline_bench.log.options import LogOptions
from strandline_bench.log.store import Stopwatch, Store, alternate, batch_of, progress
from strandline_bench.report import Report, median
from strandline_proto.batch import BatchHeader

SIZES: Final = {"4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20}


def run(options: LogOptions, report: Report, path: Path) -> None:
    for name, size in SIZES.items():
        batch, header = batch_of(size)
        count = max(options.round_bytes // len(batch), 1)
        logs: list[Stopwatch] = []
        bare: list[Stopwatch] = []
        for number in range(options.rounds):
            progress(f"append {name}: round {number + 1} of {options.rounds}")
            ours = partial(_append, path / "log", batch, header, count)
            theirs = partial(_write, path / "bare", batch, count)
            alternate(number, (logs, ours), (bare, theirs))
        megabytes = count * len(batch) / 1e6
        mb_s, floor = (median([megabytes / each.wall_s for each in s]) for s in (logs, bare))
        report.measured(
            f"log-append-{name}",
            {
                "append_mb_s": mb_s,
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


def _append(path: Path, batch: bytes, header: BatchHeader, count: int) -> Stopwatch:
    store = Store(path)
    append = store.create().append_as_leader
    with Stopwatch() as watch:
        for _ in range(count):
            append(batch, header, leader_epoch=0)
    store.kill()
    shutil.rmtree(path)
    return watch


def _write(path: Path, batch: bytes, count: int) -> Stopwatch:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    position, size = 0, len(batch)
    try:
        with Stopwatch() as watch:
            for _ in range(count):
                os.pwrite(fd, batch, position)
                position += size
    finally:
        os.close(fd)
        path.unlink()
    return watch

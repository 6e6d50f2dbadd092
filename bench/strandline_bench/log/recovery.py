"""The duration of a start: after a stop, and after a loss of power, when no page is in memory."""

import os
import shutil
from pathlib import Path
from typing import Final

from strandline_bench.log.options import LogOptions
from strandline_bench.log.store import Hurried, Stopwatch, Store, batch_of, progress
from strandline_bench.report import Report
from strandline_broker.storage.files.checkpoints import RECOVERY_POINTS
from strandline_broker.storage.log.log import LogConfig

BATCH_BYTES: Final = 64 << 10
READ_BYTES: Final = 1 << 20
SMALL: Final = LogConfig(segment_bytes=64 << 10)
SMALL_BYTES: Final = 160 << 10
"""Bytes of each of many logs: three segments."""


def run(options: LogOptions, report: Report, path: Path) -> None:
    _large(options, report, path / "large")
    _many(options, report, path / "many")


def _large(options: LogOptions, report: Report, path: Path) -> None:
    batch, header = batch_of(BATCH_BYTES)
    store = Store(path)
    log = store.create()
    total = int(options.recovery_gb * 1e9)
    while log.size_bytes < total:
        log.append_as_leader(batch, header, leader_epoch=0)
        if log.log_end_offset % (len(batch) << 4) == 0:
            progress(f"recovery: {log.size_bytes / 1e9:.1f} of {options.recovery_gb:g} GB written")
    size_bytes, segments = log.size_bytes, len(log.state.tail[0])
    progress("recovery: making it durable")
    store.stop()
    store.forget_pages()
    clean_s = _start(store)
    store.kill()
    store.forget_pages()
    crash_s = _start(store)
    store.kill()
    (path / RECOVERY_POINTS).unlink()
    store.forget_pages()
    whole_s = _start(store)
    store.kill()
    store.forget_pages()
    bare_s = _read_all(store)
    shutil.rmtree(path)
    report.measured(
        "log-recovery",
        {
            "clean_s": clean_s,
            "crash_s": crash_s,
            "crash_without_recovery_point_s": whole_s,
            "whole_mb_s": size_bytes / 1e6 / whole_s,
            "bare_mb_s": size_bytes / 1e6 / bare_s,
            "bare_share": bare_s / whole_s,
            "log_gb": size_bytes / 1e9,
            "segments": segments,
        },
    )


def _start(store: Store) -> float:
    with Stopwatch() as watch:
        store.open()
        store.load()
    return watch.wall_s


def _read_all(store: Store) -> float:
    with Stopwatch() as watch:
        for path in store.files():
            fd = os.open(path, os.O_RDONLY)
            position = 0
            while data := os.pread(fd, READ_BYTES, position):
                position += len(data)
            os.close(fd)
    return watch.wall_s


def _many(options: LogOptions, report: Report, path: Path) -> None:
    batch, header = batch_of(4 << 10)
    store = Store(path, SMALL, Hurried())
    for partition in range(options.partitions):
        log = store.create(partition)
        for _ in range(SMALL_BYTES // len(batch)):
            log.append_as_leader(batch, header, leader_epoch=0)
        if partition % 100 == 0:
            progress(f"recovery: {partition} of {options.partitions} partitions")
    segments = sum(len(log.state.tail[0]) for log in store.logs)
    store.stop()
    again = Store.__new__(Store)
    again.path, again.config, again.fs = path, SMALL, type(store.fs).__mro__[1]()
    with Stopwatch() as clean:
        again.open()
        again.load()
    again.kill()
    with Stopwatch() as killed:
        again.open()
        again.load()
    again.kill()
    shutil.rmtree(path)
    report.measured(
        "log-recovery-partitions",
        {
            "clean_s": clean.wall_s,
            "clean_cpu_s": clean.cpu_s,
            "killed_s": killed.wall_s,
            "partitions": options.partitions,
            "segments": segments,
        },
    )

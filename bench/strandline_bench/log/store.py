"""A data directory with logs to measure: made quickly, stopped cleanly or killed, opened again."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_proto.batch import BatchHeader, build_batch, read_header
from strandline_runtime.real import RealFileSystem
from strandline_runtime.runtime import FileSystem

RECORD_BYTES: Final = 1000
START_MS: Final = 1_700_000_000_000


class Hurried(RealFileSystem):
    """A disk without waits for durability, for preparations that are not measured."""

    def fsync_dir(self, path: str) -> None:
        pass

    def _skip(self, fd: int) -> None:
        pass

    fsync = _skip  # type: ignore[assignment] # the parent's is os's own, of no method's type
    fdatasync = _skip  # type: ignore[assignment] # as fsync


@dataclass
class Store:
    """One data directory, opened at its creation."""

    path: Path
    config: LogConfig = field(default_factory=LogConfig)
    fs: FileSystem = field(default_factory=RealFileSystem)

    def __post_init__(self) -> None:
        self.logs: list[Log] = []
        self.open()

    def open(self) -> None:
        self.directory = DataDirectory.open(
            self.fs,
            str(self.path),
            node_id=1,
            cluster_id=None,
            new_id=lambda: secrets.token_bytes(16),
        )

    def create(self, partition: int = 0) -> Log:
        log = self.directory.create_log("bench", bytes(16), partition, self.config)
        self.logs.append(log)
        return log

    def load(self) -> list[Log]:
        """Open every log of the directory, recovered as a broker does it."""
        self.logs = [
            self.directory.load_log(found, self.config, lambda _: None)
            for found in self.directory.partitions()
        ]
        return self.logs

    def stop(self) -> None:
        """Stop cleanly: everything durable, checkpoints and marker written."""
        for log in self.logs:
            log.close()
        ends = {(log.topic, log.partition): log.log_end_offset for log in self.logs}
        starts = {(log.topic, log.partition): log.log_start_offset for log in self.logs}
        self.directory.write_recovery_points(ends)
        self.directory.write_high_watermarks(ends)
        self.directory.write_log_starts(starts)
        self.directory.write_clean_shutdown(1)
        self.kill()

    def kill(self) -> None:
        """Stop as a killed process does: its writes stay."""
        self.directory.close()
        self.logs = []

    def files(self) -> Iterator[Path]:
        yield from sorted(path for path in self.path.rglob("*") if path.is_file())

    def forget_pages(self) -> None:
        """Drop the files' pages from memory, as after a loss of power."""
        for path in self.files():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def batch_of(size: int, *, first_ms: int = START_MS) -> tuple[bytes, BatchHeader]:
    """A batch of about `size` bytes of random records."""
    count = max(size // (RECORD_BYTES + 10), 1)
    each = min(RECORD_BYTES, size)
    value = secrets.token_bytes(each)
    batch = build_batch(((None, value) for _ in range(count)), timestamp_ms=first_ms)
    return batch, read_header(batch)


def progress(line: str) -> None:
    """Print a line for a person at a terminal; never part of the figures."""
    if sys.stderr.isatty():
        print(f"  {line}", file=sys.stderr, flush=True)


class Stopwatch:
    """Wall and CPU time of a stretch of work."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    def __enter__(self) -> "Stopwatch":
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.perf_counter() - self._wall
        self.cpu_s = time.process_time() - self._cpu


def alternate(number: int, *sides: tuple[list[Stopwatch], Callable[[], Stopwatch]]) -> None:
    """Runs round `number` of each side. The first side changes, because it leaves the disk busy."""
    for watches, measure in sides if number % 2 == 0 else reversed(sides):
        watches.append(measure())

"""Small logs in temporary directories, written through the real storage layer."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_proto.batch import (
    Compression,
    build_batch,
    crc_matches,
    iter_headers,
    read_header,
    read_records,
)
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from strandline_runtime.runtime import FileSystem

TOPIC_ID = bytes(range(16))
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100, segment_index_bytes=10 << 20)
LARGE = LogConfig(segment_bytes=1 << 30, index_interval_bytes=4096, segment_index_bytes=10 << 20)


def written_by_another(path: Path, content: str) -> None:
    """A checkpoint as Kafka or an earlier version leaves it: without a seal."""
    path.with_name(f"{path.name}.seal").unlink(missing_ok=True)
    path.write_text(content, "utf-8")


def batch_of(
    *values: bytes, timestamp_ms: int = 1000, compression: Compression = Compression.NONE
) -> bytes:
    return build_batch(
        ((None, value) for value in values), timestamp_ms=timestamp_ms, compression=compression
    )


@dataclass
class Store:
    """One data directory with the log `t-0`, opened and closed as a broker does."""

    path: Path
    config: LogConfig = SMALL
    fs: FileSystem = field(default_factory=RealFileSystem)
    reports: list[str] = field(default_factory=list)
    seed: int = 0
    found: bool = False
    """The directory is there already, and its log is opened."""

    def __post_init__(self) -> None:
        self._ids = random.Random(self.seed)
        if self.found:
            self.start()
            return
        self.directory = self._open()
        self.log = self.create()

    def new_id(self) -> bytes:
        return self._ids.randbytes(16)

    def _open(self) -> DataDirectory:
        return DataDirectory.open(
            self.fs, str(self.path), node_id=1, cluster_id=None, new_id=self.new_id
        )

    def create(self, topic_id: bytes = TOPIC_ID) -> Log:
        return self.directory.create_log("t", topic_id, 0, self.config)

    @property
    def log_dir(self) -> Path:
        return self.path / "t-0"

    def append(self, *values: bytes, epoch: int = 0, timestamp_ms: int = 1000) -> int:
        """Appends as leader; the base offset."""
        batch = batch_of(*values, timestamp_ms=timestamp_ms)
        return self.log.append_as_leader(batch, read_header(batch), leader_epoch=epoch).base_offset

    def flush(self) -> None:
        ticket = self.log.flush_snapshot()
        ticket.run()
        self.log.flushed(ticket)

    def checkpoint(self, high_watermark: int | None = None) -> None:
        key = ("t", 0)
        self.directory.write_recovery_points({key: self.log.durable_offset})
        self.directory.write_log_starts({key: self.log.log_start_offset})
        self.directory.write_cleaned_offsets({key: self.log.cleaned_to})
        if high_watermark is not None:
            self.directory.write_high_watermarks({key: high_watermark})

    def shorten(self, to: int) -> None:
        """Let the log begin at `to` in the order of hosts.log_retention, each step durable."""
        log = self.log
        if to == log.log_end_offset and log.segments[-1].size > 0:
            log.roll()
        log.raise_log_start(to)
        self.directory.write_log_starts({("t", 0): log.log_start_offset})
        log.leader_epochs.truncate_from_start(log.log_start_offset)
        gone = tuple(s for s in log.segments[:-1] if s.end_offset <= to)
        if gone and not gone[-1].flushed:
            self.flush()
        if gone and log.drop_segments(gone):
            log.deleted_segments.add(gone, now_ms=0, delay_ms=0)
            log.deleted_segments.purge(0)

    def stop(self, epoch: int = 7) -> None:
        """A controlled shutdown."""
        self.log.close()
        self.checkpoint(self.log.log_end_offset)
        self.directory.write_clean_shutdown(epoch)
        self.directory.close()

    def kill(self) -> None:
        """SIGKILL: the lock goes, nothing is written."""
        self.directory.close()

    def start(self) -> Log:
        self.directory = self._open()
        (found,) = self.directory.partitions()
        self.log = self.directory.load_log(found, self.config, self.reports.append)
        return self.log

    def restart(self, how: Callable[["Store"], None] | None = None) -> Log:
        (how or Store.kill)(self)
        return self.start()

    def values(self) -> list[bytes]:
        return values_of(self.log)


def damaged(log: Log) -> list[tuple[int, int]]:
    """(start, end) of each damaged range."""
    return [(r.start, r.end) for r in log.damaged_ranges.entries]


def values_around_damage(log: Log) -> list[bytes]:
    """Every value that is served; the damaged ranges are asked for, and refused."""
    values: list[bytes] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        try:
            run = log.read(position, max_bytes=1 << 20, limit=log.log_end_offset)
        except KafkaStorageError:
            (position,) = [r.end for r in log.damaged_ranges.entries if r.start <= position < r.end]
            continue
        assert run.next_offset > position, position
        for at, header in iter_headers(run.records):
            assert crc_matches(run.records, at, header)
            values += [r.value or b"" for r in read_records(run.records, at, header)]
        position = run.next_offset
    return values


def values_of(log: Log, *, max_bytes: int = 1 << 20) -> list[bytes]:
    """Every value from the log's start to its end, read as a consumer would."""
    values: list[bytes] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        run = log.read(position, max_bytes=max_bytes, limit=log.log_end_offset)
        assert run.records, position
        for at, header in iter_headers(run.records):
            for record in read_records(run.records, at, header):
                if record.offset >= position:
                    values.append(record.value or b"")
        assert run.next_offset > position
        position = run.next_offset
    return values

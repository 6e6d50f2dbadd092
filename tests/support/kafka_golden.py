"""Data directories that Apache Kafka 3.9.1 wrote (tests/golden/kafka), and what its dump tool and
its broker said of them.

`clean` is a data directory after a controlled shutdown: `plain-0` (four segments, headers,
timestamps out of order), `codecs-0`, `idempotent-0`, `txn-0` (committed and aborted transactions),
`logappend-0`, `compact-0` (gaps, tombstones, an empty first segment), `epochs-0`, and Kafka's own
two topics. `killed/unclean-0` was left by SIGKILL, its indexes at their preallocated size. Segments
are of 16 KiB, the index interval is 1 KiB.
"""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.log.log import Log, LogConfig
from strandline_proto.batch import BatchHeader, Compression, Record, iter_headers, read_records
from strandline_runtime.real import RealFileSystem

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka"
CONFIG = LogConfig(
    segment_bytes=16 << 10, index_interval_bytes=1 << 10, segment_index_bytes=1 << 12
)
CLEAN = sorted(path.name for path in (GOLDEN / "clean").iterdir() if path.is_dir())
CLEAN_WITH_LOG = [name for name in CLEAN if list((GOLDEN / "clean" / name).glob("*.log"))]

Batch = dict[str, Any]


@cache
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text("utf-8"))
    return found


def copy_to(path: Path) -> Path:
    """A copy that may be written to."""
    shutil.copytree(GOLDEN, path)
    return path


def opened(path: Path) -> tuple[DataDirectory, dict[str, Log], list[str]]:
    """The data directory with all its logs by name, and what was reported meanwhile."""
    reports: list[str] = []
    directory = DataDirectory.open(
        RealFileSystem(), str(path), node_id=0, cluster_id=None, new_id=lambda: bytes(range(16))
    )
    logs = {
        f"{found.topic}-{found.partition}": directory.load_log(found, CONFIG, reports.append)
        for found in directory.partitions()
    }
    return directory, logs, reports


def close(directory: DataDirectory, logs: dict[str, Log], epoch: int = 300) -> None:
    """A controlled shutdown."""
    for log in logs.values():
        log.close()
    ends = {(log.topic, log.partition): log.log_end_offset for log in logs.values()}
    starts = {(log.topic, log.partition): log.log_start_offset for log in logs.values()}
    directory.write_recovery_points(ends)
    directory.write_high_watermarks(ends)
    directory.write_log_starts(starts)
    directory.write_clean_shutdown(epoch)
    directory.close()


def expected_batches(folder: str, partition: str) -> list[Batch]:
    """What Kafka's dump tool printed, segment by segment."""
    return [
        {"file": name.rpartition("/")[2], **batch}
        for name, batches in sorted(manifest()["files"].items())
        if name.startswith(f"{folder}/{partition}/")
        for batch in batches
    ]


def described(header: BatchHeader) -> Batch:
    """A header in the words of Kafka's dump tool."""
    time = "LogAppendTime" if header.is_log_append_time else "CreateTime"
    horizon = f"OptionalLong[{header.base_timestamp}]"
    return ({"deleteHorizonMs": horizon} if header.attributes & 0x40 else {}) | {
        "baseOffset": str(header.base_offset),
        "lastOffset": str(header.last_offset),
        "count": str(header.record_count),
        "baseSequence": str(header.base_sequence),
        "producerId": str(header.producer_id),
        "producerEpoch": str(header.producer_epoch),
        "partitionLeaderEpoch": str(header.leader_epoch),
        "isTransactional": str(header.is_transactional).lower(),
        "isControl": str(header.is_control).lower(),
        time: str(header.max_timestamp),
        "size": str(header.size),
        "compresscodec": Compression(header.compression).name.lower(),
        "crc": str(header.crc),
    }


def header_fields(batch: Batch) -> Batch:
    """Those of a batch of the manifest that `described` gives."""
    return {k: v for k, v in batch.items() if k not in ("file", "position", "isvalid", "records")}


def read_all(log: Log, *, max_bytes: int = 4000) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch and its records, as a consumer fetches them."""
    batches = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        run = log.read(offset, max_bytes=max_bytes, limit=log.log_end_offset)
        if not run.records:
            break
        for at, header in iter_headers(run.records):
            batches.append((header, list(read_records(run.records, at, header))))
        offset = run.next_offset
    return batches

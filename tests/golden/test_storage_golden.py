"""Partition directories that Apache Kafka wrote, opened as our own: same batches, same answers."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.storage.directory import DataDirectory
from strandline_broker.storage.log import Log, LogConfig
from strandline_proto.batch import BatchHeader, Compression, iter_headers
from strandline_proto.ids import topic_id_text
from strandline_runtime.real import RealFileSystem

CONFIG = LogConfig(
    segment_bytes=16 << 10, index_interval_bytes=1 << 10, segment_index_bytes=1 << 12
)
GOLDEN = "data/kafka-golden"


@pytest.fixture
def golden(shared_dir: Path, tmp_path: Path) -> Path:
    source = shared_dir / GOLDEN
    if not source.is_dir():
        pytest.skip(f"no {GOLDEN} in the shared folder")
    copy = tmp_path / "golden"
    shutil.copytree(source, copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def opened(path: Path) -> tuple[DataDirectory, dict[str, Log], list[str]]:
    reports: list[str] = []
    directory = DataDirectory.open(
        RealFileSystem(), str(path), node_id=0, cluster_id=None, new_id=lambda: bytes(range(16))
    )
    logs = {
        f"{found.topic}-{found.partition}": directory.load_log(found, CONFIG, reports.append)
        for found in directory.partitions()
    }
    return directory, logs, reports


def manifest_of(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "manifest.json").read_text("utf-8"))
    return found


def described(header: BatchHeader) -> dict[str, str]:
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


def expected_of(golden: Path, folder: str, partition: str) -> list[dict[str, str]]:
    batches = []
    for name, found in sorted(manifest_of(golden)["files"].items()):
        if name.startswith(f"{folder}/{partition}/"):
            batches += [
                {k: v for k, v in b.items() if k not in ("records", "position", "isvalid")}
                for b in found
            ]
    return batches


def test_a_directory_that_kafka_closed_is_opened_as_it_is(golden: Path) -> None:
    before = {p: p.read_bytes() for p in (golden / "clean").rglob("*") if p.is_file()}
    directory, logs, reports = opened(golden / "clean")
    assert (directory.clean, directory.previous_broker_epoch) == (True, 209)
    assert directory.directory_id == "YK23dEnsgaJ44qB3xGABPg"
    assert directory.findings == []
    assert reports == []
    assert len(logs) == 14
    for name, log in logs.items():
        found = [described(h) for h in log.batch_headers(log.log_start_offset)]
        assert found == expected_of(golden, "clean", name), name
        metadata = (golden / "clean" / name / "partition.metadata").read_text()
        assert metadata == f"version: 0\ntopic_id: {topic_id_text(log.topic_id)}"
    kept = {p: b for p, b in before.items() if p.name != ".kafka_cleanshutdown"}
    assert {p: p.read_bytes() for p in kept} == kept


def test_ends_and_epochs_are_those_of_the_checkpoints(golden: Path) -> None:
    _, logs, _ = opened(golden / "clean")
    lines = (golden / "clean/recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    ends = {f"{t}-{p}": int(o) for t, p, o in (line.split(" ") for line in lines)}
    assert {name: log.log_end_offset for name, log in logs.items()} == ends
    assert logs["epochs-0"].leader_epochs.entries == ((0, 0), (2, 25), (4, 50), (6, 75))
    assert logs["epochs-0"].leader_epochs.end_offset_for(3, 75) == (2, 50)


def test_every_batch_is_found_from_every_offset(golden: Path) -> None:
    _, logs, _ = opened(golden / "clean")
    for name, log in logs.items():
        headers = list(log.batch_headers(log.log_start_offset))
        for offset in range(log.log_start_offset, log.log_end_offset):
            holds = next((h for h in headers if h.last_offset >= offset), None)
            run = log.read(offset, max_bytes=1, limit=log.log_end_offset)
            if holds is None:
                assert run.records == b""  # what compaction left behind the last batch
                continue
            found = [h for _, h in iter_headers(run.records)]
            assert found == [holds], (name, offset)
            assert run.next_offset > offset


def test_offsets_for_times_are_what_the_broker_answered(golden: Path) -> None:
    _, logs, _ = opened(golden / "clean")
    for text, offset in manifest_of(golden)["offsets_for_times"]["plain-0"].items():
        found = logs["plain-0"].offset_for_timestamp(int(text))
        assert (-1 if found is None else found[1]) == offset, text


def test_a_directory_that_kafka_left_when_killed_is_recovered_whole(golden: Path) -> None:
    killed = golden / "killed"
    directory, logs, reports = opened(killed)
    log = logs["unclean-0"]
    assert [described(h) for h in log.batch_headers(0)] == expected_of(
        golden, "killed", "unclean-0"
    )
    assert reports == []
    log.close()
    directory.close()
    folder = killed / "unclean-0"
    assert len((folder / f"{0:020d}.index").read_bytes()) == 6 * 8
    assert opened(killed)[1]["unclean-0"].log_end_offset == log.log_end_offset


def test_indexes_rebuilt_from_the_log_are_those_that_kafka_wrote(golden: Path) -> None:
    folder = golden / "clean/plain-0"
    kafkas = {p.name: p.read_bytes() for p in folder.glob("*index")}
    for name in kafkas:
        (folder / name).unlink()
    directory, logs, reports = opened(golden / "clean")
    assert len(reports) == 3
    logs["plain-0"].close()
    directory.close()
    assert {p.name: p.read_bytes() for p in folder.glob("*index")} == kafkas

"""The transactions that Apache Kafka wrote to `txn-0`, written anew: its markers and its index,
byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strandline_proto.batch import build_end_marker, end_marker, iter_headers, prefix
from support.aborted_scan import indexed, on_disk, scan
from support.kafka_golden import CONFIG, GOLDEN, copy_to, opened
from support.producer_log import ProducerLog
from support.storage import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strandline_proto.batch import BatchHeader

TXN = GOLDEN / "clean" / "txn-0"
INDEX = TXN / f"{9:020d}.txnindex"
ENTRIES = [(2, 11, 19, 20), (3, 20, 30, 31), (2, 41, 49, 40)]


def batches() -> Iterator[tuple[bytes, BatchHeader]]:
    for path in sorted(TXN.glob("*.log")):
        data = path.read_bytes()
        for at, header in iter_headers(data):
            yield data[at : at + header.size], header


def test_markers_have_kafkas_bytes() -> None:
    count = 0
    for data, header in batches():
        marker = end_marker(data, 0, header)
        if marker is None:
            continue
        built = build_end_marker(
            header.producer_id, header.producer_epoch, marker, timestamp_ms=header.max_timestamp
        )
        named = prefix(header.base_offset, header.batch_length, header.leader_epoch)
        assert named + built[16:] == data
        count += 1
    assert count > len(ENTRIES)


def test_a_leader_writes_kafkas_index(tmp_path: Path) -> None:
    p = ProducerLog(Store(tmp_path, CONFIG))
    for data, _ in batches():
        p.append(data)
    assert on_disk(p.log) == INDEX.read_bytes()
    assert indexed(p.log) == ENTRIES == scan(p.log)


@pytest.mark.parametrize("size", [1, 300, 1000, 1 << 20])
def test_a_follower_writes_kafkas_index(tmp_path: Path, size: int) -> None:
    leader, follower = (ProducerLog(Store(tmp_path / name, CONFIG)) for name in "lf")
    for data, _ in batches():
        leader.append(data)
    while follower.log.log_end_offset < leader.log.log_end_offset:
        follower.copy_from(leader.log, max_bytes=size)
    assert on_disk(follower.log) == INDEX.read_bytes()


@pytest.mark.parametrize("lost", ["index", "index and snapshots"])
def test_recovery_writes_kafkas_index(tmp_path: Path, lost: str) -> None:
    root = copy_to(tmp_path / "golden") / "clean"
    (root / ".kafka_cleanshutdown").unlink()
    (root / "recovery-point-offset-checkpoint").unlink()
    path = root / "txn-0" / INDEX.name
    path.unlink()
    if "snapshots" in lost:
        for each in path.parent.glob("*.snapshot"):
            each.unlink()
    directory, logs, _ = opened(root)
    assert path.read_bytes() == INDEX.read_bytes()
    assert indexed(logs["txn-0"]) == ENTRIES
    directory.close()


def test_a_reader_of_each_offset_gets_what_kafka_says(tmp_path: Path) -> None:
    """History 34, `two-open-lso`: from each offset, in single batches and all at once."""
    directory, logs, _ = opened(copy_to(tmp_path / "golden") / "clean")
    log = logs["txn-0"]
    for start in range(log.log_end_offset):
        for size in (1, 1 << 20):
            read = log.read(start, max_bytes=size, limit=log.log_end_offset, committed=True)
            expected = [e for e in ENTRIES if e[2] >= start and e[1] < read.next_offset]
            assert list(read.aborted) == expected, (start, size)
    directory.close()

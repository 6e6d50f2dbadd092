"""Our reading of RecordBatch v2 against files that Apache Kafka wrote and what it says of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from strandline_proto import batch
from strandline_proto.batch import BatchHeader, Compression
from strandline_proto.errors import InvalidRecord

GOLDEN = Path(__file__).parents[2] / "golden" / "batch"
ACCOUNT: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "manifest.json").read_text("utf-8"))
NAMES = sorted(ACCOUNT)


def batches_of(name: str) -> tuple[bytes, list[tuple[int, BatchHeader]]]:
    data = (GOLDEN / f"{name}.log").read_bytes()
    return data, list(batch.iter_headers(data))


@pytest.mark.parametrize("name", NAMES)
def test_every_header_reads_as_the_dump_tool_reads_it(name: str) -> None:
    _, found = batches_of(name)
    assert [as_account(at, header) for at, header in found] == [
        {key: value for key, value in entry.items() if key != "records"} for entry in ACCOUNT[name]
    ]


def as_account(at: int, header: BatchHeader) -> dict[str, object]:
    return {
        "position": at,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.leader_epoch,
        "crc": header.crc,
        "record_count": header.record_count,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "codec": Compression(header.compression).name.lower(),
        "transactional": header.is_transactional,
        "control": header.is_control,
        "log_append_time": header.is_log_append_time,
        "max_timestamp": header.max_timestamp,
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_file_is_batches_and_each_matches_its_checksum(name: str) -> None:
    data, found = batches_of(name)
    last_at, last = found[-1]
    assert last_at + last.size == len(data)
    assert all(batch.crc_matches(data, at, header) for at, header in found)


@pytest.mark.parametrize("name", NAMES)
def test_the_records_read_as_the_dump_tool_reads_them(name: str) -> None:
    data, found = batches_of(name)
    for (at, header), entry in zip(found, ACCOUNT[name], strict=True):
        if entry["records"] is None:
            continue
        records = [
            [r.offset, text(r.key), text(r.value)] for r in batch.read_records(data, at, header)
        ]
        assert records == entry["records"]


def text(field: bytes | None) -> str | None:
    return None if field is None else field.decode("utf-8")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "compacted"])
def test_a_batch_that_kafka_wrote_passes_for_one_that_a_producer_sends(name: str) -> None:
    data, found = batches_of(name)
    for at, header in found:
        assert batch.check_batch(data[at : at + header.size]) == header


def test_a_compacted_batch_keeps_its_last_offset_and_is_no_producers_batch() -> None:
    data, found = batches_of("compacted")
    holed = [(at, h) for at, h in found if h.record_count != h.last_offset_delta + 1]
    assert holed, "the golden file holds batches with gaps"
    at, header = holed[0]
    with pytest.raises(InvalidRecord, match="cannot end at offset delta"):
        batch.check_batch(data[at : at + header.size])


def test_assigning_offset_and_epoch_leaves_the_checksum_alone() -> None:
    data, found = batches_of("idempotent")
    at, header = found[0]
    moved = bytearray(data[at : at + header.size])
    moved[:16] = batch.prefix(1_000_000_007, header.batch_length, 41)
    read = batch.read_header(moved)
    assert (read.base_offset, read.leader_epoch) == (1_000_000_007, 41)
    assert batch.check_batch(moved) == read
    assert next(batch.read_records(moved, 0, read)).offset == 1_000_000_007

"""Golden bytes of every format: what is read from them, what is written, what the document shows.

Kafka wrote those of batches (its client library 3.9.1), `snapshot`, `txnindex`,
`leader-epoch-checkpoint`, `cleaner-offset-checkpoint`, `partition.metadata` and the marker.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.storage.directory.clean_shutdown import (
    take_clean_shutdown,
    write_clean_shutdown,
)
from strandline_broker.storage.directory.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from strandline_broker.storage.files.checkpoints import read_offsets, write_offsets
from strandline_broker.storage.files.partition_metadata import (
    read_partition_metadata,
    write_partition_metadata,
)
from strandline_broker.storage.files.sealed_file import SealedFile
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.log.log import LogConfig
from strandline_broker.storage.log.producer_snapshot import ProducerEntry, parse, serialize
from strandline_broker.storage.segment.offset_index import OffsetIndex
from strandline_broker.storage.segment.time_index import TimeIndex
from strandline_broker.storage.segment.txn_index import ENTRY as TXN_ENTRY
from strandline_proto.batch import (
    Compression,
    Record,
    build_batch,
    check_batch,
    crc_matches,
    end_marker_epoch,
    prefix,
    read_header,
    read_records,
)
from strandline_proto.ids import topic_id_text
from strandline_runtime.real import RealFileSystem
from support.storage import Store

TESTS = Path(__file__).parents[3]
DOCUMENT = TESTS.parent / "docs" / "internals" / "storage-format.md"
VECTORS = {
    name: bytes.fromhex(text)
    for name, text in json.loads(
        (TESTS / "golden" / "vectors" / "vectors.json").read_text("utf-8")
    ).items()
}
BATCHES = [name for name in VECTORS if name.startswith("batch-")]
DUMP = re.compile(r"^<!-- vector: (\S+) -->\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DUMP_LINE = re.compile(r"^([0-9a-f]{8}): ((?:[0-9a-f]{2,4} ?){1,8})", re.MULTILINE)
FS = RealFileSystem()

T = 1_700_000_000_000
HELLO = Record(8, T, None, b"hello")
HELLOS = Record(9, T + 250, b"k", b"hello hello hello hello hello")
RECORDS = {
    **{f"batch-{codec.name.lower()}": [HELLO, HELLOS] for codec in Compression},
    "batch-log-append-time": [Record(8, T + 5000, None, b"hello")],
    "batch-idempotent": [HELLO],
    "batch-transactional": [HELLO],
    "batch-commit": [Record(9, T + 300, b"\0\0\0\1", b"\0\0\0\0\0\6")],
    "batch-abort": [Record(9, T + 300, b"\0\0\0\0", b"\0\0\0\0\0\6")],
    "batch-headers": [
        Record(8, T, b"", b"", (("a", b"\1"), ("a", None))),
        Record(9, T - 1, b"k", None),
    ],
    "batch-delete-horizon": [Record(8, T, b"gone", None)],
}
ORDINARY = {"attributes": 0, "base_timestamp": T, "producer_id": -1, "base_sequence": -1}
OF_PRODUCER = {"producer_id": 4000, "producer_epoch": 2, "base_sequence": 17}
END_MARKER = {"attributes": 0x30, "base_timestamp": T + 300, "base_offset": 9}
FIELDS: dict[str, dict[str, Any]] = {
    **{f"batch-{codec.name.lower()}": {"attributes": int(codec)} for codec in Compression},
    "batch-log-append-time": {"attributes": 8, "max_timestamp": T + 5000},
    "batch-idempotent": OF_PRODUCER,
    "batch-transactional": OF_PRODUCER | {"attributes": 0x10},
    "batch-commit": OF_PRODUCER | END_MARKER | {"base_sequence": -1},
    "batch-abort": OF_PRODUCER | END_MARKER | {"base_sequence": -1},
    "batch-headers": {},
    "batch-delete-horizon": {
        "attributes": 0x40,
        "base_timestamp": T + 86_500_000,
        "max_timestamp": T,
        "last_offset_delta": 1,
        "record_count": 1,
    },
}


def test_the_document_shows_every_vector_and_nothing_else() -> None:
    text = DOCUMENT.read_text("utf-8")
    shown = {}
    for name, dump in DUMP.findall(text):
        lines = DUMP_LINE.findall(dump)
        assert [int(at, 16) for at, _ in lines] == list(range(0, 16 * len(lines), 16)), name
        assert len(lines) == dump.count("\n"), f"{name}: a line that is no dump"
        shown[name] = b"".join(bytes.fromhex(line) for _, line in lines)
    assert shown == VECTORS
    in_dumps = sum(len(DUMP_LINE.findall(dump)) for _, dump in DUMP.findall(text))
    assert len(DUMP_LINE.findall(text)) == in_dumps, "a dump without a name"


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_reads_as_its_vector_says(name: str) -> None:
    data = VECTORS[name]
    header = read_header(data)
    assert (header.size, header.magic, header.leader_epoch) == (len(data), 2, 3)
    assert crc_matches(data, 0, header)
    expected = ORDINARY | {"base_offset": 8} | FIELDS[name]
    assert {field: getattr(header, field) for field in expected} == expected
    assert list(read_records(data, 0, header)) == RECORDS[name]
    is_marker = name in ("batch-commit", "batch-abort")
    assert end_marker_epoch(data, 0, header) == (6 if is_marker else None)
    if name != "batch-delete-horizon":  # a producer sends no gaps
        assert check_batch(data) == header


def test_a_batch_is_built_as_kafka_builds_it() -> None:
    built = build_batch(
        [(None, b"hello")],
        timestamp_ms=T,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=17,
    )
    assigned = prefix(8, read_header(built).batch_length, 3) + built[16:]
    assert assigned == VECTORS["batch-idempotent"]


def test_a_log_and_its_indexes_are_written_as_their_vectors_say(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 30, index_interval_bytes=64, segment_index_bytes=1 << 20)
    store = Store(tmp_path / "data", config)
    store.append(b"hello", epoch=3, timestamp_ms=T)
    store.append(b"high", b"water", epoch=3, timestamp_ms=T + 250)
    store.append(b"mark", epoch=5, timestamp_ms=T + 500)
    store.stop(epoch=12)
    for name in ("log", "index", "timeindex"):
        assert (store.log_dir / f"{0:020d}.{name}").read_bytes() == VECTORS[name], name
    assert (store.log_dir / "leader-epoch-checkpoint").read_text() == "0\n2\n3 0\n5 3\n"


def test_indexes_read_as_their_vectors_say() -> None:
    offsets = OffsetIndex.parse(1000, VECTORS["index"])
    times = TimeIndex.parse(1000, VECTORS["timeindex"])
    assert offsets is not None
    assert times is not None
    assert (len(offsets), offsets.last_offset, offsets.last_position) == (2, 1003, 0x9D)
    assert (offsets.floor(1002), offsets.floor(1001)) == (0x49, 0)
    assert (len(times), times.last) == (2, (T + 500, 1003))
    assert offsets.serialize() == VECTORS["index"]
    assert times.serialize() == VECTORS["timeindex"]


def test_a_producer_snapshot_is_read_and_written() -> None:
    entries = (
        ProducerEntry(0, 0, 199, 199, 11, T + 1990, -1, -1),
        ProducerEntry(1, 0, 19, 219, 19, T + 19, -1, -1),
    )
    assert parse(VECTORS["snapshot"]) == entries
    assert serialize(entries) == VECTORS["snapshot"]


def test_an_index_of_aborted_transactions_is_read() -> None:
    entries = [(0, 2, 11, 19, 20), (0, 3, 20, 30, 31), (0, 2, 41, 49, 40)]
    assert list(TXN_ENTRY.iter_unpack(VECTORS["txnindex"])) == entries
    assert b"".join(TXN_ENTRY.pack(*entry) for entry in entries) == VECTORS["txnindex"]


def test_an_epoch_checkpoint_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(VECTORS[path.name])
    epochs = LeaderEpochs.load(FS, str(tmp_path), pytest.fail)
    assert epochs is not None
    assert epochs.entries == ((0, 0), (2, 25), (4, 50), (6, 75))
    path.unlink()
    epochs.write()
    assert path.read_bytes() == VECTORS[path.name]


@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        ("recovery-point-offset-checkpoint", {("orders", 0): 1024, ("late.orders", 12): 0}),
        ("replication-offset-checkpoint", {("orders", 0): 1000, ("late.orders", 12): 0}),
        ("log-start-offset-checkpoint", {("orders", 0): 512, ("late.orders", 12): 0}),
        ("cleaner-offset-checkpoint", {("compact", 0): 1500}),
    ],
)
def test_an_offset_checkpoint_is_read_and_written(
    name: str, offsets: dict[tuple[str, int], int], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(VECTORS[name])
    assert read_offsets(SealedFile(FS, str(path)), pytest.fail) == offsets
    path.unlink()
    write_offsets(SealedFile(FS, str(path)), offsets)
    assert path.read_bytes() == VECTORS[name]


def test_partition_metadata_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(VECTORS[path.name])
    topic_id = read_partition_metadata(FS, str(tmp_path))
    assert topic_id is not None
    assert topic_id_text(topic_id) == "RWe1XpiCS76aPEX2jdfiDg"
    path.unlink()
    write_partition_metadata(FS, str(tmp_path), topic_id)
    assert path.read_bytes() == VECTORS[path.name]


def test_meta_properties_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(VECTORS[path.name])
    meta = MetaProperties(0, "YK23dEnsgaJ44qB3xGABPg", "MkU3OEVBNTcwNTJENDM2Qk")
    assert read_meta_properties(FS, str(tmp_path)) == meta
    path.unlink()
    write_meta_properties(FS, str(tmp_path), meta)
    assert path.read_bytes() == VECTORS[path.name]


def test_the_clean_shutdown_marker_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    path.write_bytes(VECTORS[path.name])
    assert take_clean_shutdown(FS, str(tmp_path), pytest.fail) == 209
    assert not path.exists()
    write_clean_shutdown(FS, str(tmp_path), 209)
    assert path.read_bytes() == VECTORS[path.name]

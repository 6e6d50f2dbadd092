"""`strandline log dump|verify|diff`: what they print, how they end, and what they refuse."""

import errno
import json
import os
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.storage.segment.txn_index import serialize
from strandline_cli.main import run
from strandline_cli.records.log_text import bytes_text, time_text
from strandline_proto.batch import (
    Compression,
    EndMarkerRecord,
    build_batch,
    build_end_marker,
    prefix,
    read_header,
)
from strandline_runtime.real import RealFileSystem
from support.disk import Hurried
from support.hostile import batch_of
from support.storage import SMALL, Store

FIELDS = [
    *("base_offset", "last_offset", "count", "producer_id", "producer_epoch", "base_sequence"),
    *("partition_leader_epoch", "is_transactional", "is_control", "compression", "crc"),
    *("position", "size", "valid"),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Eight batches, the last compressed and of a producer, in two segments, cleanly stopped."""
    store = Store(tmp_path / "data", SMALL, fs=Hurried())
    for i in range(7):
        store.append(b"%d" % i, b"v" * 100, epoch=2, timestamp_ms=1_700_000_000_000 + i)
    batch = build_batch(
        [(b"key", b"\xff\x00"), (None, None)],
        timestamp_ms=1_700_000_000_500,
        compression=Compression.LZ4,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
    )
    store.log.append_as_leader(batch, read_header(batch), leader_epoch=3)
    store.stop()
    return store


def logs(store: Store) -> list[Path]:
    return sorted(store.log_dir.glob("*.log"))


def objects(
    capsys: pytest.CaptureFixture[str], *argv: object, status: int = 0
) -> list[dict[str, Any]]:
    assert run(["log", *map(str, argv), "--format", "json"]) == status
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_dump_has_one_object_for_each_batch(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [batch for path in logs(store) for batch in objects(capsys, "dump", path)]
    assert [list(batch) for batch in found] == [FIELDS] * 8
    assert [(b["base_offset"], b["last_offset"]) for b in found] == [
        (2 * i, 2 * i + 1) for i in range(8)
    ]
    last = logs(store)[-1].read_bytes()
    header = read_header(last, found[-1]["position"])
    assert found[-1] == {
        "base_offset": 14,
        "last_offset": 15,
        "count": 2,
        "producer_id": 9,
        "producer_epoch": 1,
        "base_sequence": 5,
        "partition_leader_epoch": 3,
        "is_transactional": False,
        "is_control": False,
        "compression": "lz4",
        "crc": header.crc,
        "position": len(last) - header.size,
        "size": header.size,
        "valid": True,
    }


def test_a_deep_dump_has_the_records_with_bytes_in_base64(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    last = objects(capsys, "dump", logs(store)[-1], "--deep")[-1]
    assert last["records"] == [
        {
            "offset": 14,
            "timestamp": 1_700_000_000_500,
            "key": "a2V5",
            "value": "/wA=",
            "headers": [],
        },
        {"offset": 15, "timestamp": 1_700_000_000_500, "key": None, "value": None, "headers": []},
    ]
    assert b64decode(last["records"][0]["value"]) == b"\xff\x00"


def test_records_beyond_the_bound_are_named_with_the_option(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = ("--deep", "--max-decompressed-bytes")
    found = objects(capsys, "dump", logs(store)[-1], *bounds, "19")
    assert found[-1]["records"] != []
    assert run(["log", "dump", str(logs(store)[-1]), *bounds, "18"]) == 1
    assert "offset 14: " in (told := capsys.readouterr().err)
    assert "raise --max-decompressed-bytes" in told


def test_a_codec_that_nobody_knows_does_not_end_a_dump(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store.path / "strange.log"
    strange = batch_of(b"x" * 20, 5)
    path.write_bytes(prefix(0, len(strange) - 12, 0) + strange[16:] + logs(store)[0].read_bytes())
    assert run(["log", "dump", str(path), "--deep"]) == 1
    told = capsys.readouterr()
    assert "compression type 5 is not known" in told.err
    assert "value=" in told.out


def test_a_log_may_have_any_name(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    copy = store.path / "saved.log"
    shutil.copy(logs(store)[0], copy)
    assert objects(capsys, "dump", copy) == objects(capsys, "dump", logs(store)[0])


def test_a_directory_is_dumped_segment_by_segment_and_names_the_file(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found = objects(capsys, "dump", store.log_dir)
    assert [b["base_offset"] for b in found] == list(range(0, 16, 2))
    assert sorted({b["file"] for b in found}) == [path.name for path in logs(store)]


def test_what_is_no_batch_is_named_and_the_rest_is_shown(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logs(store)[0]
    data = bytearray(path.read_bytes())
    second = read_header(data).size
    data[second + 70] ^= 1
    third = second + read_header(data, second).size
    data[third + 16] = 1
    path.write_bytes(data)
    assert run(["log", "dump", str(path), "--format", "json"]) == 1
    told = capsys.readouterr()
    found = [json.loads(line) for line in told.out.splitlines()]
    assert [b["valid"] for b in found] == [True, False, *[True] * (len(found) - 2)]
    assert f"at byte {second}: the batch does not match its CRC-32C" in told.err
    assert f"at byte {third}: message format 1" in told.err


def test_the_table_shows_the_same_for_people(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "dump", str(logs(store)[-1]), "--deep"]) == 0
    told = capsys.readouterr().out
    assert "9:1" in told
    assert "lz4" in told
    assert "| 14  2023-11-14T22:13:20.500Z  key='key'  value=0xff00" in told


def test_indexes_and_checkpoints_are_dumped_entry_by_entry(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    offsets = objects(capsys, "dump", logs(store)[0].with_suffix(".index"))
    assert [list(entry) for entry in offsets] == [["offset", "position"]] * len(offsets)
    assert offsets[0]["position"] > 0
    times = objects(capsys, "dump", logs(store)[0].with_suffix(".timeindex"))
    assert times[0]["timestamp"] >= 1_700_000_000_000
    epochs = objects(capsys, "dump", store.log_dir / "leader-epoch-checkpoint")
    assert epochs == [{"epoch": 2, "start_offset": 0}, {"epoch": 3, "start_offset": 14}]
    points = objects(capsys, "dump", store.path / "recovery-point-offset-checkpoint")
    assert points == [{"topic": "t", "partition": 0, "offset": 16}]


def test_index_sanity_gives_a_verdict_on_each_index(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logs(store)[0].with_suffix(".index")
    (verdict,) = objects(capsys, "dump", path, "--index-sanity")
    assert verdict == {"file": path.name, "entries": path.stat().st_size // 8, "sound": True}
    assert run(["log", "dump", str(store.log_dir), "--index-sanity"]) == 0
    assert capsys.readouterr().err.count(", sound") == 2 * len(logs(store))
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)
    (verdict,) = objects(capsys, "dump", path, "--index-sanity", status=1)
    assert verdict["sound"] is False
    assert run(["log", "dump", str(logs(store)[0]), "--index-sanity"]) == 1
    assert "no batch begins at byte" in capsys.readouterr().err


def test_verify_says_sound_with_status_0_and_a_finding_with_status_1(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (store.path, store.log_dir):
        assert run(["log", "verify", str(path)]) == 0
        assert "sound: 8 batches in 1 partitions" in capsys.readouterr().out
    log = logs(store)[0]
    log.write_bytes(log.read_bytes()[:-1])
    assert run(["log", "verify", str(store.path), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["sound"] is False
    assert document["counts"]["damage"] == 1
    (finding,) = document["partitions"][0]["findings"]
    assert finding["file"] == str(log)
    assert {"severity", "invariant", "position", "offset", "what"} < set(finding)
    assert finding["below_recovery_point"] is True
    assert run(["log", "verify", str(store.path)]) == 1
    told = capsys.readouterr().out
    assert f"damage: {log} at byte" in told
    assert "below the recovery point" in told


def test_diff_ends_with_1_only_if_the_replicas_diverge(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "t-0"
    shutil.copytree(store.log_dir, other)
    assert run(["log", "diff", str(store.log_dir), str(other)]) == 0
    assert "identical: offsets 0 to 16 agree" in capsys.readouterr().out
    last = other / logs(store)[-1].name
    last.write_bytes(last.read_bytes()[:-1])
    assert run(["log", "diff", str(store.log_dir), str(other)]) == 0
    assert "B ends 2 offsets before the other; it lacks 2 committed" in capsys.readouterr().out
    first = other / logs(store)[0].name
    first.write_bytes(first.read_bytes()[:70] + b"?" + first.read_bytes()[71:])
    (document,) = [json.loads(_out(capsys, "diff", store.log_dir, other))]
    assert document["outcome"] == "diverged"
    assert document["difference"]["offset"] == 0
    assert document["difference"]["below_high_watermark"] is True


def _out(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    assert run(["log", *map(str, argv), "--format", "json"]) == 1
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_what_cannot_be_read_is_one_line_and_status_2(
    store: Store, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = store.path / "empty"
    empty.mkdir()
    foreign = store.path / "notes.txt"
    foreign.write_text("mine")
    for path, why in (
        (store.path / "nowhere", "does not exist"),
        (empty, "holds no"),
        (foreign, "is no"),
    ):
        assert run(["log", command, str(path)]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("error: ")
        assert why in told.err.replace("holds neither segments", "holds no")
        assert len(told.err.splitlines()) == 1


def test_a_file_that_may_not_be_read_is_refused_by_name(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fs: RealFileSystem, path: str, flags: int, mode: int = 0o644) -> int:
        if path == str(logs(store)[0]):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return os.open(path, flags, mode)

    monkeypatch.setattr(RealFileSystem, "open", refuse)
    for command in ("dump", "verify"):
        assert run(["log", command, str(store.log_dir)]) == 2
        assert f"{logs(store)[0]} may not be read" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "t-0"])
def test_the_directory_of_a_running_broker_is_refused(
    store: Store, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.start()
    path = store.path / below
    assert run(["log", "verify", str(path)]) == 2
    assert "in use by a running broker" in capsys.readouterr().err
    store.kill()
    assert run(["log", "verify", str(path)]) == 0


def test_text_for_people_shows_what_a_terminal_can_show() -> None:
    assert bytes_text(None) == "null"
    assert bytes_text(b"") == "''"
    assert bytes_text("grün".encode()) == "'grün'"
    assert bytes_text(b"\x1b[31m") == "0x1b5b33316d"
    assert bytes_text(b"x" * 100) == f"'{'x' * 60}'... (100 bytes)"
    assert bytes_text(bytes(100)) == f"0x{'00' * 30}... (100 bytes)"
    assert time_text(-1) == "-"
    assert time_text(2**62) == str(2**62)


def test_control_records_are_shown_with_what_they_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{0:020d}.log"
    marker = build_end_marker(7, 2, EndMarkerRecord(False, 5), timestamp_ms=1000)
    path.write_bytes(prefix(0, len(marker) - 12, 0) + marker[16:])
    (found,) = objects(capsys, "dump", path)
    assert found["control_records"] == [{"offset": 0, "kind": "ABORT", "coordinator_epoch": 5}]
    assert (found["is_control"], found["is_transactional"]) == (True, True)
    assert run(["log", "dump", str(path)]) == 0
    out = capsys.readouterr().out
    assert "transactional,control" in out
    assert "endTxnMarker=ABORT  coordinatorEpoch=5" in out
    index = tmp_path / f"{0:020d}.txnindex"
    index.write_bytes(serialize([(7, 3, 9, 10)]))
    assert objects(capsys, "dump", index) == [
        {"producer_id": 7, "first_offset": 3, "last_offset": 9, "last_stable_offset": 10}
    ]
    assert run(["log", "dump", str(index), "--index-sanity"]) == 2
    assert "strandline log verify checks a .txnindex" in capsys.readouterr().err

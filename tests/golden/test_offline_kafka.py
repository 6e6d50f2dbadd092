"""The offline tools on directories that Apache Kafka wrote: what they show is what Kafka's own dump
tool showed, and what they verify is sound.
"""

import json
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.offline.roots import verify
from strandline_cli.main import run
from strandline_runtime.real import RealFileSystem
from support.kafka_golden import GOLDEN

MANIFEST = json.loads((GOLDEN / "manifest.json").read_text("utf-8"))["files"]
LOGS = sorted(name for name in MANIFEST if not name.split("/")[1].startswith("__"))
SAME = {
    "base_offset": "baseOffset",
    "last_offset": "lastOffset",
    "count": "count",
    "producer_id": "producerId",
    "producer_epoch": "producerEpoch",
    "base_sequence": "baseSequence",
    "partition_leader_epoch": "partitionLeaderEpoch",
    "is_transactional": "isTransactional",
    "is_control": "isControl",
    "compression": "compresscodec",
    "crc": "crc",
    "position": "position",
    "size": "size",
    "valid": "isvalid",
}


def dumped(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert run(["log", "dump", str(path), "--format", "json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("name", LOGS)
def test_every_batch_and_record_is_shown_as_kafka_shows_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dumped(GOLDEN / name, capsys, "--deep")
    expected = MANIFEST[name]
    assert len(found) == len(expected)
    for batch, said in zip(found, expected, strict=True):
        assert {ours: str(batch[ours]).lower() for ours in SAME} == {
            ours: said[theirs] for ours, theirs in SAME.items()
        }
        assert len(batch["records"]) == batch["count"]
        for record, told in zip(batch["records"], said["records"], strict=True):
            assert record["offset"] == told["offset"]
            if told.get("value") is not None:
                assert b64decode(record["value"]).decode() == told["value"]


@pytest.mark.parametrize("directory", ["clean", "killed/unclean-0"])
def test_what_kafka_wrote_is_sound(directory: str) -> None:
    for report in verify(RealFileSystem(), str(GOLDEN / directory)):
        assert report.findings == []


def test_the_gaps_of_a_compacted_log_are_lawful_by_the_checkpoint_of_its_cleaner(
    tmp_path: Path,
) -> None:
    root = tmp_path / "clean"
    shutil.copytree(GOLDEN / "clean", root)
    found = {report.path: report for report in verify(RealFileSystem(), str(root))}
    compacted = found[str(root / "compact-0")]
    assert getattr(compacted, "compacted", None) == "the cleaner has come to offset 1500"
    (root / "cleaner-offset-checkpoint").unlink()
    assert not all(report.sound for report in verify(RealFileSystem(), str(root)))
    told = verify(RealFileSystem(), str(root), compacted=True)
    assert all(report.sound for report in told)


def test_a_snapshot_of_kafka_is_shown_producer_by_producer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = dumped(GOLDEN / "clean" / "idempotent-0" / f"{220:020d}.snapshot", capsys)
    assert [(each["producer_id"], each["last_sequence"]) for each in found] == [(0, 199), (1, 19)]

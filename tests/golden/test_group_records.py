"""The group records that Kafka 3.9.1 and 4.3.0 wrote: decoded, written again, put together."""

import json
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.core.groups.records import codec
from strandline_broker.core.groups.records.offset_records import OffsetCommitValue
from strandline_broker.offline.batches import Batch, scan
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.group_fold import Folded, fold
from strandline_broker.offline.group_records import decode
from strandline_broker.offline.records import records_of
from strandline_broker.offline.roots import verify
from strandline_cli.main import run
from strandline_proto.batch import Record
from strandline_proto.decompression import Bound
from strandline_proto.java_hash import partition_for
from strandline_runtime.real import RealFileSystem
from support.kafka_golden import GOLDEN, manifest

KAFKA_39 = GOLDEN / "clean"
KAFKA_43 = GOLDEN.parent / "kafka43"
SAID = json.loads((KAFKA_43 / "manifest.json").read_text("utf-8"))
BOUND = Bound(1 << 20, "a test's")

NAMES = {
    "group": "groupId",
    "regex": "regularExpression",
    "assigned": "assignedPartitions",
    "pending_revocation": "partitionsPendingRevocation",
}
"""Where the fields of one of Kafka's records are not called as ours are."""
UNSAID: dict[str, Any] = {"assignmentEpochs": []}
"""Of absent tagged fields the tool prints the defaults."""


def records(directory: Path) -> list[Record]:
    """All records of a partition, by the offline tools' own reading."""
    found = []
    for path in sorted(directory.glob("*.log")):
        with OpenFile(RealFileSystem(), str(path)) as file:
            for batch in scan(file):
                assert isinstance(batch, Batch)
                found += records_of(file, batch, BOUND)
    return found


def pairs(directory: Path) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records(directory)]


def folded(root: Path) -> dict[int, Folded]:
    """By partition."""
    return {
        int(path.name.rpartition("-")[2]): fold(pairs(path))
        for path in root.glob("__consumer_offsets-*")
    }


def in_kafkas_words(fields: dict[str, Any], kind: str) -> dict[str, Any]:
    said = {}
    for name, value in fields.items():
        words = NAMES.get(name, name).split("_")
        theirs = words[0] + "".join(word.capitalize() for word in words[1:])
        if name == "group" and kind in ("offset_commit", "group_metadata"):
            theirs = "group"
        elif name == "topics" and kind == "target_assignment":
            theirs = "topicPartitions"
        elif name == "rebalance_timeout" and kind == "member":
            theirs = "rebalanceTimeoutMs"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = [in_kafkas_words(each, kind) for each in value]
        said[theirs] = value
    return said


def comparable(said: Any) -> Any:
    """Without what Kafka's tool adds where nothing is, and what it takes apart further than we."""
    if isinstance(said, list):
        return [comparable(each) for each in said]
    if not isinstance(said, dict):
        return said
    return {
        name: comparable(value)
        for name, value in said.items()
        if name not in ("subscription", "assignment")
        and not (name in UNSAID and value == UNSAID[name])
    }


@pytest.mark.parametrize("partition", [0, 1])
def test_each_record_of_kafka_4_3_says_what_kafkas_own_decoder_says(partition: int) -> None:
    told = [record for record in SAID["records"] if record["partition"] == partition]
    found = records(KAFKA_43 / f"__consumer_offsets-{partition}")
    assert len(found) == len(told) > 0
    for record, said in zip(found, told, strict=True):
        assert record.key is not None
        ours = decode(record.key, record.value)
        assert record.offset == said["offset"]
        assert in_kafkas_words(ours.key, ours.kind) == said["key"]["data"]
        if said["value"] is None:
            assert ours.value is None
        else:
            assert ours.value is not None
            assert comparable(in_kafkas_words(ours.value, ours.kind)) == comparable(
                said["value"]["data"]
            )


@pytest.mark.parametrize("root", [KAFKA_39, KAFKA_43], ids=["3.9.1", "4.3.0"])
def test_what_kafka_wrote_is_written_again_byte_for_byte(root: Path) -> None:
    kinds = set()
    for directory in root.glob("__consumer_offsets-*"):
        for key, value in pairs(directory):
            assert key is not None
            found = codec.decode(key, value)
            assert isinstance(found, codec.GroupRecord)
            kinds.add(type(found.key))
            assert codec.encode_key(found.key) == key
            again = None if found.value is None else codec.encode_value(found.value)
            if isinstance(found.value, OffsetCommitValue) and root == KAFKA_39:
                assert (value or b"")[:2] == b"\x00\x03", "of an older version than is written"
                assert codec.decode(key, again) == found
            else:
                assert again == value
    assert len(kinds) == (2 if root == KAFKA_39 else 9)


def test_the_groups_of_kafka_3_9_1_are_those_that_it_had() -> None:
    by_partition = folded(KAFKA_39)
    assert {partition: set(each.groups) for partition, each in by_partition.items()} == {
        0: set(),
        1: set(),
        partition_for("group-1", 3): {"group-1"},
    }
    found = by_partition[partition_for("group-1", 3)]
    committed = {
        f"{topic}-{partition}": value["offset"]
        for (topic, partition), value in found.offsets["group-1"].items()
    }
    assert committed == manifest()["committed"]["group-1"]
    group = found.groups["group-1"].classic
    assert group is not None
    assert (group["generation"], group["protocol"], group["members"]) == (2, None, [])


def test_the_groups_of_kafka_4_3_are_those_that_it_had() -> None:
    by_partition = folded(KAFKA_43)
    offsets: dict[str, dict[str, list[Any]]] = {}
    for at, each in by_partition.items():
        for name, committed in each.offsets.items():
            assert partition_for(name, 2) == at
            offsets[name] = {
                f"{topic}-{partition}": [v["offset"], v["leader_epoch"], v["metadata"]]
                for (topic, partition), v in committed.items()
            }
            assert {v["topic_id"] for v in committed.values()} <= set(SAID["topic_ids"].values())
    assert offsets == SAID["offsets"]
    groups = {name: group for each in by_partition.values() for name, group in each.groups.items()}
    assert sorted(groups) == ["billing", "old-über", "patterns"]
    billing, patterns = groups["billing"], groups["patterns"]
    assert billing.epoch is not None
    assert billing.target_epoch is not None
    assert (billing.epoch["epoch"], billing.target_epoch["assignment_epoch"]) == (4, 4)
    (member,) = billing.members.values()
    assert (member["instance_id"], member["server_assignor"]) == ("till-1", "range")
    for group, wanted in ((billing, ("orders", "gone")), (patterns, ("orders", "orders-late"))):
        (current,) = group.current.values()
        (target,) = group.target.values()
        held = {each["topic_id"]: each["partitions"] for each in current["assigned"]}
        assert set(held) == {SAID["topic_ids"][name] for name in wanted}
        assert held == {each["topic_id"]: each["partitions"] for each in target["topics"]}
        assert current["member_epoch"] == (group.epoch or {})["epoch"]
    assert patterns.expressions["orders.*"]["topics"] == ["orders", "orders-late"]
    old = groups["old-über"].classic
    assert old is not None
    assert [each["group_instance_id"] for each in old["members"]] == ["box"]


def test_the_directories_of_kafka_4_3_are_sound() -> None:
    for partition in (0, 1):
        path = str(KAFKA_43 / f"__consumer_offsets-{partition}")
        for report in verify(RealFileSystem(), path):
            assert report.findings == []


def test_a_dump_shows_what_the_records_say(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(KAFKA_39 / f"__consumer_offsets-{partition_for('group-1', 3)}")
    assert run(["log", "dump", path, "--offsets-decoder"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (codecs,) = [line for line in lines if 'topic="codecs"' in line]
    assert 'offset_commit  group="group-1" topic="codecs" partition=0  offset=185 ' in codecs
    path = str(KAFKA_43 / "__consumer_offsets-1")
    assert run(["log", "dump", path, "--offsets-decoder", "--format", "json"]) == 0
    batches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [record for batch in batches for record in batch["records"]]
    assert found[39]["group_record"] == {
        "kind": "offset_commit",
        "key": {"group": "by-hand", "topic": "orders", "partition": 1},
        "value": None,
    }
    assert run(["log", "dump", path, "--offsets-decoder"]) == 0
    assert "tombstone" in capsys.readouterr().out


def test_a_dump_of_another_topic_by_the_offsets_decoder_complains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(KAFKA_39 / "txn-0" / f"{0:020d}.log")
    assert run(["log", "dump", path, "--offsets-decoder"]) == 1
    assert "no record of __consumer_offsets" in capsys.readouterr().err

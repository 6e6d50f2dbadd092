"""A crash after any byte of a shard's log: each decision is there whole, or not at all (I-107)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.commands import (
    CommitOffsets,
    PartitionCommit,
    RemoveMembers,
    TopicRef,
    TopicsChanged,
)
from strandline_broker.core.groups.records import codec
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_proto.batch import build_batch, iter_headers, read_header, read_records
from support.groups_rig import GroupsRig, durable, joining
from support.memory_disk import MemoryDisk
from support.storage import SMALL, Store

if TYPE_CHECKING:
    from pathlib import Path

    from strandline_broker.storage.log.log import Log

CONFIG: Final = replace(SMALL, segment_bytes=1 << 20)
SEGMENT: Final = "/data/t-0/00000000000000000000.log"


def decided() -> tuple[GroupsRig, list[tuple[Record, ...]]]:
    """What a group has lived through, and the records of each decision that wrote any."""
    rig = GroupsRig()
    rig.topic("t", 3)
    both = tuple(PartitionCommit(TopicRef(name="t"), p, 7) for p in range(3))
    commit = CommitOffsets(group_id="g", partitions=both, member_id="m", member_epoch=1)
    decisions = [rig.run(command).records for command in (joining("m", "t"), commit)]
    rig.topic("t", 4)
    for command in (TopicsChanged("g"), joining("n", "t"), RemoveMembers("g", None)):
        decisions.append(rig.run(command).records)
    assert all(len(records) > 1 for records in decisions)
    return rig, decisions


def loaded(rig: GroupsRig, log: Log) -> dict[str, Any]:
    data = log.read(0, max_bytes=1 << 20, limit=log.log_end_offset).records
    records: list[Record] = []
    for at, header in iter_headers(data):
        for record in read_records(data, at, header):
            found = codec.decode(record.key or b"", record.value)
            assert isinstance(found, codec.GroupRecord)
            records.append(Record(found.key, found.value))
    return durable(rig.load(records))


def test_a_decision_is_whole_or_not_there_after_a_crash_at_any_byte(tmp_path: Path) -> None:
    rig, decisions = decided()
    store = Store(tmp_path / "data", CONFIG)
    ends, states = [0], [durable(rig.load([]))]
    for number, records in enumerate(decisions):
        batch = build_batch(map(codec.encode, records), timestamp_ms=1)
        store.log.append_as_leader(batch, read_header(batch), leader_epoch=0)
        ends.append(ends[-1] + len(batch))
        states.append(durable(rig.load([r for each in decisions[: number + 1] for r in each])))
    store.kill()
    reports: list[str] = []
    disk = MemoryDisk.copy_of(tmp_path / "data")
    assert len(disk.files[SEGMENT]) == ends[-1]
    for at in range(ends[-1] + 1):
        torn = disk.copy()
        torn.change(SEGMENT, lambda data, at=at: data[:at])  # type: ignore[misc]
        directory = DataDirectory.open(
            torn, "/data", node_id=1, cluster_id=None, new_id=lambda: bytes(16)
        )
        (found,) = directory.partitions()
        log = directory.load_log(found, CONFIG, reports.append)
        whole = max(number for number, end in enumerate(ends) if end <= at)
        assert loaded(rig, log) == states[whole], f"cut after {at} bytes"

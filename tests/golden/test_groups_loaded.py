"""The directories of `__consumer_offsets` that Kafka 3.9.1 and 4.3.0 wrote, as a coordinator loads
them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.coordination.decision import Record
from strandline_broker.core.groups.classic.commands import (
    ClassicHeartbeat,
    GroupJoined,
    JoinGroup,
    SyncGroup,
)
from strandline_broker.core.groups.classic.group import GroupState
from strandline_broker.core.groups.commands import (
    DescribeGroup,
    FetchOffsets,
    GroupDescription,
    ListGroups,
    TopicsChanged,
)
from strandline_broker.core.groups.effects import Answer, SessionTimer
from strandline_broker.core.groups.records import codec
from strandline_broker.offline.batches import Batch, scan
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.records import records_of
from strandline_proto.decompression import Bound
from strandline_proto.ids import topic_id_bytes
from strandline_runtime.real import RealFileSystem
from support.groups_rig import GroupsRig, compacted, durable
from support.kafka_golden import GOLDEN, manifest

if TYPE_CHECKING:
    from pathlib import Path

KAFKA_39 = GOLDEN / "clean"
KAFKA_43 = GOLDEN.parent / "kafka43"
SAID = json.loads((KAFKA_43 / "manifest.json").read_text("utf-8"))


def loaded(root: Path) -> GroupsRig:
    """All partitions in one shard; their groups are apart."""
    rig = GroupsRig()
    for directory in sorted(root.glob("__consumer_offsets-*")):
        for path in sorted(directory.glob("*.log")):
            with OpenFile(RealFileSystem(), str(path)) as file:
                for batch in scan(file):
                    assert isinstance(batch, Batch)
                    for record in records_of(file, batch, Bound(1 << 20, "a test's")):
                        assert record.key is not None
                        found = codec.decode(record.key, record.value)
                        assert isinstance(found, codec.GroupRecord)
                        rig.log.append(Record(found.key, found.value))
    rig.groups = rig.load()
    return rig


def committed(rig: GroupsRig, group_id: str) -> dict[str, list[Any]]:
    return {
        f"{found.topic}-{found.partition}": [found.offset, found.leader_epoch, found.metadata]
        for found in rig.ask(FetchOffsets(group_id=group_id)).offsets
    }


def test_kafka_3_9_1_left_one_classic_group_and_its_offsets() -> None:
    rig = loaded(KAFKA_39)
    (group,) = rig.ask(ListGroups()).groups
    assert (group.group_id, group.group_type, group.state) == ("group-1", "Classic", "Empty")
    said = manifest()["committed"]["group-1"]
    assert {where: found[0] for where, found in committed(rig, "group-1").items()} == said


def test_kafka_4_3_left_groups_of_each_kind_and_their_offsets() -> None:
    rig = loaded(KAFKA_43)
    listed = {group.group_id: group for group in rig.ask(ListGroups()).groups}
    kinds = {name: group.group_type for name, group in listed.items() if group.protocol_type}
    assert kinds == {"billing": "Consumer", "patterns": "Consumer", "old-über": "Classic"}
    assert {name: committed(rig, name) for name in SAID["offsets"]} == SAID["offsets"]
    assert set(listed) == set(kinds) | set(SAID["offsets"])
    assert {key.group_id for key in timers(rig)} == set(kinds)


@pytest.mark.parametrize("root", [KAFKA_39, KAFKA_43], ids=["3.9.1", "4.3.0"])
def test_what_compaction_leaves_of_them_loads_the_same(root: Path) -> None:
    rig = loaded(root)
    whole = durable(rig.groups)
    for upto in range(len(rig.log) + 1):
        assert durable(rig.load(compacted(rig.log, upto=upto))) == whole


def test_a_member_that_kafka_knew_goes_on_with_its_epoch() -> None:
    rig = loaded(KAFKA_43)
    for name in ("orders", "gone"):
        rig.topics[name] = (topic_id_bytes(SAID["topic_ids"][name]), 4)
    before = described(rig)
    (member,) = before.members
    answer = rig.beat(member.member_id, member.member_epoch, group_id="billing")
    assert answer.member_epoch == member.member_epoch
    assert answer.assignment == member.assignment
    rig.run(TopicsChanged("billing"))
    again = rig.beat(member.member_id, member.member_epoch, group_id="billing")
    assert again.member_epoch == before.group_epoch + 1
    after = described(rig)
    assert after.state == "Stable"
    assert sum(map(len, after.members[0].assignment.values())) == 8


def test_a_classic_member_that_kafka_knew_goes_on_and_rebalances() -> None:
    rig = loaded(KAFKA_43)
    group = rig.groups.table.classic_group("old-über")
    assert group is not None
    assert group.state is GroupState.STABLE
    (member,) = group.members.values()
    named: dict[str, Any] = {
        "group_id": group.group_id,
        "generation": group.generation,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
    }
    assert rig.ask(ClassicHeartbeat(**named)) is None
    synced = rig.ask(SyncGroup(protocol_type="consumer", protocol=group.protocol, **named))
    assert synced.assignment == member.assignment != b""
    joined = rig.run(
        JoinGroup(
            group_id=group.group_id,
            member_id=member.member_id,
            instance_id=member.instance_id,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=member.protocols,
        )
    )
    (answer,) = [effect.reply for effect in joined.effects if isinstance(effect, Answer)]
    assert isinstance(answer, GroupJoined)
    assert (answer.generation, answer.leader) == (named["generation"] + 1, member.member_id)


def described(rig: GroupsRig) -> GroupDescription:
    found = rig.ask(DescribeGroup("billing"))
    assert isinstance(found, GroupDescription)
    return found


def timers(rig: GroupsRig) -> list[SessionTimer]:
    keys = [timer.key for timer in rig.groups.timers(rig.inputs())]
    return [key for key in keys if isinstance(key, SessionTimer)]

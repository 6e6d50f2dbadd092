"""Whoever asks what is wrong looks at the replicas that may have something, and at no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.replication.replica_condition import RefusedTruncation, ReplicaCondition
from strandline_broker.hosts.member import replica_manager
from strandline_broker.hosts.replica.suspects import Suspects
from strandline_broker.hosts.upkeep import damage_watch
from strandline_broker.hosts.upkeep.damage_watch import condition_of
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange
from strandline_proto.ids import BrokerId, LeaderEpoch, Offset
from support.replica_nodes import TOPIC_ID, Node, decide, run_node, state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from strandline_broker.hosts.replica.partition import Partition

MANY = 12
REFUSED = RefusedTruncation(
    TOPIC_ID, 3, BrokerId(2), LeaderEpoch(1), Offset(0), Offset(0), Offset(0)
)


class FakePartition:
    def __init__(self, key: str) -> None:
        self.key = key


def test_what_is_not_held_any_more_is_forgotten() -> None:
    held: Any = {}
    suspects: Any = Suspects(held)
    gone, kept = FakePartition("a"), FakePartition("b")
    for partition in (gone, kept):
        held[partition.key] = partition
        suspects.add(partition)
    held["a"] = FakePartition("a")
    assert suspects.all() == [kept]
    suspects.add(gone)  # a thread that has found something meanwhile
    assert suspects.all() == [kept]
    assert list(suspects._partitions) == [kept]


def test_what_another_thread_finds_during_a_look_is_kept() -> None:
    held: Any = {}
    suspects: Any = Suspects(held)
    partition = FakePartition("a")
    held["a"] = partition
    suspects.add(partition)

    def finds_nothing(looked_at: object) -> bool:
        suspects.add(looked_at)  # just after it was looked for
        return False

    suspects.settle(partition, finds_nothing)
    assert suspects.all() == [partition]
    suspects.settle(partition, lambda _: True)
    assert suspects.all() == [partition]
    suspects.settle(partition, lambda _: False)
    assert suspects.all() == []


async def with_many(node: Node) -> None:
    """It leads so many partitions, with which nothing is wrong."""
    alone = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
    for index in range(MANY):
        await decide(replace(alone, partition=index), node)
    await node.replicas.damage.look()


def damage(partition: Partition) -> None:
    partition.log.damaged_ranges.set([DamagedRange(0, 5, 0, 0, NOWHERE, "its CRC")])


@pytest.mark.parametrize(
    ("goes_wrong", "expected"),
    [
        (lambda p: p.put_out_of_service("EIO"), ReplicaCondition.OUT_OF_SERVICE),
        (lambda p: p.refuse_history("other"), ReplicaCondition.OUT_OF_SERVICE),
        (lambda p: p.log.state.fail("half-way"), ReplicaCondition.OUT_OF_SERVICE),
        (lambda p: p.refuse_truncation(REFUSED), ReplicaCondition.TRUNCATION_REFUSED),
        (damage, ReplicaCondition.DAMAGED),
    ],
)
async def test_a_heartbeat_looks_at_what_has_gone_wrong_and_at_nothing_else(
    goes_wrong: Callable[[Partition], None],
    expected: ReplicaCondition,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = set[int]()

    def counted(partition: Partition) -> ReplicaCondition | None:
        looked_at.add(partition.key[1])
        return condition_of(partition)

    async with run_node(tmp_path, 1) as node:
        await with_many(node)
        for module in (damage_watch, replica_manager):
            monkeypatch.setattr(module, "condition_of", counted)
        assert node.replicas.offline_replicas() == {}
        assert node.replicas.refused_truncations() == []
        await node.replicas.damage.look()
        assert looked_at == set()
        partition = node.replicas.partitions[TOPIC_ID, 3]
        goes_wrong(partition)
        for _ in range(3):
            assert node.replicas.offline_replicas() == {(TOPIC_ID, 3): expected}
            await node.replicas.damage.look()
        assert looked_at == {3}
        is_refused = expected is ReplicaCondition.TRUNCATION_REFUSED
        assert node.replicas.refused_truncations() == ([REFUSED] if is_refused else [])
        partition.log.state.unusable = None  # so that it can be closed


async def test_what_is_right_again_is_looked_at_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = list[int]()

    def counted(partition: Partition) -> ReplicaCondition | None:
        looked_at.append(partition.key[1])
        return condition_of(partition)

    async with run_node(tmp_path, 1) as node:
        await with_many(node)
        partition = node.replicas.partitions[TOPIC_ID, 3]
        damage(partition)
        partition.refuse_truncation(REFUSED)
        await node.replicas.damage.look()
        assert node.replicas.offline_replicas() == {(TOPIC_ID, 3): ReplicaCondition.DAMAGED}
        partition.log.damaged_ranges.set(())
        await node.replicas.damage.look()
        assert list(node.replicas.offline_replicas().values()) == ["truncation-refused"]
        partition.release_refusal()
        await node.replicas.damage.look()
        monkeypatch.setattr(replica_manager, "condition_of", counted)
        monkeypatch.setattr(damage_watch, "condition_of", counted)
        assert node.replicas.offline_replicas() == {}
        await node.replicas.damage.look()
        assert looked_at == []


async def test_of_a_full_directory_all_are_named_but_for_what_is_worse(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1) as node:
        await with_many(node)
        node.replicas.partitions[TOPIC_ID, 3].put_out_of_service("EIO")
        node.replicas.dirs.directories.full.add(str(tmp_path))
        offline = node.replicas.offline_replicas()
        assert len(offline) == MANY
        assert offline.pop((TOPIC_ID, 3)) == ReplicaCondition.OUT_OF_SERVICE
        assert set(offline.values()) == {ReplicaCondition.DISK_FULL}
        node.replicas.drop(node.replicas.partitions[TOPIC_ID, 4], "it goes")
        assert (TOPIC_ID, 4) not in node.replicas.offline_replicas()

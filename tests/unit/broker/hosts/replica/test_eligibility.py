"""A leader hears which replicas may join it, with the push that says so (I-9, P-58)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember
from strandline_broker.hosts.common.fetch_messages import Position
from strandline_broker.hosts.replica.eligibility import Eligibility
from strandline_broker.hosts.replica.leading import Leading, check_leader
from strandline_proto.batch import build_batch
from strandline_proto.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from support.replica_nodes import decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from strandline_broker.hosts.replica.eligibility import Key
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome


def append(partition: Partition) -> list[ProduceOutcome]:
    done: list[ProduceOutcome] = []
    batch = build_batch([(None, b"v")], timestamp_ms=1)
    check_leader(partition, None).appends.append(batch, acks=-1, on_done=done.append)
    return done


def fetch(partition: Partition, broker: int, offset: int) -> None:
    at = Position(
        partition.leader_epoch, offset, last_fetched_epoch=-1, log_start_offset=0, max_bytes=1
    )
    check_leader(partition, None).on_follower_fetch(at, broker_id=broker, broker_epoch=broker)


async def test_a_produce_request_does_not_wait_for_a_replica_that_the_controller_took_out(
    tmp_path: Path,
) -> None:
    async with (
        run_node(tmp_path / "1", 1) as node,
        run_node(tmp_path / "2", 2) as other,
        run_node(tmp_path / "3", 3) as third,
    ):
        in_sync = state(1, epoch=0, isr=(1, 2, 3))
        await decide(in_sync, node, known=(other, third))
        partition = node.partition
        for follower in (2, 3):
            fetch(partition, follower, 0)
        done = append(partition)
        fetch(partition, 2, 1)
        assert done == []
        out = state(1, epoch=0, isr=(1, 2), partition_epoch=1)
        await decide(out, node, known=(other, third), offline=(3,))
        assert [outcome.error for outcome in done] == [None]
        again = append(partition)
        fetch(partition, 2, 2)
        assert [outcome.error for outcome in again] == [None]
        fetch(partition, 3, 2)
        assert node.proposals == []
        await decide(out, node, known=(other, third))
        fetch(partition, 3, 2)
        (asked,) = node.proposals
        assert [m.broker_id for m in asked.isr] == [1, 2, 3], "it is back, in the same epochs"


async def test_what_one_push_said_of_a_replica_counts_until_another_says_otherwise(
    tmp_path: Path,
) -> None:
    async with run_node(tmp_path / "1", 1) as node, run_node(tmp_path / "2", 2) as other:
        told = state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1)
        await decide(told, node, known=(other,), offline=(2,))
        eligibility = node.replicas.eligibility
        assert (*eligibility.brokers,) == (1, 2)
        assert eligibility.offline(node.partition.key) == (2,)
        assert eligibility.offline((b"u" * 16, 0)) == ()
        newer = state(1, epoch=1, isr=(1,), replicas=(1, 2), min_insync=1)
        await decide(newer, node, known=(other,), offline=(2,))
        fetch(node.partition, 2, 0)
        assert node.proposals == [], "a new leader knows it from its first moment"


@pytest.mark.parametrize("epoch", [0, 1])
async def test_a_push_that_is_half_applied_has_no_leader_ask_for_whom_it_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    tell = Eligibility.tell_leaders
    replicas = (1, 2, 3)

    def after_a_fetch(self: Eligibility, partitions: Mapping[Key, Partition]) -> None:
        for partition in partitions.values():
            fetch(partition, 3, 0)
        tell(self, partitions)

    async with (
        run_node(tmp_path / "1", 1) as node,
        run_node(tmp_path / "2", 2) as other,
        run_node(tmp_path / "3", 3) as third,
    ):
        await decide(state(1, epoch=0, isr=replicas), node, known=(other, third))
        monkeypatch.setattr(Eligibility, "tell_leaders", after_a_fetch)
        out = state(1, epoch=epoch, isr=(1, 2), partition_epoch=1)
        await decide(out, node, known=(other, third), offline=(3,))
        leads_in, asked = node.partition.leader_epoch, list(node.proposals)
    assert leads_in == epoch
    assert asked == [], "it would be let in by that when it is back (I-15, I-16)"


def answered(partition: Partition, isr: tuple[int, ...], *, partition_epoch: int) -> None:
    """The leader hears what is committed as an answer to what it once asked."""
    outcome = IsrAnswer(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        isr=tuple(IsrMember(BrokerId(b), BrokerEpoch(b)) for b in isr),
        partition_epoch=PartitionEpoch(partition_epoch),
        eff_min_insync=1,
    )
    check_leader(partition, None).on_isr_outcome(1, outcome)


@pytest.mark.parametrize("offline", [(), (3,)])
async def test_an_epoch_that_an_answer_told_lets_a_replica_join_once_its_push_has_come(
    tmp_path: Path, offline: tuple[int, ...]
) -> None:
    async with (
        run_node(tmp_path / "1", 1) as node,
        run_node(tmp_path / "2", 2) as other,
        run_node(tmp_path / "3", 3) as third,
    ):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), node, known=(other, third))
        partition = node.partition
        answered(partition, (1, 2), partition_epoch=1)
        fetch(partition, 3, 0)
        assert node.proposals == [], "it may be barred in that epoch (I-15, I-16)"
        out = state(1, epoch=0, isr=(1, 2), partition_epoch=1)
        await decide(out, node, known=(other, third), offline=offline)
        fetch(partition, 3, 0)
        asked = [[m.broker_id for m in proposal.isr] for proposal in node.proposals]
        assert asked == ([] if offline else [[1, 2, 3]])


async def test_whoever_waits_for_the_push_of_an_epoch_joins_with_it(tmp_path: Path) -> None:
    async with (
        run_node(tmp_path / "1", 1) as node,
        run_node(tmp_path / "2", 2) as other,
        run_node(tmp_path / "3", 3) as third,
    ):
        nodes = (node, other, third)
        await decide(state(1, epoch=0, isr=(1,), min_insync=1), *nodes, known=nodes)
        await eventually(lambda: len(node.proposals) == 1, "one of the two is asked for")
        partition = node.partition
        (first,) = {m.broker_id for m in node.proposals[0].isr} - {1}
        answered(partition, (1, first), partition_epoch=1)
        fetch(partition, 5 - first, 0)
        assert len(node.proposals) == 1
        joined = state(1, epoch=0, isr=(1, first), partition_epoch=1, min_insync=1)
        await decide(joined, node, known=nodes)
        await eventually(lambda: len(node.proposals) == 2, "the other one has everything as ever")
        assert {m.broker_id for m in node.proposals[1].isr} == {1, 2, 3}


async def test_a_broker_that_comes_is_told_to_those_whom_the_push_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[int]()
    tell = Leading.on_eligible

    def counted(
        self: Leading, brokers: Mapping[BrokerId, BrokerEpoch], *, offline: Collection[BrokerId]
    ) -> None:
        told.append(self._partition.key[1])
        tell(self, brokers, offline=offline)

    async with run_node(tmp_path / "1", 1) as node, run_node(tmp_path / "2", 2) as other:
        alone = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
        for index in range(12):
            await decide(replace(alone, partition=index), node)
        both = state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1, partition_epoch=1)
        monkeypatch.setattr(Leading, "on_eligible", counted)
        await decide(replace(both, partition=5), node, known=(other,))
        assert sorted(told) == [0, 5], "what `decide` names"
        fetch(node.replicas.partitions[node.partition.key[0], 5], 2, 0)
        (asked,) = node.proposals
        assert [m.broker_id for m in asked.isr] == [1, 2]

"""What the controller may decide about a partition, and which decision is newer."""

from dataclasses import replace

import pytest

from strandline_broker.core.replication.partition_state import PartitionState
from strandline_proto.ids import NO_LEADER, BrokerId
from support.partition_states import A, B, C, member, partition_state


def test_a_sound_decision_has_no_problem() -> None:
    assert partition_state(A, B).problem() is None
    assert partition_state(B, leader=NO_LEADER).problem() is None, "the last member is down"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (partition_state(A, A), "twice"),
        (partition_state(A, B, replicas=(A, B, B)), "twice"),
        (partition_state(A, B, replicas=(A, C)), "not within"),
        (replace(partition_state(A), elr=(BrokerId(9),)), "not within"),
        (replace(partition_state(A, B), elr=(B,)), "share"),
        (partition_state(B, C), "leader 1 is not in the ISR"),
    ],
)
def test_a_decision_that_breaks_the_rules_is_named(state: PartitionState, words: str) -> None:
    assert words in (state.problem() or "")


def test_one_leader_epoch_is_one_leaders() -> None:
    """I-3."""
    known = partition_state(A, B, leader_epoch=5, partition_epoch=7)
    moved = partition_state(A, B, leader=B, leader_epoch=5, partition_epoch=8)
    assert "leader epoch 5 is given to 2, and was 1's" in (moved.problem(known) or "")
    newer = partition_state(A, B, leader=B, leader_epoch=6, partition_epoch=8)
    assert newer.problem(known) is None
    assert partition_state(A, B, leader_epoch=5, partition_epoch=8).problem(known) is None


def test_a_higher_leader_epoch_is_newer_and_then_a_higher_partition_epoch() -> None:
    now = partition_state(A, leader_epoch=5, partition_epoch=7)
    assert partition_state(A, leader_epoch=6, partition_epoch=7).is_newer_than(now)
    assert partition_state(A, leader_epoch=5, partition_epoch=8).is_newer_than(now)
    assert not partition_state(A, leader_epoch=5, partition_epoch=7).is_newer_than(now)
    assert not partition_state(A, leader_epoch=4, partition_epoch=8).is_newer_than(now)


def test_members_are_incarnations() -> None:
    assert member(A, 1) != member(A, 2)
    assert partition_state(A).where == "orders:0"

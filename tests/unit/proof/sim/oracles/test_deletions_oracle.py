"""Who must hold nothing any more of what a leader says is deleted (I-75)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strandline_proof.sim.oracles.controller.decided import Decided
from strandline_proof.sim.oracles.partition.committed import Committed
from strandline_proof.sim.oracles.partition.deletions import DeletionOracle
from strandline_proof.sim.oracles.violation import Violation
from strandline_proto.v1 import delete_records_pb2

ID = b"t" * 16
KEY = ID, 0


def decided(*isr: int, leader_epoch: int, partition_epoch: int) -> Decided:
    return Decided(50 + partition_epoch, (1, 2, 4), isr, isr[0], leader_epoch, partition_epoch)


FORMER = decided(4, 1, leader_epoch=0, partition_epoch=2)
ALONE = decided(4, leader_epoch=0, partition_epoch=3)
ELECTED = decided(1, leader_epoch=1, partition_epoch=4)


class Scene:
    """What was decided one after the other. Broker 4 leads by `goes_by`; None: it leads no more."""

    def __init__(self, *ever: Decided, goes_by: Decided | None, registered: int = 9) -> None:
        leader = None
        if goes_by is not None:
            leader = SimpleNamespace(
                leader_epoch=goes_by.leader_epoch, partition_epoch=goes_by.partition_epoch
            )
        replicas = SimpleNamespace(partitions={KEY: SimpleNamespace(leader=leader)})
        nodes: Any = {"broker-4": SimpleNamespace(process=SimpleNamespace(replicas=replicas))}
        members: Any = {n: SimpleNamespace(name=f"broker-{n}") for n in (1, 2, 4)}
        log = {one.partition_epoch: one for one in ever}
        control: Any = SimpleNamespace(
            partitions={KEY: ever[-1]},
            brokers={n: SimpleNamespace(epoch=registered) for n in members},
            decided=SimpleNamespace(at=lambda key, epoch: log.get(epoch)),
        )
        self.ghost = Committed(0, min_insync=2, always=False)
        ghosts: Any = SimpleNamespace(ghost=lambda key: self.ghost)
        self.oracle = DeletionOracle(nodes, members, control, ghosts)

    def answers(self, low_watermark: int, error_code: int = 0) -> dict[str, int]:
        """Who must begin where, after broker 4 has said so."""
        answer = delete_records_pb2.DeleteRecordsResponse()
        answer.topics.add(topic_id=ID).partitions.add(
            partition=0, error_code=error_code, low_watermark=low_watermark
        )
        self.oracle.overhear("broker-4").on_said(answer)
        return self.ghost.deleted


def test_the_whole_isr_must_have_deleted_what_its_leader_says_is_deleted() -> None:
    scene = Scene(FORMER, goes_by=FORMER)
    assert scene.answers(8) == {"broker-1": 8, "broker-4": 8}
    with pytest.raises(Violation, match=r"I-75.*the log of broker-1 begins at 0"):
        scene.ghost.check_deleted(0, "broker-1")


def test_an_error_says_nothing() -> None:
    assert Scene(FORMER, goes_by=FORMER).answers(-1, error_code=7) == {}


def test_a_leader_is_held_to_the_isr_of_now_until_it_is_deposed() -> None:
    joined = decided(4, 1, leader_epoch=0, partition_epoch=4)
    assert Scene(ALONE, joined, goes_by=ALONE).answers(8) == {"broker-1": 8, "broker-4": 8}


def test_a_deposed_leader_knows_nothing_of_who_had_left_and_was_elected() -> None:
    """It may be elected as it is eligible."""
    assert Scene(FORMER, ALONE, ELECTED, goes_by=ALONE).answers(8) == {}


def test_a_deposed_leader_waits_for_who_was_in_its_isr() -> None:
    deposed = decided(1, leader_epoch=1, partition_epoch=3)
    assert Scene(FORMER, deposed, goes_by=FORMER).answers(8) == {"broker-1": 8}


def test_but_not_for_who_has_registered_anew_since() -> None:
    deposed = decided(1, leader_epoch=1, partition_epoch=3)
    assert Scene(FORMER, deposed, goes_by=FORMER, registered=60).answers(8) == {}


def test_who_leads_no_more_as_it_answers_may_have_gone_by_anything() -> None:
    assert Scene(FORMER, ELECTED, goes_by=None).answers(8) == {}

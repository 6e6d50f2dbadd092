"""Balanced recovery: who leads when nobody is left who is known to be in sync (I-53)."""

import pytest

from strandline_broker.core.controller.brokers.fencing import decide_replica_failed
from strandline_broker.core.controller.log.records import RECOVERED, RECOVERING
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.recovery import decide_recoveries
from strandline_broker.core.push_answer import LogEnd
from strandline_proto.errors import InvalidRequest
from strandline_proto.ids import NO_LEADER, BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, Cluster


class Lost:
    """Three brokers died without a word, broker 1 first; a minimum of 2 was in sync."""

    def __init__(self) -> None:
        self.cluster = Cluster([B1, B2, B3])
        self.topic: TopicId = self.cluster.topic("t", (B1, B2, B3))
        self.ends = LogEnds()
        for broker in (B1, B2, B3):
            self.cluster.fence(broker)
            self.cluster.all_apply()

    def back(self, broker: BrokerId) -> None:
        self.cluster.up(broker)

    def tell(self, broker: BrokerId, last_epoch: int, offset: int) -> None:
        partition = self.cluster.partition(self.topic)
        self.ends.on_told(
            self.cluster.state.brokers[broker],
            partition,
            leader_epoch=partition.leader_epoch,
            end=LogEnd(last_epoch, offset),
        )

    def leader(self) -> int:
        self.cluster.commit(decide_recoveries(self.cluster.state, self.ends))
        return self.cluster.partition(self.topic).leader


@pytest.mark.parametrize(
    ("two", "three", "leads"),
    [((0, 7), (0, 8), B3), ((1, 3), (0, 8), B2), ((0, 8), (0, 8), B2)],
    ids=["longer", "later", "first"],
)
def test_the_greatest_log_leads_when_all_are_back(
    two: tuple[int, int], three: tuple[int, int], leads: BrokerId
) -> None:
    lost = Lost()
    lost.back(B2)
    lost.back(B3)
    lost.tell(B2, *two)
    assert lost.leader() == NO_LEADER, "broker 3 has not said where its log ends"
    lost.tell(B3, *three)
    assert lost.leader() == leads
    partition = lost.cluster.partition(lost.topic)
    assert (partition.isr, partition.elr) == ((leads,), ())
    assert {leads, *partition.last_known_elr} == {B2, B3}, "it may fail before they have its log"
    assert partition.leader_recovery_state == RECOVERING


def test_it_waits_for_all_who_were_in_sync_last() -> None:
    lost = Lost()
    lost.back(B1)
    lost.back(B3)
    for broker in (B1, B3):
        lost.tell(broker, 0, 9)
    assert lost.leader() == NO_LEADER
    assert lost.cluster.partition(lost.topic).elr == (B2,), "it may come back clean"
    lost.cluster.register(B2)
    for broker in (B1, B2, B3):
        lost.tell(broker, 0, 9)
    assert lost.leader() == NO_LEADER, "KAFKA-19522: it is fenced"
    lost.cluster.unfence(B2)
    assert lost.leader() == B1, "who was not in sync leads too, if its log is the greatest"


def test_a_replica_on_another_disk_is_not_back() -> None:
    lost = Lost()
    lost.back(B2)
    lost.cluster.sessions.forget(B3, lost.cluster.state.brokers[B3].epoch)
    lost.cluster.up(B3, directory_id="another")
    for broker in (B2, B3):
        lost.tell(broker, 0, 9)
    assert lost.leader() == NO_LEADER


def test_nothing_is_recovered_while_somebody_may_come_back_in_sync() -> None:
    lost = Lost()
    lost.back(B2)
    lost.tell(B2, 0, 9)
    assert lost.cluster.partition(lost.topic).elr == (B3,)
    assert lost.leader() == NO_LEADER
    lost.cluster.unfence(B3)
    assert lost.leader() == B3
    assert lost.cluster.partition(lost.topic).leader_recovery_state == RECOVERED


def test_the_isr_grows_only_when_the_leader_has_recovered() -> None:
    """I-49."""
    lost = Lost()
    for broker in (B2, B3):
        lost.back(broker)
    for broker in (B2, B3):
        lost.tell(broker, 0, 9)
    assert lost.leader() == B2
    state = lost.cluster.state

    def alter(recovery: int, *isr: BrokerId) -> object:
        at = lost.cluster.partition(lost.topic)
        members = tuple((b, state.brokers[b].epoch) for b in isr)
        proposal = Proposal(lost.topic, 0, at.leader_epoch, at.partition_epoch, members, recovery)
        (verdict,) = lost.cluster.commit(
            decide_alter_partition(state, B2, state.brokers[B2].epoch, [proposal])
        )
        return verdict.error

    assert isinstance(alter(RECOVERING, B2, B3), InvalidRequest)
    assert alter(RECOVERED, B2) is None
    assert isinstance(alter(RECOVERING, B2), InvalidRequest)
    lost.cluster.all_apply()
    assert alter(RECOVERED, B2, B3) is None
    assert lost.cluster.partition(lost.topic).isr == (B2, B3)


def test_where_unclean_elections_are_enabled_the_best_that_lives_leads_at_once() -> None:
    """I-48: of the topic, or of all."""
    for topic in ("t", None):
        lost = Lost()
        lost.back(B1)
        lost.tell(B1, 0, 9)
        assert lost.leader() == NO_LEADER
        lost.cluster.alter("", {"unclean.leader.election.enable": "true"}, topic=topic)
        assert lost.leader() == B1
        partition = lost.cluster.partition(lost.topic)
        assert (partition.isr, partition.elr, partition.last_known_elr) == ((B1,), (), ())
        assert partition.leader_recovery_state == RECOVERING


def test_an_unclean_election_goes_by_what_is_known_and_takes_any_disk() -> None:
    lost = Lost()
    lost.cluster.alter("", {"unclean.leader.election.enable": "true"}, topic="t")
    for broker in (B1, B2):
        lost.cluster.sessions.forget(broker, lost.cluster.state.brokers[broker].epoch)
        lost.cluster.up(broker, directory_id=f"new-{broker}")
    lost.tell(B2, 0, 1)
    assert lost.leader() == B2
    partition = lost.cluster.partition(lost.topic)
    assert partition.directories == ("dir-1", "new-2", "dir-3")


def test_one_that_cannot_apply_its_election_is_not_elected_again_and_again() -> None:
    lost = Lost()
    lost.cluster.alter("", {"unclean.leader.election.enable": "true"}, topic="t")
    lost.back(B1)
    assert lost.leader() == B1
    epoch = lost.cluster.state.brokers[B1].epoch
    lost.cluster.commit(
        decide_replica_failed(
            lost.cluster.state,
            B1,
            epoch,
            topic_id=lost.topic,
            partition=0,
            as_of=lost.cluster.state.last_offset,
        )
    )
    assert lost.leader() == NO_LEADER

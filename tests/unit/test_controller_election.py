"""Elections: who leads, who leaves the ISR, who stays as the last member."""

from dataclasses import replace

from strandline_broker.core.controller.election import elect, electable
from strandline_proto.ids import NO_LEADER
from support.controller_cluster import B1, B2, B3, Cluster


def test_fencing_a_leader_elects_the_first_of_the_rest_in_assignment_order() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B2, B3, B1))
    cluster.fence(B2)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.leader_epoch) == (B3, 1)
    assert partition.isr == (B3, B1)
    assert cluster.state.brokers[B2].fenced


def test_fencing_a_follower_leaves_leader_and_leader_epoch_alone() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B2)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.leader_epoch) == (B1, 0)
    assert partition.isr == (B1, B3)
    assert partition.partition_epoch == 1


def test_the_last_member_of_an_isr_stays_in_it_fenced_and_leaderless() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B1)
    cluster.fence(B2)
    partition = cluster.partition(topic)
    assert partition.isr == (B2,)
    assert partition.leader == NO_LEADER
    assert partition.leader_epoch == 2


def test_a_broker_outside_the_isr_is_not_elected_however_alive() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B1)
    cluster.fence(B2)
    cluster.unfence(B1)
    assert cluster.partition(topic).leader == NO_LEADER
    cluster.unfence(B2)
    assert cluster.partition(topic).leader == B2
    assert cluster.partition(topic).leader_epoch == 3


def test_a_leader_is_unfenced_not_stopping_and_on_the_disk_it_was_in_sync_on() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    partition = cluster.partition(topic)
    brokers = cluster.state.brokers
    assert elect(partition, (B3, B2), brokers) == B2
    for change in (
        {"fenced": True},
        {"in_controlled_shutdown": True},
        {"directory_id": "another"},
    ):
        worse = {**brokers, B2: replace(brokers[B2], **change)}
        assert not electable(partition, B2, worse), change
        assert elect(partition, (B3, B2), worse) == B3
    assert elect(partition, (B2,), {B1: brokers[B1]}) == NO_LEADER
    assert elect(partition, (), brokers) == NO_LEADER

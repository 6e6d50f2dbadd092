"""Elections: who leads, who leaves the ISR, who is eligible after it (I-48, I-50)."""

from dataclasses import replace

from strandline_broker.core.controller.log.records import RECOVERED
from strandline_broker.core.controller.log.startup import decide_start
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.election import elect, electable
from strandline_proto.ids import NO_LEADER, TopicId
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


def test_the_last_member_of_an_isr_leaves_it_empty_and_is_eligible() -> None:
    """I-22, I-23, I-50."""
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B1)
    assert members(cluster, topic) == (B2, (B2,), (B1,), ())
    cluster.fence(B2)
    assert members(cluster, topic) == (NO_LEADER, (), (B1, B2), ())
    assert cluster.partition(topic).leader_epoch == 2


def test_a_broker_outside_isr_and_elr_is_not_elected_however_alive() -> None:
    """P-27: with a minimum of 1 the leader commits alone, and nobody else is eligible."""
    cluster = Cluster([B1, B2], min_insync=1)
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B1)
    cluster.all_apply()
    assert members(cluster, topic) == (B2, (B2,), (), ())
    cluster.fence(B2)
    cluster.unfence(B1)
    assert members(cluster, topic) == (NO_LEADER, (), (B2,), ())
    cluster.unfence(B2)
    assert members(cluster, topic) == (B2, (B2,), (), ())
    assert cluster.partition(topic).leader_epoch == 3


def test_whoever_left_the_isr_below_the_minimum_leads_if_nobody_is_in_it() -> None:
    """I-48: the first of them that lives, and the others stay eligible."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    for broker in (B1, B2, B3):
        cluster.fence(broker)
        cluster.all_apply()
    assert members(cluster, topic) == (NO_LEADER, (), (B2, B3), ())
    cluster.unfence(B1)
    assert cluster.partition(topic).leader == NO_LEADER, "two others may have committed without it"
    cluster.unfence(B3)
    assert members(cluster, topic) == (B3, (B3,), (B2,), ())
    cluster.unfence(B2)
    assert members(cluster, topic) == (B3, (B3,), (B2,), ()), "it joins by catching up"


def test_an_isr_with_the_minimum_leaves_nobody_eligible() -> None:
    """I-50: the leader commits without them from then on."""
    cluster = Cluster([B1, B2, B3], min_insync=3)
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B2)
    assert members(cluster, topic) == (B1, (B1, B3), (B2,), ())
    cluster.unfence(B2)
    at = cluster.partition(topic)
    wish = tuple((b, cluster.state.brokers[b].epoch) for b in (B1, B2, B3))
    proposal = Proposal(topic, 0, at.leader_epoch, at.partition_epoch, wish, RECOVERED)
    epoch = cluster.state.brokers[B1].epoch
    cluster.commit(decide_alter_partition(cluster.state, B1, epoch, [proposal]))
    assert members(cluster, topic) == (B1, (B1, B2, B3), (), ())


def test_a_leader_that_shrinks_its_isr_below_the_minimum_names_the_eligible() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    at = cluster.partition(topic)
    wish = ((B1, cluster.state.brokers[B1].epoch),)
    proposal = Proposal(topic, 0, at.leader_epoch, at.partition_epoch, wish, RECOVERED)
    cluster.commit(decide_alter_partition(cluster.state, B1, wish[0][1], [proposal]))
    assert members(cluster, topic) == (B1, (B1,), (B2, B3), ())
    cluster.fence(B1)
    assert members(cluster, topic) == (B2, (B2,), (B1, B3), ()), "one of them leads at once"


def test_another_minimum_leaves_nobody_eligible_but_where_nobody_leads() -> None:
    """KAFKA-16540: of a topic, or of all."""
    for topic_key in ("t", None):
        cluster = Cluster([B1, B2, B3], min_insync=3)
        topic = cluster.topic("t", (B1, B2, B3))
        cluster.fence(B2)
        cluster.alter("", {"min.insync.replicas": "2"}, topic=topic_key)
        assert members(cluster, topic) == (B1, (B1, B3), (), (B2,))
        cluster.all_apply()
        assert members(cluster, topic) == (B1, (B1, B3), (), ())
        for broker in (B1, B3):
            cluster.fence(broker)
        assert members(cluster, topic) == (NO_LEADER, (), (B1, B3), ())
        cluster.alter("", {"min.insync.replicas": "1"}, topic=topic_key)
        assert members(cluster, topic) == (NO_LEADER, (), (B1, B3), ())


def test_another_default_at_the_start_of_the_controller_leaves_nobody_eligible() -> None:
    cluster = Cluster([B1, B2, B3], min_insync=3)
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B2)
    cluster.commit(decide_start(cluster.state, min_insync_replicas=2))
    assert members(cluster, topic) == (B1, (B1, B3), (), (B2,))


def members(cluster: Cluster, topic: TopicId) -> tuple[object, ...]:
    partition = cluster.partition(topic)
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


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
    assert elect(partition, (), brokers, elr=(B3, B2)) == B2
    assert elect(partition, (B3,), brokers, elr=(B2,)) == B3

"""Controlled shutdown: leaderships move first, and the broker goes when everybody knows (I-84)."""

from strandline_broker.core.controller.brokers.shutdown import decide_shutdown, may_shut_down
from strandline_proto.ids import NO_LEADER, BrokerEpoch, MetadataOffset
from support.controller_cluster import B1, B2, B3, Cluster


def test_leaderships_and_isr_memberships_go_to_others_in_one_batch() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3), (B2, B1, B3))
    before = len(cluster.envelopes)
    assert cluster.shut_down(B1)
    assert len(cluster.envelopes) == before + 1
    assert [cluster.partition(topic, i).leader for i in range(2)] == [B2, B2]
    assert cluster.partition(topic, 1).isr == (B2, B3)
    assert not cluster.state.brokers[B1].fenced
    assert cluster.state.brokers[B1].shutdown_offset == cluster.state.last_offset


def test_the_last_member_is_eligible_and_the_partition_has_no_leader() -> None:
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    cluster.shut_down(B1)
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((), (B1,))
    assert cluster.partition(topic).leader == NO_LEADER
    cluster.up(B1, previous_broker_epoch=cluster.state.brokers[B1].epoch)
    assert cluster.partition(topic).leader == B1


def test_the_offset_that_others_must_reach_is_set_once() -> None:
    cluster = Cluster([B1, B2])
    cluster.shut_down(B1)
    target = cluster.state.brokers[B1].shutdown_offset
    assert not cluster.shut_down(B1)
    cluster.fence(B2)
    assert cluster.state.brokers[B1].shutdown_offset == target


def test_a_fenced_broker_and_another_incarnation_begin_no_shutdown() -> None:
    cluster = Cluster([B1, B2])
    stale = BrokerEpoch(cluster.state.brokers[B1].epoch - 1)
    assert decide_shutdown(cluster.state, B1, stale).records == ()
    cluster.fence(B2)
    assert not cluster.shut_down(B2)


def test_a_broker_goes_when_every_live_broker_has_applied_what_moved_its_leaderships() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2, B3))
    cluster.fence(B3)
    everything = dict.fromkeys((B1, B2), MetadataOffset(10_000))
    assert not may_shut_down(cluster.state, B1, everything), "it has not asked"
    cluster.shut_down(B1)
    target = cluster.state.last_offset
    assert not may_shut_down(cluster.state, B1, {})
    assert not may_shut_down(cluster.state, B1, {B1: target, B2: MetadataOffset(target - 1)})
    assert not may_shut_down(cluster.state, B1, {B2: target})
    assert may_shut_down(cluster.state, B1, {B1: target, B2: target}), "a fenced one is not asked"


def test_a_fenced_or_unknown_broker_may_go_at_once() -> None:
    cluster = Cluster([B1, B2])
    cluster.fence(B1)
    assert may_shut_down(cluster.state, B1, {})
    assert may_shut_down(cluster.state, B3, {})

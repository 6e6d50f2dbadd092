"""Unfencing: only what has learnt that it was fenced may serve again (I-83)."""

from strandline_broker.core.controller.brokers.unfencing import decide_unfence, may_unfence
from strandline_proto.ids import NO_LEADER, BrokerEpoch, MetadataOffset
from support.controller_cluster import B1, B2, Cluster


def test_a_broker_is_unfenced_only_when_it_has_applied_registration_and_fencing() -> None:
    cluster = Cluster()
    epoch = cluster.register(B1)
    assert not may_unfence(cluster.state.brokers[B1], MetadataOffset(epoch - 1))
    assert may_unfence(cluster.state.brokers[B1], MetadataOffset(epoch))
    cluster.unfence(B1)
    cluster.fence(B1)
    fenced_at = cluster.state.last_offset
    assert not may_unfence(cluster.state.brokers[B1], MetadataOffset(fenced_at - 1))
    assert may_unfence(cluster.state.brokers[B1], fenced_at)


def test_another_incarnation_does_not_unfence() -> None:
    cluster = Cluster()
    epoch = cluster.register(B1)
    stale = decide_unfence(
        cluster.state, B1, BrokerEpoch(epoch - 1), applied=cluster.state.last_offset
    )
    assert stale.records == ()


def test_a_stopping_broker_is_not_unfenced() -> None:
    cluster = Cluster([B1])
    cluster.shut_down(B1)
    cluster.fence(B1)
    assert not cluster.unfence(B1)


def test_unfencing_elects_in_the_same_batch_what_the_broker_can_lead() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), (B2, B1))
    cluster.fence(B2)
    cluster.fence(B1)
    assert [cluster.partition(topic, i).leader for i in range(2)] == [NO_LEADER, NO_LEADER]
    before = len(cluster.envelopes)
    cluster.unfence(B1)
    assert len(cluster.envelopes) == before + 1
    assert [cluster.partition(topic, i).leader for i in range(2)] == [B1, B1]
    assert cluster.unfence(B2)
    assert [cluster.partition(topic, i).leader_epoch for i in range(2)] == [2, 3]

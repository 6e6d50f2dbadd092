"""A broker leaves the cluster: it takes nothing new, and at the end nothing of it is left."""

import pytest

from strandline_broker.core.controller.brokers.decommission import (
    decide_decommission,
    decide_unregister,
)
from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from strandline_broker.core.controller.topics.topics import NewTopic, decide_create_topic
from strandline_proto.errors import (
    BrokerIdNotRegistered,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    PolicyViolation,
)
from strandline_proto.ids import BrokerId, TopicId
from support.controller_cluster import B1, B2, B3, DEFAULTS, Cluster


def leave(cluster: Cluster, broker_id: BrokerId, *, undo: bool = False) -> None:
    cluster.commit(decide_decommission(cluster.state, broker_id, undo=undo))


def create(cluster: Cluster, factor: int) -> None:
    wish = NewTopic("new", 6, factor, (), ())
    decision = decide_create_topic(
        cluster.state, wish, defaults=DEFAULTS, topic_id=TopicId(b"n" * 16), validate_only=False
    )
    cluster.commit(decision)


def test_a_broker_that_is_to_leave_gets_no_new_partitions() -> None:
    cluster = Cluster([B1, B2, B3])
    leave(cluster, B2)
    with pytest.raises(InvalidReplicationFactor, match="the 2 live brokers"):
        create(cluster, 3)
    with pytest.raises(InvalidReplicaAssignment, match="decommissioned"):
        cluster.topic("t", (B1, B2))
    create(cluster, 2)
    assert not any(B2 in p.replicas for p in cluster.state.partitions())
    leave(cluster, B2, undo=True)
    cluster.topic("t", (B1, B2))


def test_it_keeps_what_it_has_and_serves_it() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2), (B3, B1))
    leave(cluster, B1)
    assert cluster.partition(topic).leader == B1
    stays, comes = Wish("t", 0, (B2, B1)), Wish("t", 1, (B3, B2))
    outcomes = cluster.commit(decide_reassignments(cluster.state, [stays, comes]))
    assert [o.error for o in outcomes] == [None, None]
    (outcome,) = cluster.commit(decide_reassignments(cluster.state, [Wish("t", 1, (B2, B1, B3))]))
    assert outcome.error is None, "it is still a replica there"
    leave(cluster, B3)
    (outcome,) = cluster.commit(decide_reassignments(cluster.state, [Wish("t", 0, (B2, B3))]))
    assert isinstance(outcome.error, InvalidReplicaAssignment)
    assert "decommissioned" in str(outcome.error)


def test_the_mark_outlasts_the_process_and_the_controller() -> None:
    cluster = Cluster([B1, B2])
    leave(cluster, B1)
    offset = cluster.state.last_offset
    leave(cluster, B1)
    assert cluster.state.last_offset == offset
    cluster.fence(B1)
    cluster.up(B1)
    assert cluster.state.brokers[B1].decommissioning
    assert not cluster.state.brokers[B2].decommissioning
    assert cluster.replayed().brokers == cluster.state.brokers


def test_a_broker_is_forgotten_when_nothing_of_it_is_left() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2))
    cluster.alter("3", {"message.max.bytes": "2000"})
    with pytest.raises(PolicyViolation, match=r"hosts 1 replicas \(t:0\)"):
        decide_unregister(cluster.state, B1)
    with pytest.raises(PolicyViolation, match="shut it down first"):
        decide_unregister(cluster.state, B3)
    cluster.fence(B3)
    cluster.commit(decide_unregister(cluster.state, B3))
    assert B3 not in cluster.state.brokers
    assert not cluster.state.broker_configs.get(B3)
    assert cluster.envelopes[-1].removed_brokers == (B3,)
    with pytest.raises(BrokerIdNotRegistered):
        decide_unregister(cluster.state, B3)
    with pytest.raises(BrokerIdNotRegistered):
        decide_decommission(cluster.state, B3, undo=False)
    cluster.up(B3)
    assert not cluster.state.brokers[B3].decommissioning


def test_only_a_few_of_many_replicas_are_named() -> None:
    cluster = Cluster([B1])
    cluster.topic("t", *[(B1,)] * 4)
    with pytest.raises(PolicyViolation, match=r"4 replicas \(t:0, t:1, t:2, \.\.\.\)"):
        decide_unregister(cluster.state, B1)

"""The index of partitions says what a look at all of them would."""

from strandline_broker.core.controller.log.partition_index import PartitionIndex
from strandline_broker.core.controller.log.snapshot import restore, take
from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from strandline_broker.core.controller.topics.assignment import load_of
from strandline_broker.core.controller.topics.topics import decide_delete_topic
from strandline_proto.ids import NO_LEADER, BrokerId
from support.controller_cluster import B1, B2, B3, Cluster

B4 = BrokerId(4)


def check(state: ControllerState) -> None:
    """By a look at all partitions."""
    index, all_of_them = state.index, list(state.partitions())

    def keys(partitions: list[PartitionRegistration]) -> set[tuple[bytes, int]]:
        return {(p.topic_id, p.index) for p in partitions}

    hosts = {b for p in all_of_them for b in p.replicas}
    assert set(index.hosted) == hosts
    for broker_id in hosts:
        held = [p for p in all_of_them if broker_id in p.replicas]
        assert set(index.hosted[broker_id]) == keys(held)
        assert sorted(p.index for p in state.hosted_by(broker_id)) == sorted(p.index for p in held)
    assert set(index.leaderless) == keys([p for p in all_of_them if p.leader == NO_LEADER])
    assert set(index.led_elsewhere) == keys([p for p in all_of_them if p.leader != p.replicas[0]])
    assert set(index.remembering) == keys([p for p in all_of_them if p.last_known_elr])
    assert set(index.moving) == keys([p for p in all_of_them if p.original])
    assert index.load == load_of(p.replicas for p in all_of_them)


def test_it_follows_every_change_of_a_partition() -> None:
    cluster = Cluster([B1, B2, B3, B4])
    state = cluster.state
    topic = cluster.topic("t", (B1, B2, B3), (B2, B3, B1))
    single = cluster.topic("single", (B3,))
    other = cluster.topic("other", (B4, B1))
    check(state)
    cluster.fence(B3)
    check(state)
    assert set(state.index.leaderless) == {(single, 0)}
    assert state.index.remembering
    cluster.fence(B2)
    assert set(state.index.led_elsewhere) == {(topic, 1), (single, 0)}
    check(state)
    cluster.unfence(B2)
    cluster.unfence(B3)
    check(state)
    wishes = [Wish("t", 0, (B2, B4)), Wish("t", 1, (B4,))]
    assert not any(r.error for r in cluster.commit(decide_reassignments(state, wishes)))
    assert set(state.index.moving) == {(topic, 0), (topic, 1)}
    check(state)
    cancelled = cluster.commit(decide_reassignments(state, [Wish("t", 0, None)]))
    assert [r.error for r in cancelled] == [None]
    check(state)
    restored = ControllerState()
    restore(restored, take(state).values())
    assert restored.index == state.index
    for topic_id in (topic, single, other):
        cluster.commit(decide_delete_topic(state, name="", topic_id=topic_id))
        check(state)
    assert state.index == PartitionIndex()


def test_a_brokers_coming_and_going_concerns_what_it_hosts_alone() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2))
    cluster.topic("u", (B3, B1))
    cluster.topic("v", (B2,))
    cluster.fence(B3)
    assert {topic.name for topic in cluster.envelopes[-1].topics} == {"u"}

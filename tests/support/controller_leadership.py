"""Random elections by command, balances and added partitions, and what must be true of each."""

from hypothesis import strategies as st

from strandline_broker.core.controller.log.state import PartitionRegistration
from strandline_broker.core.controller.partitions.balance import decide_balance
from strandline_broker.core.controller.partitions.leadership import (
    ElectionType,
    ElectionWish,
    decide_elect_leaders,
)
from strandline_broker.core.controller.topics.added_partitions import (
    MorePartitions,
    decide_create_partitions,
)
from strandline_proto.errors import WireError
from strandline_proto.ids import BrokerId, MetadataOffset, TopicId
from support.controller_cluster import Cluster

Before = dict[tuple[TopicId, int], PartitionRegistration]


def _before(cluster: Cluster) -> Before:
    return {(p.topic_id, p.index): p for p in cluster.state.partitions()}


def _check_moves(cluster: Cluster, before: Before) -> int:
    """Leaders alone have changed, each to a live member of its ISR; how many."""
    moved = 0
    for key, old in before.items():
        now = cluster.partition(*key)
        if now == old:
            continue
        moved += 1
        assert now.leader != old.leader
        assert now.leader in old.isr, "I-48"
        assert cluster.state.brokers[now.leader].eligible, "P-27"
        assert (now.isr, now.elr, now.replicas) == (old.isr, old.elr, old.replicas)
        assert now.leader_epoch == old.leader_epoch + 1, "I-3"
        assert now.partition_epoch == old.partition_epoch + 1, "I-30"
    return moved


def elect(cluster: Cluster, data: st.DataObject) -> None:
    before = _before(cluster)
    kind = data.draw(st.sampled_from([ElectionType.PREFERRED, ElectionType.DESIGNATED]))
    names = {topic.topic_id: topic.name for topic in cluster.state.topics.values()}
    wishes = [
        ElectionWish(names[topic_id], index, BrokerId(data.draw(st.integers(0, 4))))
        for topic_id, index in before
    ]
    results = cluster.commit(decide_elect_leaders(cluster.state, kind, wishes))
    assert [(r.topic, r.partition) for r in results] == [(w.topic, w.partition) for w in wishes]
    assert _check_moves(cluster, before) == sum(r.error is None for r in results)
    for key, wish, result in zip(before, wishes, results, strict=True):
        now = cluster.partition(*key)
        assert result.leader == now.leader
        if result.error is None:
            wanted = wish.leader if kind is ElectionType.DESIGNATED else now.replicas[0]
            assert now.leader == wanted


def balance(cluster: Cluster, data: st.DataObject) -> None:
    before, limit = _before(cluster), data.draw(st.integers(1, 4))
    applied = {
        b: MetadataOffset(cluster.state.last_offset - data.draw(st.integers(0, 3)))
        for b in cluster.state.brokers
    }
    done = cluster.commit(decide_balance(cluster.state, applied, percentage=0, limit=limit))
    assert _check_moves(cluster, before) == done.moved <= limit
    assert done.left == 0 or done.moved == limit
    for key, old in before.items():
        now = cluster.partition(*key)
        if now != old:
            assert now.leader == now.replicas[0]
            assert applied[now.leader] >= old.changed_at, "I-94"


def add_partitions(cluster: Cluster, data: st.DataObject) -> None:
    topics = list(cluster.state.topics.values())
    if not topics:
        return
    topic = data.draw(st.sampled_from(topics))
    before, had = _before(cluster), len(topic.partitions)
    wish = MorePartitions(topic.name, had + data.draw(st.integers(-1, 2)))
    try:
        assert had == cluster.commit(
            decide_create_partitions(cluster.state, wish, validate_only=False)
        )
    except WireError:
        assert _before(cluster) == before
        return
    assert {key: p for key, p in _before(cluster).items() if key in before} == before
    assert sorted(topic.partitions) == list(range(wish.count))
    for index in range(had, wish.count):
        assert topic.partitions[index].leader == topic.partitions[index].replicas[0]

"""Envelopes: one for each batch, without a gap, with what changed and nothing else."""

from strandline_broker.core.controller import push
from strandline_broker.core.controller.producer_ids import decide_producer_ids
from strandline_broker.core.controller.topics.topics import decide_delete_topic
from support.controller_cluster import B1, B2, B3, Cluster


def named(envelope: push.MetadataDelta, *, moved: bool = True) -> list[tuple[str, int]]:
    return [
        (topic.name, pushed.partition.index)
        for topic in envelope.topics
        for pushed in topic.partitions
        if pushed.moved is moved
    ]


def test_every_batch_makes_an_envelope_that_follows_the_one_before() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2))
    cluster.commit(decide_producer_ids(cluster.state, B1, cluster.state.brokers[B1].epoch))
    cluster.fence(B1)
    offsets = [e.metadata_offset for e in cluster.envelopes]
    assert [e.prev_metadata_offset for e in cluster.envelopes] == [-1, *offsets[:-1]]
    assert offsets[-1] == cluster.state.last_offset
    empty = cluster.envelopes[-2]
    assert (empty.topics, empty.brokers, empty.removed_topics) == ((), (), ())
    assert not any(e.full for e in cluster.envelopes)


def test_a_new_topic_is_new_and_a_changed_partition_is_not() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2), (B2, B1))
    created = cluster.envelopes[-1]
    assert named(created) == [("t", 0), ("t", 1)]
    assert all(p.is_new for p in created.topics[0].partitions)
    cluster.fence(B1)
    fenced = cluster.envelopes[-1]
    assert named(fenced) == [("t", 0), ("t", 1)]
    assert not any(p.is_new for p in fenced.topics[0].partitions)
    assert [(b.broker_id, b.fenced) for b in fenced.brokers] == [(B1, True)]


def test_clients_hear_of_offline_replicas_of_partitions_that_did_not_change() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2))
    cluster.topic("u", (B3,))
    cluster.fence(B2)
    cluster.unfence(B2)
    back = cluster.envelopes[-1]
    assert named(back) == []
    assert named(back, moved=False) == [("t", 0)]
    cluster.fence(B2)
    gone = cluster.envelopes[-1]
    assert named(gone) == [("t", 0)], "out of the ISR already: who asked for it to join must hear"
    assert gone.topics[0].partitions[0].offline_replicas == ((B2, None),)


def test_whatever_changes_of_a_broker_all_partitions_with_a_replica_there_are_named() -> None:
    """Leaders hear by that who may be in their ISRs, and nothing else tells them (I-9)."""
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2), (B3, B1), (B2, B3))
    cluster.topic("u", (B2, B1), (B1, B3))
    with_b2 = {("t", 0), ("t", 2), ("u", 0)}

    def last() -> set[tuple[str, int]]:
        envelope = cluster.envelopes[-1]
        return {*named(envelope), *named(envelope, moved=False)}

    cluster.fence(B2)
    assert last() == with_b2
    cluster.unfence(B2)
    assert last() == with_b2
    cluster.shut_down(B2)
    assert last() == with_b2
    cluster.register(B2)
    assert last() == with_b2
    cluster.unfence(B2)
    assert last() == with_b2


def test_a_deletion_names_the_replicas_that_are_to_go() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2), (B2, B1))
    cluster.commit(decide_delete_topic(cluster.state, name="t", topic_id=b""))
    envelope = cluster.envelopes[-1]
    assert envelope.topics == ()
    assert envelope.removed_topics == (push.RemovedTopic(topic, ((0, (B1, B2)), (1, (B2, B1)))),)


def test_a_snapshot_holds_everything_and_stands_where_the_log_ends() -> None:
    cluster = Cluster([B1, B2])
    cluster.topic("t", (B1, B2), segment_bytes="1000")
    cluster.topic("empty-after", (B2,))
    cluster.commit(decide_delete_topic(cluster.state, name="empty-after", topic_id=b""))
    cluster.fence(B2)
    snapshot = push.snapshot(cluster.state)
    assert snapshot.full
    assert snapshot.metadata_offset == cluster.state.last_offset
    assert snapshot.controller_epoch == 1
    assert named(snapshot) == [("t", 0)]
    assert snapshot.topics[0].configs == (("segment.bytes", "1000"),)
    assert not snapshot.topics[0].partitions[0].is_new
    assert snapshot.topics[0].partitions[0].isr_with_epochs == (
        (B1, cluster.state.brokers[B1].epoch),
    )
    assert [(b.broker_id, b.fenced) for b in snapshot.brokers] == [(B1, False), (B2, True)]

"""Fencing: one incarnation, one atomic batch, and a partition that a broker cannot carry."""

from functools import partial

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.brokers.fencing import (
    decide_expire,
    decide_fence,
    decide_overdue,
    decide_replica_failed,
)
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.partitions.election import lead_again
from strandline_proto.ids import NO_LEADER, BrokerEpoch, BrokerId, MetadataOffset
from support.controller_cluster import B1, B2, B3, SESSION_MS, Cluster


def test_fencing_is_one_batch_with_everything_it_causes() -> None:
    cluster = Cluster([B1, B2, B3])
    cluster.topic("t", (B1, B2), (B2, B1), (B3, B2))
    before = len(cluster.envelopes)
    cluster.fence(B1)
    assert len(cluster.envelopes) == before + 1
    moved = [p.partition.index for t in cluster.envelopes[-1].topics for p in t.partitions]
    assert moved == [0, 1]


def test_only_the_incarnation_that_was_meant_is_fenced_and_only_once() -> None:
    cluster = Cluster([B1])
    old = cluster.state.brokers[B1].epoch
    assert decide_fence(cluster.state, B1, BrokerEpoch(old - 1)).records == ()
    assert decide_fence(cluster.state, B2, old).records == ()
    assert cluster.fence(B1)
    assert not cluster.fence(B1)


def test_a_broker_that_was_heard_while_its_end_waited_in_the_queue_is_not_fenced() -> None:
    cluster = Cluster([B1])
    epoch = cluster.state.brokers[B1].epoch

    def expire() -> bool:
        return cluster.commit(
            decide_expire(cluster.state, cluster.sessions, B1, epoch, now_ms=cluster.now_ms)
        )

    cluster.now_ms = SESSION_MS
    cluster.sessions.on_heard(B1, epoch, cluster.now_ms)
    assert not expire()
    assert cluster.sessions.is_alive(B1, cluster.now_ms)
    cluster.now_ms += SESSION_MS
    assert expire()
    assert cluster.state.brokers[B1].fenced
    assert cluster.sessions.oldest_expired(cluster.now_ms) is None, "its session is over"


def test_a_leader_that_went_on_while_its_end_waited_in_the_queue_is_not_fenced() -> None:
    """I-94: a slow disk of the controller's is no broker's fault."""
    cluster = Cluster([B1])
    epoch, elected = cluster.state.brokers[B1].epoch, MetadataOffset(50)
    applied = Applied()
    applied.on_registered(B1, epoch)
    applied.on_elected(B1, elected, 0)

    def fence() -> bool:
        known = (cluster.state, cluster.sessions, applied)
        return cluster.commit(decide_overdue(*known, B1, epoch, now_ms=SESSION_MS + 101))

    applied.on_progress(B1, epoch, 1, 101)
    assert not fence(), "it has come to another partition"
    applied.on_applied(B1, epoch, elected)
    assert not fence(), "it has applied its election"
    applied.on_elected(B1, MetadataOffset(51), 100)
    applied.on_registered(B1, BrokerEpoch(epoch + 1))
    assert not fence(), "another process owes nothing"


def test_a_leader_that_leaves_its_election_unapplied_is_fenced() -> None:
    cluster = Cluster([B1])
    epoch = cluster.state.brokers[B1].epoch
    applied = Applied()
    applied.on_registered(B1, epoch)
    applied.on_elected(B1, MetadataOffset(50), 0)
    applied.on_progress(B1, epoch, 1, 100)
    overdue = partial(decide_overdue, cluster.state, cluster.sessions, applied, B1)
    before, now_ms = BrokerEpoch(epoch - 1), SESSION_MS + 101
    assert not cluster.commit(overdue(before, now_ms=now_ms)), "another process was meant"
    assert not cluster.commit(overdue(epoch, now_ms=now_ms - 1))
    assert cluster.commit(overdue(epoch, now_ms=now_ms))
    assert cluster.state.brokers[B1].fenced


def test_a_replica_that_cannot_be_applied_is_elected_around() -> None:
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    epoch = cluster.state.brokers[B1].epoch

    def fail(as_of: int) -> bool:
        return cluster.commit(
            decide_replica_failed(
                cluster.state, B1, epoch, topic_id=topic, partition=0, as_of=MetadataOffset(as_of)
            )
        )

    assert not fail(cluster.partition(topic).changed_at - 1), "older news than the partition"
    assert fail(cluster.partition(topic).changed_at)
    partition = cluster.partition(topic)
    assert (partition.leader, partition.isr) == (B2, (B2, B3))
    assert not cluster.state.brokers[B1].fenced
    assert not fail(cluster.state.last_offset), "it is out of the ISR already"


def test_news_of_a_failure_is_not_old_because_somebody_else_left() -> None:
    """I-94: a broker whose disk hangs may say so once, and then nothing for long."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    before_election = cluster.state.last_offset
    cluster.fence(B1)
    as_of, epoch = cluster.partition(topic).changed_at, cluster.partition(topic).leader_epoch
    cluster.fence(B3)
    after = cluster.partition(topic)
    assert (after.leader, after.leader_epoch, after.isr) == (B2, epoch, (B2,))
    assert after.changed_at > as_of
    failed = partial(
        decide_replica_failed,
        cluster.state,
        B2,
        cluster.state.brokers[B2].epoch,
        topic_id=topic,
        partition=0,
    )
    assert not cluster.commit(failed(as_of=before_election)), "its election is not answered yet"
    assert cluster.commit(failed(as_of=as_of))
    assert cluster.partition(topic).leader == NO_LEADER


def test_a_failed_last_member_leads_no_more_and_is_not_asked_again_and_again() -> None:
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,))
    epoch = cluster.state.brokers[B1].epoch
    for expected in (True, False):
        done = cluster.commit(
            decide_replica_failed(
                cluster.state,
                B1,
                epoch,
                topic_id=topic,
                partition=0,
                as_of=cluster.state.last_offset,
            )
        )
        assert done is expected
    assert cluster.partition(topic).leader == NO_LEADER
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((), (B1,))


def test_two_who_cannot_apply_their_election_do_not_take_turns() -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", (B1, B2))

    def fail(broker: BrokerId, *unfit: BrokerId) -> int:
        cluster.commit(
            decide_replica_failed(
                cluster.state,
                broker,
                cluster.state.brokers[broker].epoch,
                topic_id=topic,
                partition=0,
                as_of=cluster.state.last_offset,
                unfit=unfit,
            )
        )
        return cluster.partition(topic).leader

    assert fail(B1) == B2
    assert fail(B2, B1) == NO_LEADER
    assert cluster.partition(topic).elr == (B1, B2)


def test_who_is_left_in_sync_and_cannot_apply_it_either_stays_eligible() -> None:
    """I-22: where nobody leads, nobody is in sync."""
    cluster = Cluster([B1, B2, B3])
    topic = cluster.topic("t", (B1, B2, B3))
    failed = partial(
        decide_replica_failed,
        cluster.state,
        B1,
        cluster.state.brokers[B1].epoch,
        topic_id=topic,
        partition=0,
        as_of=cluster.state.last_offset,
    )
    cluster.commit(failed(unfit=(B2, B3)))
    seen = cluster.partition(topic)
    assert (seen.leader, seen.isr, seen.elr) == (NO_LEADER, (), (B1, B2, B3))
    cluster.commit(Decision(lead_again(cluster.state, B3, cluster.state.brokers), answer=None))
    seen = cluster.partition(topic)
    assert (seen.leader, seen.isr) == (B1, (B1,))


def test_who_is_eligible_leads_where_all_who_are_in_sync_cannot_apply_it() -> None:
    """I-48, I-88: with both in sync held up by their disks, the third has all that is committed."""
    cluster = Cluster([B1, B2, B3], min_insync=3)
    topic = cluster.topic("t", (B1, B2, B3))
    cluster.fence(B3)
    cluster.unfence(B3)
    seen = cluster.partition(topic)
    assert (seen.isr, seen.elr) == ((B1, B2), (B3,))
    failed = decide_replica_failed(
        cluster.state,
        B1,
        cluster.state.brokers[B1].epoch,
        topic_id=topic,
        partition=0,
        as_of=cluster.state.last_offset,
        unfit=(B1, B2),
    )
    cluster.commit(failed)
    seen = cluster.partition(topic)
    assert (seen.leader, seen.isr, seen.elr) == (B3, (B3,), (B1, B2))

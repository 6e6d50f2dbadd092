"""Who may lead again without having been fenced: whoever has applied all that there is (I-88)."""

from strandline_broker.core.controller.brokers.fencing import decide_replica_failed
from strandline_broker.core.controller.partitions.leaderless import decide_lead_again
from strandline_broker.core.controller.partitions.reassignment import Wish, decide_reassignments
from strandline_proto.ids import NO_LEADER, BrokerEpoch, MetadataOffset, TopicId
from support.controller_cluster import B1, B2, Cluster


def leaderless() -> tuple[Cluster, TopicId]:
    """Two partitions of which broker 1 is the only member, and leads neither."""
    cluster = Cluster([B1])
    topic = cluster.topic("t", (B1,), (B1,))
    epoch = cluster.state.brokers[B1].epoch
    for index in range(2):
        as_of = cluster.state.last_offset
        cluster.commit(
            decide_replica_failed(
                cluster.state, B1, epoch, topic_id=topic, partition=index, as_of=as_of
            )
        )
    assert leaders(cluster, topic) == [NO_LEADER, NO_LEADER]
    return cluster, topic


def leaders(cluster: Cluster, topic: TopicId) -> list[int]:
    return [cluster.partition(topic, index).leader for index in range(2)]


def elect(
    cluster: Cluster, *failed: tuple[TopicId, int], as_of: int, epoch: int | None = None
) -> bool:
    if epoch is None:
        epoch = cluster.state.brokers[B1].epoch
    return cluster.commit(
        decide_lead_again(
            cluster.state,
            B1,
            BrokerEpoch(epoch),
            failed=set(failed),
            as_of=MetadataOffset(as_of),
        )
    )


def test_all_that_was_applied_has_a_leader_again_in_one_batch() -> None:
    cluster, topic = leaderless()
    before = len(cluster.envelopes)
    assert elect(cluster, as_of=cluster.state.last_offset)
    assert leaders(cluster, topic) == [B1, B1]
    assert len(cluster.envelopes) == before + 1
    assert not elect(cluster, as_of=cluster.state.last_offset)


def test_what_could_not_be_applied_stays_without_a_leader() -> None:
    cluster, topic = leaderless()
    assert elect(cluster, (topic, 1), as_of=cluster.state.last_offset)
    assert leaders(cluster, topic) == [B1, NO_LEADER]


def test_what_changed_after_the_snapshot_waits_for_a_later_one() -> None:
    cluster, topic = leaderless()
    assert elect(cluster, as_of=cluster.state.last_offset - 1)
    assert leaders(cluster, topic) == [B1, NO_LEADER]


def test_what_changed_without_a_new_leader_epoch_after_the_snapshot_is_led_again() -> None:
    """I-88: the broker does not ask for everything again because of that."""
    cluster, topic = leaderless()
    as_of = cluster.state.last_offset
    cluster.up(B2)
    cluster.commit(decide_reassignments(cluster.state, [Wish("t", 0, (B1, B2))]))
    assert cluster.partition(topic).changed_at > as_of
    assert elect(cluster, as_of=as_of)
    assert leaders(cluster, topic) == [B1, B1]


def test_an_earlier_incarnation_a_fenced_broker_and_an_unknown_one_elect_nobody() -> None:
    cluster, topic = leaderless()
    assert not elect(cluster, as_of=99, epoch=cluster.state.brokers[B1].epoch - 1)
    cluster.fence(B1)
    assert not elect(cluster, as_of=cluster.state.last_offset)
    assert not cluster.commit(
        decide_lead_again(
            cluster.state, B2, BrokerEpoch(1), failed=set(), as_of=cluster.state.last_offset
        )
    )
    assert leaders(cluster, topic) == [NO_LEADER, NO_LEADER]

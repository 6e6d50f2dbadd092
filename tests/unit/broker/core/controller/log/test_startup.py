"""The start of a controller: a new epoch, and a changed default that leaders hear of (I-91)."""

from strandline_broker.core.controller.log.records import BrokerConfigRecord, PartitionChangeRecord
from strandline_broker.core.controller.log.startup import decide_start
from strandline_proto.ids import NO_LEADER
from support.controller_cluster import B1, B2, Cluster


def test_each_start_is_a_new_controller_epoch() -> None:
    cluster = Cluster()
    assert cluster.state.controller_epoch == 1
    assert cluster.commit(decide_start(cluster.state, min_insync_replicas=2)) == 2
    assert cluster.state.controller_epoch == 2
    assert len(cluster.log) == 3, "the default is written only when it changes"
    cluster.commit(decide_start(cluster.state, min_insync_replicas=2, unclean_election=True))
    cluster.commit(decide_start(cluster.state, min_insync_replicas=2, unclean_election=True))
    assert len(cluster.log) == 6


def test_a_changed_default_raises_the_partition_epochs_of_the_topics_it_changes() -> None:
    cluster = Cluster([B1, B2], min_insync=2)
    plain = cluster.topic("plain", (B1, B2))
    own = cluster.topic("own", (B1, B2), min_insync_replicas="2")
    cluster.commit(decide_start(cluster.state, min_insync_replicas=1))
    assert cluster.partition(plain).partition_epoch == 1
    assert cluster.partition(plain).leader_epoch == 0
    assert cluster.partition(own).partition_epoch == 0
    (pushed,) = cluster.envelopes[-1].topics
    assert pushed.partitions[0].effective_min_isr == 1
    dynamic = cluster.envelopes[-1].dynamic
    assert dynamic is not None, "brokers show where a topic's minimum comes from"
    assert dynamic.controller == {"min.insync.replicas": "1"}


def test_a_changed_default_that_was_altered_at_run_time_changes_no_partition() -> None:
    cluster = Cluster([B1, B2], min_insync=2)
    topic = cluster.topic("t", (B1, B2))
    cluster.state.replay(
        BrokerConfigRecord(key="min.insync.replicas", value="2"), cluster.state.next_offset
    )
    cluster.commit(decide_start(cluster.state, min_insync_replicas=1))
    assert cluster.partition(topic).partition_epoch == 0
    assert cluster.state.min_insync_default == "2"


def test_a_last_member_of_an_older_log_is_eligible_after_the_start() -> None:
    """I-22, I-23: before eligible leader replicas it stayed in the ISR, fenced and leaderless."""
    cluster = Cluster([B1, B2], min_insync=1)
    topic = cluster.topic("t", (B1, B2))
    cluster.fence(B2)
    cluster.state.replay(
        PartitionChangeRecord(topic_id=topic, partition=0, leader=NO_LEADER),
        cluster.state.next_offset,
    )
    assert cluster.partition(topic).isr == (B1,)
    cluster.commit(decide_start(cluster.state, min_insync_replicas=1))
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((), (B1,))
